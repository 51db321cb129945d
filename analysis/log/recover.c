/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and recovers the segments of dead processes. A segment may contain anything:
 * attach_segment() checks the numbers of the header, the drain checks the areas. */
#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>

#include "core/base/others_file.h"
#include "core/log/alive.h"
#include "core/log/drain.h"
#include "core/log/segment_calls.h"
#include "analysis/log/recover.h"

#define UNREADY_S     60
#define SEGMENTS_MOST 8192                /* of one user: more are no job, and take long to read */
#define DATA_MOST     ((size_t)768 << 20) /* more than the longest flight recorder needs */

/* Copy the file into our own memory. It must not be mapped: its owner may truncate it at any time,
 * and reading a hole (capo_area_commit()) on a full tmpfs raises SIGBUS, too. The file may also end
 * before its layout does. */
static void *copy_in(int fd, size_t size)
{
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        size_t left = DATA_MOST;
        off_t at = 0, hole;
        ssize_t n;

        /* A live process's file may grow meanwhile. Counts are copied before their records. */
        while (p != MAP_FAILED && (at = lseek(fd, at, SEEK_DATA)) >= 0 && (size_t)at < size) {
                hole = lseek(fd, at, SEEK_HOLE);
                hole = hole < 0 || (size_t)hole > size ? (off_t)size : hole;
                for (n = 1; at < hole && n > 0; at += n) {
                        const off_t first = (off_t)sizeof(struct capo_segment_header);
                        const off_t end = at < first && first < hole ? first : hole;

                        n = (size_t)(end - at) > left ? 0
                                                      : pread(fd, p + at, (size_t)(end - at), at);
                        left -= n > 0 ? (size_t)n : 0;
                        atomic_thread_fence(memory_order_acquire);
                }
                if (n <= 0)
                        break;
        }
        return p;
}

/* Do all rings in use lie inside the file, with all the records that they claim? */
static bool rings_fit(const struct capo_segment_header *h, size_t size)
{
        const struct capo_area *a = &h->areas[CAPO_AREA_RINGS];

        for (uint32_t i = 0; i < a->used; i++) {
                uint64_t at = a->offset + i * a->item;
                const struct capo_ring *ring = (const struct capo_ring *)((const char *)h + at);

                if (at + sizeof *ring > size)
                        return false;
                /* all zeros: never published by the process */
                if (ring->size && (!capo_ring_records(h, ring) ||
                                   at + sizeof *ring + ring->size * sizeof *ring->records > size))
                        return false;
        }
        return true;
}

/* Copy a process's file and check every number in it. */
static int attach_segment(int fd, struct capo_segment *seg)
{
        struct capo_segment_header *h, plan = {0}, first;
        struct capo_area *flight;
        struct stat st;
        size_t size;

        if (fstat(fd, &st))
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (size_t)st.st_size < sizeof *h)
                return -EBADMSG;
        size = (size_t)st.st_size;
        if (pread(fd, &first, sizeof first, 0) != sizeof first)
                return -EBADMSG;
        capo_segment_lay_out(&plan,
                             &(struct capo_segment_config){
                                     .ring_bytes = first.ring_records * sizeof(struct capo_record),
                                     .flight_records = first.flight_records,
                                     .trace_all = first.trace_all,
                             });
        if (size > plan.size)
                return -EBADMSG;
        if (first.went_private)
                size = plan.size;
        h = copy_in(fd, size);
        if (h == MAP_FAILED)
                return -errno;
        *seg = (struct capo_segment){.header = h, .fd = -1};
        if (memcmp(h->magic, CAPO_SEGMENT_MAGIC, 8) || h->version != CAPO_SEGMENT_VERSION ||
            h->header_size != sizeof *h || !h->ready || !h->ring_records ||
            (h->ring_records & (h->ring_records - 1)) || !h->flight_records ||
            (h->flight_records & (h->flight_records - 1)) || h->flight_keep > h->flight_records ||
            h->commit_now > 1)
                goto bad;
        h->log_path[sizeof h->log_path - 1] = h->host[sizeof h->host - 1] =
                h->boot_id[sizeof h->boot_id - 1] = 0;
        if (h->ring_records != plan.ring_records || h->flight_records != plan.flight_records)
                goto bad;
        for (int i = 0; i < CAPO_AREAS;
             i++) { /* the layout follows from a few numbers: any other is damage */
                struct capo_area *a = &h->areas[i], *p = &plan.areas[i];

                if (a->offset != p->offset || a->item != p->item || a->capacity != p->capacity ||
                    a->committed > a->capacity ||
                    (a->committed && i != CAPO_AREA_RINGS &&
                     a->offset + a->committed * a->item > size))
                        goto bad;
                if (a->used > a->committed)
                        a->used = a->committed;
        }
        if (h->kept_now > 2 ||
            (h->kept_now && (h->kept_size[h->kept_now - 1] > CAPO_KEPT_HALF ||
                             (h->kept_now - 1) * CAPO_KEPT_HALF + h->kept_size[h->kept_now - 1] >
                                     h->areas[CAPO_AREA_KEPT].committed)))
                goto bad;
        flight = &h->areas[CAPO_AREA_FLIGHT];
        if ((h->flight_head > flight->committed && flight->committed < flight->capacity) ||
            (h->text_head > h->areas[CAPO_AREA_TEXT].committed &&
             h->areas[CAPO_AREA_TEXT].committed < h->areas[CAPO_AREA_TEXT].capacity) ||
            h->commit[h->commit_now].text_tail > h->text_head ||
            h->text_head - h->commit[h->commit_now].text_tail > h->areas[CAPO_AREA_TEXT].capacity ||
            h->commit[h->commit_now].flight_tail > h->flight_head || !rings_fit(h, size))
                goto bad;
        h->size = size;
        if (capo_segment_whole(seg, h, size) < 0) {
                munmap(h, size);
                return -ENOMEM;
        }
        return 0;
bad:
        munmap(h, size);
        seg->header = NULL;
        return -EBADMSG;
}

/* To write: only then can the file be locked. */
static int open_segment(const char *path)
{
        struct stat st;

        return capo_others_open(path, O_RDWR | O_NOFOLLOW, geteuid(), &st, NULL, 0);
}

enum life {
        GONE,
        LIVES,
        ELSEWHERE, /* in another pid namespace, or before this boot; or it is this process */
};

static bool is_here(const struct capo_segment_header *h)
{
        char boot_id[sizeof h->boot_id] = "";

        capo_alive_text("/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id);
        return h->pid_ns == capo_alive_namespace() && !strcmp(boot_id, h->boot_id);
}

static enum life check_owner(const struct capo_segment_header *h)
{
        if (!is_here(h) || h->pid == getpid())
                return ELSEWHERE;
        if (!h->start_time) /* /proc did not give it (qemu-user): only check that the pid exists */
                return kill(h->pid, 0) && errno == ESRCH ? GONE : LIVES;
        return capo_alive_since(h->pid) == h->start_time ? LIVES : GONE;
}

static bool is_removed(int fd)
{
        struct stat st;

        return fstat(fd, &st) || st.st_nlink == 0;
}

/* Return: 0: the process has ended; -EBUSY: it runs; -EALREADY: it has ended, and another command
 * is recovering it; -ESTALE: as below. */
static int check_segment(int fd, const struct capo_segment_header *h)
{
        bool locked = capo_alive_locked(fd);

        if (!locked && is_removed(fd))
                return -ESTALE;
        switch (check_owner(h)) {
        case GONE: return locked ? -EALREADY : 0;
        case LIVES: return -EBUSY;
        default: return locked ? -EBUSY : 0;
        }
}

/* Return: 0: this process holds the lock, so that no other command recovers it; -EBUSY: the process
 * runs; -ESTALE: it ended by itself, or was recovered, after @fd was opened. */
static int lock_segment(int fd, const struct capo_segment_header *h)
{
        if (capo_alive_lock(fd))
                return -EBUSY;
        if (is_removed(fd))
                return -ESTALE;
        return check_owner(h) == LIVES ? -EBUSY : 0;
}

/* Remove the file of a process that was killed while creating it: empty or not yet valid, and not
 * locked. The lock follows creation at once, so after a minute the creator is dead. */
static void remove_leftover(int fd, const char *path)
{
        struct capo_segment_header first = {0};
        struct stat st;

        if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
            st.st_mtime + UNREADY_S > time(NULL) || pread(fd, &first, sizeof first, 0) < 0 ||
            first.ready || capo_alive_lock(fd))
                return;
        if (st.st_size == 0 || !first.magic[0] ||
            !memcmp(first.magic, CAPO_SEGMENT_MAGIC, sizeof first.magic))
                unlink(path);
}

static uint64_t count_left(const struct capo_segment *seg)
{
        const struct capo_segment_header *h = seg->header;
        uint64_t n = 0;

        for (uint32_t i = 0; i < h->areas[CAPO_AREA_RINGS].used; i++) {
                const struct capo_ring *ring = capo_area_at(seg, CAPO_AREA_RINGS, i);

                if (ring->head - ring->tail <= capo_ring_records(h, ring)) /* otherwise damaged */
                        n += ring->head - ring->tail;
        }
        for (uint32_t i = 0; i < h->areas[CAPO_AREA_SLOTS].used; i++)
                n += ((struct capo_slot *)capo_area_at(seg, CAPO_AREA_SLOTS, i))->state >=
                     CAPO_SLOT_ARMED;
        return n;
}

/* Does the folder of its log no longer exist? */
static bool is_homeless(const struct capo_segment_header *h)
{
        char folder[sizeof h->log_path];
        char *slash;

        snprintf(folder, sizeof folder, "%s", h->log_path);
        slash = strrchr(folder, '/');
        if (slash)
                *slash = 0;
        return *folder && access(folder, F_OK) && (errno == ENOENT || errno == ENOTDIR);
}

static void describe_segment(const struct capo_segment *seg, const char *path,
                             struct capo_segment_info *info)
{
        const struct capo_segment_header *h = seg->header;

        *info = (struct capo_segment_info){.pid = h->pid,
                                           .here = is_here(h),
                                           .homeless = is_homeless(h),
                                           .trace_all = h->trace_all,
                                           .records = count_left(seg)};
        snprintf(info->path, sizeof info->path, "%s", path);
        memcpy(info->host, h->host, sizeof info->host);
        memcpy(info->log_path, h->log_path, sizeof info->log_path);
}

static bool in_folder(const char *file, const char *dir)
{
        char real[4096];
        const char *slash = strrchr(file, '/');
        size_t n;

        if (!dir)
                return true;
        if (!slash || !realpath(dir, real))
                return false;
        n = strlen(real);
        return n == (size_t)(slash - file) && !memcmp(real, file, n);
}

static void close_dirp(DIR **d)
{
        if (*d)
                closedir(*d);
}

int capo_segment_find(const char *shm_dir, const char *log_dir, bool living,
                      int (*found)(const struct capo_segment_info *info, void *cookie),
                      void *cookie)
{
        const char *folder = shm_dir ? shm_dir : CAPO_SEGMENT_DIR;
        _cleanup_(close_dirp) DIR *dir = opendir(folder);
        struct dirent *entry;
        char prefix[32];
        int n = 0, seen = 0;

        if (!dir)
                return -errno;
        snprintf(prefix, sizeof prefix, "capo-%u-", (unsigned)geteuid());
        while (seen < SEGMENTS_MOST && (entry = readdir(dir))) {
                struct capo_segment_info info;
                struct capo_segment seg;
                char path[sizeof info.path];
                int fd, r;

                if (strncmp(entry->d_name, prefix, strlen(prefix)) ||
                    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path)
                        continue;
                seen++;
                fd = open_segment(path);
                if (fd < 0)
                        continue;
                r = attach_segment(fd, &seg);
                if (r == 0) {
                        r = check_segment(fd, seg.header);
                        if ((r == 0 || (living && (r == -EBUSY || r == -EALREADY))) &&
                            in_folder(seg.header->log_path, log_dir)) {
                                describe_segment(&seg, path, &info);
                                info.alive = r == -EBUSY;
                                r = 0;
                                n++;
                        } else {
                                r = -EAGAIN;
                        }
                        capo_segment_unmap(&seg);
                } else {
                        remove_leftover(fd, path);
                }
                close(fd);
                if (r == 0 && (r = found(&info, cookie)))
                        return r;
        }
        return n;
}

/* For the END frame of a dead process: 1: it had reached its exit; 2: it had not. */
static unsigned end_of_dead(const struct capo_segment *seg)
{
        return seg->header->ended == 1 ? 1 : 2;
}

/* Write all of @seg to header.log_path, or to @fd if not negative. @clean: for the END frame. */
static int drain_all(struct capo_segment *seg, unsigned clean, int fd)
{
        struct capo_drain *drain;
        int r = capo_drain_new(seg, &drain);

        if (r < 0)
                return r;
        if (fd >= 0)
                capo_drain_into(drain, fd);
        r = capo_drain_take_over(drain);
        if (r == 0) {
                capo_drain_round(drain);
                r = capo_drain_finish(drain, clean);
        }
        capo_drain_free(drain);
        return r;
}

int capo_segment_peek(const struct capo_segment_info *info, int *out)
{
        _cleanup_close_ int fd = open_segment(info->path), memory = -1;
        struct capo_segment seg;
        int r = fd < 0 ? fd : attach_segment(fd, &seg);

        if (r < 0)
                return r;
        memory = memfd_create("capo-log", MFD_CLOEXEC);
        r = memory < 0 ? -errno : drain_all(&seg, info->alive ? 0 : end_of_dead(&seg), memory);
        capo_segment_unmap(&seg);
        if (r == 0) {
                *out = memory;
                memory = -1;
        }
        return r;
}

/* Copy the file @path in, and lock it, as @fd. */
static int claim_segment(const char *path, struct capo_segment *seg, int *fd)
{
        int r;

        *fd = open_segment(path);
        r = *fd < 0 ? (*fd == -ENOENT ? -ESTALE : *fd) : attach_segment(*fd, seg);
        if (r < 0)
                return r;
        r = lock_segment(*fd, seg->header);
        if (r < 0)
                capo_segment_unmap(seg);
        return r;
}

int capo_segment_recover(const char *path, const char *log, struct capo_segment_info *out)
{
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *absolute = log ? realpath(log, NULL) : NULL; /* NULL: not there yet */
        struct capo_segment seg;
        struct capo_segment_info info;
        struct stat st;
        int r = claim_segment(path, &seg, &fd);

        if (r < 0)
                return r;
        describe_segment(&seg, path, &info);
        if (log && snprintf(info.log_path, sizeof info.log_path, "%s", absolute ? absolute : log) >=
                           (int)sizeof info.log_path)
                r = -ENAMETOOLONG;
        memcpy(seg.header->log_path, info.log_path, sizeof info.log_path);
        if (r == 0)
                r = !info.log_path[0] ? -ENOENT
                    : lstat(info.log_path, &st) == 0 && st.st_uid != seg.header->uid
                            ? -EPERM /* root could write any file, but must not write another user's */
                            : drain_all(&seg, end_of_dead(&seg), -1);
        if (r == 0 && unlink(path))
                r = -errno;
        if (r == 0 && out)
                *out = info;
        capo_segment_unmap(&seg);
        return r;
}

int capo_segment_drop(const char *path)
{
        _cleanup_close_ int fd = -1;
        struct capo_segment seg;
        int r = claim_segment(path, &seg, &fd);

        if (r < 0)
                return r;
        if (!is_homeless(seg.header))
                r = -EEXIST;
        else if (unlink(path))
                r = -errno;
        capo_segment_unmap(&seg);
        return r;
}
