/* SPDX-License-Identifier: Apache-2.0 */
/* Making and growing the segment of this process. Who takes over what it leaves: recover.c. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "capo/msg.h"
#include "core/base/file.h"
#include "core/base/write_signals.h"
#include "core/log/alive.h"
#include "core/log/segment.h"
#include "core/log/segment_calls.h"

#define RING_LEAST  64u  /* records */
#define RING_SCARCE 512u /* below this many a folder with little room is left alone */

/* Segments of one pid and start time: one that the image before exec() left, and those of pid 1 in
 * containers that share /dev/shm and /proc, or that started in the same hundredth of a second. */
#define NAMES 1000

/* posix_fallocate() with signals held back: up to Linux 6.8 a tmpfs gives up, with EINTR, as soon
 * as one is to be delivered, and a profiler sends many. */
static int allocate_range(int fd, uint64_t begin, uint64_t size)
{
        sigset_t all, before;
        int r;

        sigfillset(&all);
        sigemptyset(&before);
        capo_signal_mask(SIG_SETMASK, &all, &before);
        r = posix_fallocate(fd, (off_t)begin, (off_t)size);
        capo_signal_mask(SIG_SETMASK, &before, NULL);
        return -r;
}

/* ---- the file ---- */

/* Free bytes of the folder; all of it counts as free if the file system does not say (hugetlbfs,
 * some network file systems). */
static uint64_t free_bytes(const char *dir)
{
        struct statvfs s;

        return statvfs(dir, &s) || !s.f_blocks ? UINT64_MAX : s.f_bavail * (uint64_t)s.f_frsize;
}

/* The file, and its header mapped; or -errno. */
static int create_file(struct capo_segment *seg, const char *dir, void **out)
{
        CAPO_NO_WRITE_SIGNALS;
        const uint64_t since = capo_alive_since(getpid()),
                       header = capo_step_end(sizeof(struct capo_segment_header));
        struct stat st;
        int r, fd = -1;
        void *p;

        seg->budget = free_bytes(dir) / 4;
        for (int n = 0; n < NAMES && fd < 0; n++) {
                char suffix[8] = "";

                if (n)
                        snprintf(suffix, sizeof suffix, ".%d", n);
                if (snprintf(seg->path, sizeof seg->path, "%s/capo-%u-%d-%" PRIu64 "%s", dir,
                             (unsigned)geteuid(), (int)getpid(), since,
                             suffix) >= (int)sizeof seg->path)
                        return -ENAMETOOLONG;
                fd = open(seg->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
                if (fd < 0 && errno != EEXIST)
                        return -errno;
        }
        if (fd < 0)
                return -EEXIST;
        fd = capo_file_high(&fd);
        r = capo_alive_lock(fd);
        if (r == 0)
                r = header > seg->budget ? -ENOSPC : allocate_range(fd, 0, header);
        if (r == 0 && fstat(fd, &st))
                r = -errno;
        if (r == 0) {
                p = mmap(NULL, header, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
                if (p == MAP_FAILED)
                        r = -errno;
        }
        if (r < 0) {
                unlink(seg->path);
                close(fd);
                return r;
        }
        seg->budget -= header;
        seg->fd = fd;
        seg->dev = st.st_dev;
        seg->ino = st.st_ino;
        *out = p;
        return 0;
}

int capo_segment_create(struct capo_segment *seg, const char *dir,
                        const struct capo_segment_config *config)
{
        struct capo_segment_header *plan = capo_map_own(sizeof *plan); /* not on a small stack */
        void *p = NULL;
        int r;

        *seg = (struct capo_segment){.fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
        if (!plan)
                return -ENOMEM;
        capo_segment_lay_out(plan, config);
        if (capo_pieces_lay(seg, plan) < 0) {
                munmap(plan, sizeof *plan);
                return -ENOMEM;
        }
        r = create_file(seg, dir, &p);
        if (r < 0) {
                seg->path[0] = 0;
                capo_warn("no recording memory in %s: %s; a kill will lose the last calls", dir,
                          strerror(-r));
                p = capo_map_own(capo_step_end(sizeof *plan));
                if (!p) {
                        munmap(seg->pieces[0].at, capo_pieces_table(plan));
                        munmap(plan, sizeof *plan);
                        return -ENOMEM;
                }
        }
        madvise(p, sizeof *plan, MADV_DONTDUMP);
        seg->header = p;
        memcpy(p, plan, sizeof *plan);
        munmap(plan, sizeof *plan);
        memcpy(seg->header->magic, CAPO_SEGMENT_MAGIC, 8);
        seg->header->version = CAPO_SEGMENT_VERSION;
        seg->header->header_size = sizeof *seg->header;
        seg->header->pid = getpid();
        seg->header->uid = geteuid();
        seg->header->start_time = capo_alive_since(getpid());
        seg->header->pid_ns = capo_alive_namespace();
        if (capo_alive_text("/proc/sys/kernel/random/boot_id", seg->header->boot_id,
                            sizeof seg->header->boot_id) < 0)
                seg->header->boot_id[0] = 0;
        if (gethostname(seg->header->host, sizeof seg->header->host - 1))
                strcpy(seg->header->host, "localhost");
        return 0;
}

static bool is_ours(const struct capo_segment *seg, int fd)
{
        struct stat st;

        return fstat(fd, &st) == 0 && st.st_dev == seg->dev && st.st_ino == seg->ino;
}

/* Is the descriptor still our file? A program may close and open others: then by its name. */
static bool have_file(struct capo_segment *seg)
{
        _cleanup_close_ int fd = -1;

        if (is_ours(seg, seg->fd))
                return true;
        fd = open(seg->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || !is_ours(seg, fd))
                return false;
        seg->fd = capo_file_high(&fd);
        capo_alive_lock(
                seg->fd); /* that went with the descriptor; another may only have it to read it */
        return true;
}

/* The process's own memory. Nothing is lost but by a kill; a reader of the file finds zeros. */
static void note_private(struct capo_segment *seg, bool file)
{
        if (!atomic_exchange(&seg->header->went_private, 1))
                capo_warn("%s: %s; going on without it: a kill will lose calls", seg->path,
                          file ? "no room for more recording memory"
                               : "the recording memory's file is gone");
}

/* @size bytes of the file from @offset on, if it may take them. */
static bool take_range(struct capo_segment *seg, uint64_t offset, uint64_t size)
{
        struct statvfs now;

        if (size > seg->budget ||
            (fstatvfs(seg->fd, &now) == 0 && now.f_blocks &&
             size > now.f_bavail * (uint64_t)now.f_frsize / 4) ||
            allocate_range(seg->fd, offset, size) < 0)
                return false;
        seg->budget -= size;
        return true;
}

/* A stretch of the file, or of our own; NULL: there are no addresses. */
static char *map_range(const struct capo_segment *seg, bool file, uint64_t offset, uint64_t size)
{
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_NORESERVE | (file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS),
                       file ? seg->fd : -1, file ? (off_t)offset : 0);

        if (p == MAP_FAILED)
                return NULL;
        madvise(p, size, MADV_DONTDUMP);
        return p;
}

/* The pieces in which bytes [@from, @to) of the area lie. */
static bool map_pieces(struct capo_segment *seg, enum capo_area_id id, uint64_t from, uint64_t to,
                       bool file)
{
        const struct capo_area *a = &seg->header->areas[id];
        uint64_t size = a->item << seg->pieces[id].shift;

        for (uint64_t k = from / size; k <= (to - 1) / size; k++) {
                char **at = &seg->pieces[id].at[k];

                if (!*at)
                        *at = map_range(seg, file, a->offset + k * size,
                                        capo_piece_bytes(seg, (int)id, k));
                if (!*at)
                        return false;
        }
        return true;
}

/* Bytes [@from, @to) of the area, which are mapped, become memory of our own. */
static bool go_private(struct capo_segment *seg, enum capo_area_id id, uint64_t from, uint64_t to)
{
        uint64_t size = seg->header->areas[id].item << seg->pieces[id].shift;

        while (from < to) {
                uint64_t k = from / size, end = to < (k + 1) * size ? to : (k + 1) * size;
                char *p = seg->pieces[id].at[k] + from % size;

                if (mmap(p, end - from, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
                         0) == MAP_FAILED)
                        return false;
                madvise(p, end - from, MADV_DONTDUMP);
                from = end;
        }
        return true;
}

/* Bytes [@from, @to) of the area: mapped, and the file's if it may take them, else our own. */
static bool take_memory(struct capo_segment *seg, enum capo_area_id id, uint64_t from, uint64_t to)
{
        bool file = seg->fd >= 0 && have_file(seg);

        if (!map_pieces(seg, id, from, to, file))
                return false;
        if (seg->fd < 0 ||
            (file && take_range(seg, seg->header->areas[id].offset + from, to - from)))
                return true;
        note_private(seg, file);
        return go_private(seg, id, from, to);
}

/* Page faults now rather than in a job's call. */
static void touch_pages(char *p, uint64_t size)
{
#ifdef MADV_POPULATE_WRITE
        madvise(p, size, MADV_POPULATE_WRITE);
#endif
}

int capo_area_commit(struct capo_segment *seg, enum capo_area_id id, uint32_t n)
{
        struct capo_area *a = &seg->header->areas[id];
        uint32_t have = atomic_load_explicit(&a->committed, memory_order_relaxed), want;
        uint64_t from, to;
        CAPO_NO_WRITE_SIGNALS;
        int saved = errno;

        if (n <= have)
                return 0;
        if (n > a->capacity)
                return -ENOSPC;
        if (id == CAPO_AREA_RINGS && !seg->whole) {
                while (have < n && capo_ring_commit(seg, have, true) == 0)
                        have++;
                return have < n ? -ENOSPC : 0;
        }
        to = capo_step_end(n * a->item);
        want = to / a->item < a->capacity ? (uint32_t)(to / a->item) : a->capacity;
        from = capo_step_end(have * a->item);
        if (a->offset + want * a->item > capo_round_up(seg->header->size, CAPO_PIECE))
                return -ENOSPC; /* of a dead process's file only what is there is mapped */
        if (!seg->whole && from < to && !take_memory(seg, id, from, to)) {
                errno = saved;
                return -ENOSPC;
        }
        if (!seg->whole && from < to && id == CAPO_AREA_FLIGHT)
                touch_pages(capo_area_at(seg, id, have), to - from);
        errno = saved;
        atomic_store_explicit(&a->committed, want, memory_order_release);
        return 0;
}

/* Records of a ring: fewer for later rings, and if the folder has little room. If it has none,
 * the ring is private memory and has its full size. */
static uint32_t choose_ring(const struct capo_segment *seg, bool large)
{
        uint32_t all = seg->header->ring_records >> (seg->n_large < 2   ? 0
                                                     : seg->n_large < 8 ? 1
                                                                        : 2),
                 n;

        if (!large)
                all = seg->header->ring_records < CAPO_RING_FIRST ? seg->header->ring_records
                                                                  : CAPO_RING_FIRST;
        all = all > RING_LEAST ? all : RING_LEAST;
        n = all;
        while (n > RING_SCARCE && seg->fd >= 0 && capo_ring_bytes(n) > seg->budget / 8)
                n /= 2;
        return capo_ring_bytes(n) <= seg->budget ? n : all;
}

int capo_ring_commit(struct capo_segment *seg, uint32_t nth, bool large)
{
        struct capo_area *a = &seg->header->areas[CAPO_AREA_RINGS];
        uint32_t records = choose_ring(seg, large);
        uint64_t size = capo_round_up(capo_ring_bytes(records), (uint64_t)sysconf(_SC_PAGESIZE)),
                 offset = a->offset + nth * a->item;
        CAPO_NO_WRITE_SIGNALS;
        int saved = errno;
        struct capo_ring *ring;
        bool file;

        if (nth >= a->capacity || seg->whole)
                return -ENOSPC;
        file = seg->fd >= 0 && have_file(seg);
        if (seg->fd >= 0 && !(file && take_range(seg, offset, size))) {
                note_private(seg, file);
                file = false;
        }
        ring = (struct capo_ring *)map_range(seg, file, offset, size);
        if (ring)
                touch_pages((char *)ring, size);
        errno = saved;
        if (!ring)
                return -ENOSPC;
        ring->size = records;
        seg->n_large += records > CAPO_RING_FIRST;
        seg->pieces[CAPO_AREA_RINGS].at[nth] = (char *)ring;
        atomic_store_explicit(&a->committed, nth + 1, memory_order_release);
        return 0;
}

void capo_segment_hold(struct capo_segment *seg)
{
        capo_lock(&seg->lock);
        if (seg->fd >= 0)
                have_file(seg);
        capo_unlock(&seg->lock);
}

void capo_segment_remove(struct capo_segment *seg)
{
        struct stat st;

        if (seg->fd < 0)
                return;
        if (lstat(seg->path, &st) == 0 && st.st_dev == seg->dev && st.st_ino == seg->ino)
                unlink(seg->path);
}

void capo_segment_forget(struct capo_segment *seg)
{
        if (seg->fd >= 0 && is_ours(seg, seg->fd))
                close(seg->fd);
        *seg = (struct capo_segment){.fd = -1};
}
