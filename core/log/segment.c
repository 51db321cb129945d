/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making, finding and taking over segments. The life sign is a POSIX record lock: the kernel drops it with the process
 * whatever kills it, a fork does not inherit it, and it works across pid namespaces that share a /dev/shm. Programs
 * that close all descriptors drop it too, so within one pid namespace /proc is asked as well.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capo/msg.h"
#include "core/log/drain.h"
#include "core/log/write.h"
#include "core/log/segment.h"
#include "core/base/util.h"

#define PAGE        4096u
#define MAX_THREADS 1024u

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

/* A short text file, whole. Returns its length without the newline, or -errno. */
static int read_text(const char *path, char *text, size_t room)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n;

        if (fd < 0)
                return -errno;
        n = read(fd, text, room - 1);
        if (n < 0)
                return -errno;
        while (n > 0 && text[n - 1] == '\n')
                n--;
        text[n] = 0;
        return (int)n;
}

/* Field 22 of /proc/<pid>/stat; the command in field 2 may hold anything, so count from the last ')'. 0: no process, or
 * one that only waits for its parent to notice its end (state Z or X). */
static uint64_t start_time(int pid)
{
        char path[48], text[1024], *p;
        uint64_t v = 0;

        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        if (read_text(path, text, sizeof text) < 0 || !(p = strrchr(text, ')')))
                return 0;
        if (p[1] && (p[2] == 'Z' || p[2] == 'X'))
                return 0;
        for (int field = 2; p && field < 22; field++)
                p = strchr(p + 1, ' ');
        if (p)
                v = strtoull(p + 1, NULL, 10);
        return v;
}

static uint64_t pid_namespace(void)
{
        struct stat st;

        return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

/* A descriptor out of the way of programs that count on low numbers. */
static int move_high(int fd)
{
        int high = fcntl(fd, F_DUPFD_CLOEXEC, 700);

        if (high < 0)
                return fd;
        close(fd);
        return high;
}

static void lay_out(struct capo_segment_header *h, const struct capo_segment_config *config)
{
        static const struct {
                uint32_t item, capacity;
        } fixed[CAPO_AREAS] = {
                [CAPO_AREA_COMMS] = {sizeof(struct capo_seg_comm), 65535},
                [CAPO_AREA_SITES] = {sizeof(struct capo_seg_site), 16384},
                [CAPO_AREA_CELLS] = {sizeof(struct capo_seg_cell), 65535},
                [CAPO_AREA_HISTS] = {sizeof(struct capo_seg_hist), 8192},
                [CAPO_AREA_SLOTS] = {sizeof(struct capo_slot), 2048}, /* 1024 for events, 1024 for kernel stamps */
                [CAPO_AREA_TEXT] = {1, 256 << 10},
                [CAPO_AREA_KEPT] = {1, 2 * CAPO_KEPT_HALF},
        };
        uint64_t offset = round_up(sizeof *h, PAGE);

        h->trace_all = config->trace_all;
        h->ring_records = power_of_two(config->ring_bytes / sizeof(struct capo_record), 64, 1 << 20);
        h->flight_records = power_of_two(config->flight_records, config->trace_all ? 16384 : 64, 1 << 22);
        h->flight_keep = config->trace_all ? h->flight_records : (uint32_t)config->flight_records;
        if (h->flight_keep > h->flight_records)
                h->flight_keep = h->flight_records;
        for (int i = 0; i < CAPO_AREAS; i++) {
                struct capo_area *a = &h->areas[i];

                a->item = fixed[i].item;
                a->capacity = fixed[i].capacity;
                if (i == CAPO_AREA_FLIGHT) {
                        a->item = sizeof(struct capo_record);
                        a->capacity = h->flight_records;
                } else if (i == CAPO_AREA_RINGS) {
                        a->item =
                                round_up(sizeof(struct capo_ring) + h->ring_records * sizeof(struct capo_record), PAGE);
                        a->capacity = MAX_THREADS;
                }
                a->offset = offset;
                offset = round_up(offset + a->item * a->capacity, PAGE);
        }
        h->size = offset;
}

static int lock_file(int fd)
{
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        return fcntl(fd, F_SETLK, &lock) ? -errno : 0;
}

/* The file, mapped; or -errno. */
static int create_file(struct capo_segment *seg, const char *dir, uint64_t size, void **out)
{
        struct stat st;
        int r, fd = -1;
        void *p;

        for (int n = 0; n < 16 && fd < 0; n++) { /* after exec() the old image's file may still be there */
                char suffix[8] = "";

                if (n)
                        snprintf(suffix, sizeof suffix, ".%d", n);
                snprintf(seg->path, sizeof seg->path, "%s/capo-%u-%d-%" PRIu64 "%s", dir, (unsigned)geteuid(),
                         (int)getpid(), start_time(getpid()), suffix);
                fd = open(seg->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
                if (fd < 0 && errno != EEXIST)
                        return -errno;
        }
        if (fd < 0)
                return -EEXIST;
        fd = move_high(fd);
        r = lock_file(fd);
        if (r == 0)
                r = -posix_fallocate(fd, 0, (off_t)round_up(sizeof(struct capo_segment_header), PAGE));
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

int capo_segment_create(struct capo_segment *seg, const char *dir, const struct capo_segment_config *config)
{
        struct capo_segment_header plan = {0};
        void *p = NULL;
        int r;

        *seg = (struct capo_segment){.fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
        lay_out(&plan, config);
        r = create_file(seg, dir, plan.size, &p);
        if (r < 0) {
                seg->path[0] = 0;
                capo_warn("no recording memory in %s: %s; a kill will lose the last calls", dir, strerror(-r));
                p = mmap(NULL, plan.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                if (p == MAP_FAILED)
                        return -ENOMEM;
        }
        madvise(p, plan.size, MADV_DONTDUMP);
        seg->header = p;
        memcpy(p, &plan, sizeof plan);
        memcpy(seg->header->magic, CAPO_SEGMENT_MAGIC, 8);
        seg->header->version = CAPO_SEGMENT_VERSION;
        seg->header->header_size = sizeof plan;
        seg->header->pid = getpid();
        seg->header->uid = geteuid();
        seg->header->start_time = start_time(getpid());
        seg->header->pid_ns = pid_namespace();
        if (read_text("/proc/sys/kernel/random/boot_id", seg->header->boot_id, sizeof seg->header->boot_id) < 0)
                seg->header->boot_id[0] = 0;
        if (gethostname(seg->header->host, sizeof seg->header->host - 1))
                strcpy(seg->header->host, "localhost");
        return 0;
}

/* Is the descriptor still our file? A program may have closed all it knew, and opened others since. */
static bool still_ours(const struct capo_segment *seg)
{
        struct stat st;

        return fstat(seg->fd, &st) == 0 && st.st_dev == seg->dev && st.st_ino == seg->ino;
}

int capo_area_commit(struct capo_segment *seg, enum capo_area_id id, uint32_t n)
{
        struct capo_area *a = &seg->header->areas[id];
        uint32_t have = atomic_load_explicit(&a->committed, memory_order_relaxed), want;
        uint64_t begin, end;
        int saved = errno;

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
        if (seg->fd >= 0 && (!still_ours(seg) || posix_fallocate(seg->fd, (off_t)begin, (off_t)(end - begin)))) {
                errno = saved;
                return -ENOSPC;
        }
#ifdef MADV_POPULATE_WRITE
        if (id == CAPO_AREA_RINGS || id == CAPO_AREA_FLIGHT) /* page faults now rather than in a job's call */
                madvise((char *)seg->header + begin, end - begin, MADV_POPULATE_WRITE);
#endif
        errno = saved;
        atomic_store_explicit(&a->committed, want, memory_order_release);
        return 0;
}

void capo_segment_remove(struct capo_segment *seg)
{
        struct stat st;

        if (seg->fd < 0)
                return;
        if (lstat(seg->path, &st) == 0 && st.st_dev == seg->dev && st.st_ino == seg->ino)
                unlink(seg->path);
        if (still_ours(seg))
                close(seg->fd);
        seg->fd = -1;
}

void capo_segment_forget(struct capo_segment *seg)
{
        if (seg->fd >= 0 && still_ours(seg))
                close(seg->fd);
        *seg = (struct capo_segment){.fd = -1};
}

/* Map a dead process's file privately, every number in it checked. */
static int attach(int fd, struct capo_segment *seg)
{
        struct capo_segment_header *h, plan = {0};
        struct capo_area *flight;
        struct stat st;
        size_t size;

        if (fstat(fd, &st))
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (size_t)st.st_size < sizeof *h)
                return -EBADMSG;
        size = (size_t)st.st_size;
        h = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        if (h == MAP_FAILED)
                return -errno;
        *seg = (struct capo_segment){.header = h, .fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
        if (memcmp(h->magic, CAPO_SEGMENT_MAGIC, 8) || h->version != CAPO_SEGMENT_VERSION ||
            h->header_size != sizeof *h || !h->born || !h->ring_records || (h->ring_records & (h->ring_records - 1)) ||
            !h->flight_records || (h->flight_records & (h->flight_records - 1)) || h->flight_keep > h->flight_records ||
            h->commit_now > 1)
                goto bad;
        h->log_path[sizeof h->log_path - 1] = h->host[sizeof h->host - 1] = h->boot_id[sizeof h->boot_id - 1] = 0;
        lay_out(&plan, &(struct capo_segment_config){
                               .ring_bytes = h->ring_records * sizeof(struct capo_record),
                               .flight_records = h->flight_records,
                               .trace_all = h->trace_all,
                       });
        for (int i = 0; i < CAPO_AREAS; i++) { /* the layout follows from a few numbers: any other is damage */
                struct capo_area *a = &h->areas[i], *p = &plan.areas[i];

                if (a->offset != p->offset || a->item != p->item || a->capacity != p->capacity ||
                    a->committed > a->capacity || (a->committed && a->offset + a->committed * a->item > size))
                        goto bad;
                if (a->used > a->committed)
                        a->used = a->committed;
        }
        if (h->kept_now > 2 || (h->kept_now && (h->kept_size[h->kept_now - 1] > CAPO_KEPT_HALF ||
                                                (h->kept_now - 1) * CAPO_KEPT_HALF + h->kept_size[h->kept_now - 1] >
                                                        h->areas[CAPO_AREA_KEPT].committed)))
                goto bad;
        flight = &h->areas[CAPO_AREA_FLIGHT];
        if ((h->flight_head > flight->committed && flight->committed < flight->capacity) ||
            (h->text_head && h->areas[CAPO_AREA_TEXT].committed < h->areas[CAPO_AREA_TEXT].capacity) ||
            h->commit[h->commit_now].text_tail > h->text_head || h->commit[h->commit_now].flight_tail > h->flight_head)
                goto bad;
        if (h->flight_head - h->commit[h->commit_now].flight_tail > h->flight_records)
                h->commit[h->commit_now].flight_tail = h->flight_head - h->flight_records;
        h->size = size;
        return 0;
bad:
        munmap(h, size);
        seg->header = NULL;
        return -EBADMSG;
}

/* -EBUSY while the process lives. On success this process holds the lock, so that nobody else recovers it meanwhile. */
static int check_dead(int fd, const struct capo_segment_header *h)
{
        char boot_id[sizeof h->boot_id] = "";

        if (lock_file(fd))
                return -EBUSY;
        read_text("/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id);
        if (h->pid_ns == pid_namespace() && !strcmp(boot_id, h->boot_id) && start_time(h->pid) == h->start_time &&
            h->pid != getpid())
                return -EBUSY;
        return 0;
}

static uint64_t count_left(const struct capo_segment *seg)
{
        const struct capo_segment_header *h = seg->header;
        uint64_t n = 0;

        for (uint32_t i = 0; i < h->areas[CAPO_AREA_RINGS].used; i++) {
                const struct capo_ring *ring = capo_area_at(seg, CAPO_AREA_RINGS, i);

                n += ring->head - ring->tail;
        }
        for (uint32_t i = 0; i < h->areas[CAPO_AREA_SLOTS].used; i++)
                n += ((struct capo_slot *)capo_area_at(seg, CAPO_AREA_SLOTS, i))->state >= CAPO_SLOT_ARMED;
        return n;
}

static void describe(const struct capo_segment *seg, const char *path, struct capo_segment_info *info)
{
        const struct capo_segment_header *h = seg->header;

        *info = (struct capo_segment_info){.pid = h->pid, .records = count_left(seg)};
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

int capo_segment_find_dead(const char *shm_dir, const char *log_dir,
                           int (*found)(const struct capo_segment_info *info, void *cookie), void *cookie)
{
        const char *folder = shm_dir ? shm_dir : CAPO_SEGMENT_DIR;
        _cleanup_(close_dirp) DIR *dir = opendir(folder);
        struct dirent *entry;
        char prefix[32];
        int n = 0;

        if (!dir)
                return -errno;
        snprintf(prefix, sizeof prefix, "capo-%u-", (unsigned)geteuid());
        while ((entry = readdir(dir))) {
                struct capo_segment_info info;
                struct capo_segment seg;
                char path[96];
                int fd, r;

                if (strncmp(entry->d_name, prefix, strlen(prefix)) ||
                    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path)
                        continue;
                fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
                if (fd < 0)
                        continue;
                r = attach(fd, &seg);
                if (r == 0) {
                        r = check_dead(fd, seg.header);
                        if (r == 0 && in_folder(seg.header->log_path, log_dir)) {
                                describe(&seg, path, &info);
                                n++;
                        } else {
                                r = -EAGAIN;
                        }
                        munmap(seg.header, seg.header->size);
                }
                close(fd);
                if (r == 0 && (r = found(&info, cookie)))
                        return r;
        }
        return n;
}

static int recover(int fd, const char *path, const char *log, struct capo_segment_info *out)
{
        struct capo_segment seg;
        struct capo_drain *drain;
        struct capo_segment_info info;
        int r = attach(fd, &seg);

        if (r < 0)
                return r;
        r = check_dead(fd, seg.header);
        if (r < 0)
                goto out;
        describe(&seg, path, &info);
        if (log) {
                _cleanup_free_ char *absolute = realpath(log, NULL); /* NULL: not there yet */

                if (snprintf(info.log_path, sizeof info.log_path, "%s", absolute ? absolute : log) >=
                    (int)sizeof info.log_path) {
                        r = -ENAMETOOLONG;
                        goto out;
                }
                memcpy(seg.header->log_path, info.log_path, sizeof info.log_path);
        }
        r = seg.header->log_path[0] ? capo_drain_new(&seg, &drain) : -ENOENT;
        if (r < 0)
                goto out;
        r = capo_drain_take_over(drain);
        if (r == 0) {
                capo_drain_round(drain);
                r = capo_drain_finish(drain, 2);
        }
        capo_drain_free(drain);
        if (r == 0 && unlink(path))
                r = -errno;
        if (r == 0 && out)
                *out = info;
out:
        munmap(seg.header, seg.header->size);
        return r;
}

int capo_segment_recover(const char *path, const char *log, struct capo_segment_info *out)
{
        _cleanup_close_ int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? -errno : recover(fd, path, log, out);
}
