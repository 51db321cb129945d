/* SPDX-License-Identifier: Apache-2.0 */
/* Making and growing the segment of this process. Who takes over what it leaves: recover.c. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capo/msg.h"
#include "core/base/file.h"
#include "core/base/write_signals.h"
#include "core/base/util.h"
#include "core/log/alive.h"
#include "core/log/segment.h"

#define PAGE 4096u
/* Of one process number and time of birth: what an image before exec() has left, and processes 1 of
 * containers that share /dev/shm and one /proc, or were born in one hundredth of a second. */
#define NAMES 1000

static uint64_t round_up(uint64_t v, uint64_t to)
{
        return (v + to - 1) / to * to;
}

static uint32_t power_of_two(uint64_t v, uint32_t least, uint32_t most)
{
        uint32_t p = least;

        while (p < v && p < most)
                p *= 2;
        return p;
}

void capo_segment_lay_out(struct capo_segment_header *h, const struct capo_segment_config *config)
{
        static const struct {
                uint32_t item, capacity;
        } fixed[CAPO_AREAS] = {
                [CAPO_AREA_COMMS] = {sizeof(struct capo_seg_comm), 65535},
                [CAPO_AREA_SITES] = {sizeof(struct capo_seg_site), 16384},
                [CAPO_AREA_CELLS] = {sizeof(struct capo_seg_cell), 65535},
                [CAPO_AREA_HISTS] = {sizeof(struct capo_seg_hist), 8192},
                [CAPO_AREA_SLOTS] = {sizeof(struct capo_slot),
                                     2048}, /* 1024 for events, 1024 for kernel stamps */
                [CAPO_AREA_TEXT] = {1, 256 << 10},
                [CAPO_AREA_KEPT] = {1, 2 * CAPO_KEPT_HALF},
        };
        uint64_t offset = round_up(sizeof *h, PAGE);

        h->trace_all = config->trace_all;
        h->ring_records =
                power_of_two(config->ring_bytes / sizeof(struct capo_record), 64, 1 << 20);
        h->flight_records =
                power_of_two(config->flight_records, config->trace_all ? 16384 : 64, 1 << 22);
        h->flight_keep = h->flight_records;
        if (!config->trace_all && config->flight_records < h->flight_keep)
                h->flight_keep = (uint32_t)config->flight_records;
        for (int i = 0; i < CAPO_AREAS; i++) {
                struct capo_area *a = &h->areas[i];

                a->item = fixed[i].item;
                a->capacity = fixed[i].capacity;
                if (i == CAPO_AREA_FLIGHT) {
                        a->item = sizeof(struct capo_record);
                        a->capacity = h->flight_records;
                } else if (i == CAPO_AREA_RINGS) {
                        a->item = round_up(sizeof(struct capo_ring) +
                                                   h->ring_records * sizeof(struct capo_record),
                                           PAGE);
                        a->capacity = CAPO_SEGMENT_RINGS;
                }
                a->offset = offset;
                offset = round_up(offset + a->item * a->capacity, PAGE);
        }
        h->size = offset;
}

/*
 * posix_fallocate() with signals held back: up to Linux 6.8 a tmpfs gives up, with EINTR, as soon
 * as one is to be delivered, and a profiler sends many.
 */
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

/* The file, mapped; or -errno. */
static int create_file(struct capo_segment *seg, const char *dir, uint64_t size, void **out)
{
        CAPO_NO_WRITE_SIGNALS;
        const uint64_t since = capo_alive_since(getpid());
        struct stat st;
        int r, fd = -1;
        void *p;

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
                r = allocate_range(fd, 0, round_up(sizeof(struct capo_segment_header), PAGE));
        if (r == 0 && fstat(fd, &st))
                r = -errno;
        if (r == 0) {
                p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
                if (p == MAP_FAILED)
                        r = -errno;
        }
        if (r < 0) {
                unlink(seg->path);
                close(fd);
                return r;
        }
        seg->fd = fd;
        seg->dev = st.st_dev;
        seg->ino = st.st_ino;
        *out = p;
        return 0;
}

int capo_segment_create(struct capo_segment *seg, const char *dir,
                        const struct capo_segment_config *config)
{
        struct capo_segment_header plan = {0};
        const struct capo_area *rings;
        void *p = NULL;
        int r;

        *seg = (struct capo_segment){.fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
        capo_segment_lay_out(&plan, config);
        r = create_file(seg, dir, plan.size, &p);
        if (r < 0) {
                seg->path[0] = 0;
                capo_warn("no recording memory in %s: %s; a kill will lose the last calls", dir,
                          strerror(-r));
                p = mmap(NULL, plan.size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                if (p == MAP_FAILED)
                        return -ENOMEM;
        }
        madvise(p, plan.size, MADV_DONTDUMP);
        /* rings to come are not to be touched: behind the file's end each word would be a fault of
         * its own for who reads all memory, as a leak checker or a conservative collector does */
        rings = &plan.areas[CAPO_AREA_RINGS];
        mprotect((char *)p + rings->offset, rings->item * rings->capacity, PROT_NONE);
        seg->header = p;
        memcpy(p, &plan, sizeof plan);
        memcpy(seg->header->magic, CAPO_SEGMENT_MAGIC, 8);
        seg->header->version = CAPO_SEGMENT_VERSION;
        seg->header->header_size = sizeof plan;
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

/* Is the descriptor still our file? A program may have closed all it knew, and opened others since:
 * then by its name again. */
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
                seg->fd); /* that went with the descriptor; another may only have it for a look */
        return true;
}

/*
 * The folder is full, or the file gone: this stretch becomes memory of the process alone. Nothing
 * is lost but by a kill, and a reader of the file finds zeros there. A page that is half in use
 * keeps its memory.
 */
static bool go_private(struct capo_segment *seg, uint64_t begin, uint64_t end, bool file)
{
        char *at = (char *)seg->header + round_up(begin, PAGE);
        uint64_t size = end - round_up(begin, PAGE);
        struct stat st;

        if (size &&
            mmap(at, size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
                return false;
        if (size)
                madvise(at, size, MADV_DONTDUMP);
        if (file && fstat(seg->fd, &st) == 0 && (uint64_t)st.st_size < end &&
            ftruncate(seg->fd, (off_t)end)) {
                /* a hole takes no memory, but files may be limited: then who reads this one thinks
                 * of zeros behind it */
        }
        if (!atomic_exchange(&seg->header->went_private, 1))
                capo_warn("%s: %s; going on without it: a kill will lose calls", seg->path,
                          file ? "no room for more recording memory"
                               : "the recording memory's file is gone");
        return true;
}

int capo_area_commit(struct capo_segment *seg, enum capo_area_id id, uint32_t n)
{
        struct capo_area *a = &seg->header->areas[id];
        uint32_t have = atomic_load_explicit(&a->committed, memory_order_relaxed), want;
        CAPO_NO_WRITE_SIGNALS;
        uint64_t begin, end;
        int saved = errno;
        bool file;

        if (n <= have)
                return 0;
        if (n > a->capacity)
                return -ENOSPC;
        want = (uint32_t)(round_up(n * a->item, a->item >= PAGE ? PAGE : 16 * PAGE) /
                          a->item); /* whole pages, some ahead */
        if (want > a->capacity || want < n)
                want = id == CAPO_AREA_RINGS ? n : a->capacity;
        begin = a->offset + have * a->item / PAGE * PAGE;
        end = round_up(a->offset + want * a->item, PAGE);
        if (end > round_up(seg->header->size,
                           PAGE)) /* of a dead process's file only what is there is mapped */
                return -ENOSPC;
        file = seg->fd >= 0 && have_file(seg);
        if (seg->fd >= 0 && (!file || allocate_range(seg->fd, begin, end - begin) < 0) &&
            !go_private(seg, a->offset + have * a->item, end, file)) {
                errno = saved;
                return -ENOSPC;
        }
        if (id == CAPO_AREA_RINGS &&
            mprotect((char *)seg->header + begin, end - begin, PROT_READ | PROT_WRITE)) {
                errno = saved;
                return -ENOSPC;
        }
#ifdef MADV_POPULATE_WRITE
        if (id == CAPO_AREA_RINGS ||
            id == CAPO_AREA_FLIGHT) /* page faults now rather than in a job's call */
                madvise((char *)seg->header + begin, end - begin, MADV_POPULATE_WRITE);
#endif
        errno = saved;
        atomic_store_explicit(&a->committed, want, memory_order_release);
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
