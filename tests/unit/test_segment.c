/* SPDX-License-Identifier: Apache-2.0 */
/* A living process's segment: its layout, and memory that comes as it is asked for. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capo/msg.h"
#include "core/log/alive.h"
#include "core/log/drain.h"
#include "core/log/segment.h"
#include "core/log/segment_calls.h"

/* A folder that becomes full; a process that a profiler sends signals to, as Linux up to 6.8 has
 * it. */
static int full, profiled;

static uint64_t has_free, taken; /* bytes; 0: as it is */

static int little_room(struct statvfs *s)
{
        memset(s, 0, sizeof *s);
        s->f_frsize = 4096;
        s->f_blocks = UINT64_C(1) << 40;
        s->f_bavail = (has_free ? has_free - taken : UINT64_C(1) << 40) / 4096;
        return 0;
}

int statvfs(const char *restrict path, struct statvfs *restrict s) { return little_room(s); }

int fstatvfs(int fd, struct statvfs *s) { return little_room(s); }

int posix_fallocate(int fd, off_t at, off_t n)
{
        struct stat st;

        taken += (uint64_t)n;
        if (full)
                return ENOSPC;
        if (profiled) {
                sigset_t held;

                sigprocmask(SIG_SETMASK, NULL, &held);
                if (!sigismember(&held, SIGPROF))
                        return EINTR;
        }
        return fstat(fd, &st) || (st.st_size < at + n && ftruncate(fd, at + n)) ? errno : 0;
}

Test(segment, areas_follow_each_other)
{
        static const struct {
                uint64_t ring_bytes, flight;
                bool all;
                uint32_t ring, records, keep;
        } rows[] = {
                {0, 0, false, 64, 64, 0},
                {65 * 64, 100, false, 128, 128, 100},
                {1 << 20, 100, true, 16384, 16384, 16384},
                {UINT64_MAX, UINT64_MAX / 2, false, 1 << 20, 1 << 22, 1 << 22},
                {0, UINT64_C(1) << 32, false, 64, 1 << 22, 1 << 22},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct capo_segment_header h = {0};
                uint64_t end = sizeof h;

                capo_segment_lay_out(&h,
                                     &(struct capo_segment_config){.ring_bytes = rows[i].ring_bytes,
                                                                   .flight_records = rows[i].flight,
                                                                   .trace_all = rows[i].all});
                cr_expect_eq(h.ring_records, rows[i].ring, "row %zu: %u", i, h.ring_records);
                cr_expect_eq(h.flight_records, rows[i].records, "row %zu: %u", i, h.flight_records);
                cr_expect_eq(h.flight_keep, rows[i].keep, "row %zu: %u", i, h.flight_keep);
                for (int a = 0; a < CAPO_AREAS; a++) {
                        cr_expect(h.areas[a].offset >= end && h.areas[a].offset % 65536 == 0,
                                  "row %zu area %d", i, a);
                        end = h.areas[a].offset + h.areas[a].item * h.areas[a].capacity;
                }
                cr_expect_geq(h.size, end);
        }
}

/* Part of the layout that CAPO_SEGMENT_VERSION names: who changes one changes that too. */
Test(segment, room_of_each_area)
{
        static const uint64_t room[CAPO_AREAS][2] = {
                [CAPO_AREA_COMMS] = {288, 65535},  [CAPO_AREA_SITES] = {2048, 16384},
                [CAPO_AREA_CELLS] = {64, 65535},   [CAPO_AREA_HISTS] = {4096, 8192},
                [CAPO_AREA_FLIGHT] = {64, 256},    [CAPO_AREA_SLOTS] = {128, 2048},
                [CAPO_AREA_TEXT] = {1, 256 << 10}, [CAPO_AREA_KEPT] = {1, 384 << 10},
                [CAPO_AREA_RINGS] = {65536, 1024},
        };
        struct capo_segment_header h = {0};

        capo_segment_lay_out(
                &h, &(struct capo_segment_config){.ring_bytes = 8192, .flight_records = 256});
        for (int a = 0; a < CAPO_AREAS; a++)
                cr_expect(h.areas[a].item == room[a][0] && h.areas[a].capacity == room[a][1],
                          "area %d: %llu of %u", a, (unsigned long long)h.areas[a].item,
                          h.areas[a].capacity);
}

Test(segment, memory_comes_in_pages_and_ends_at_the_capacity)
{
        struct capo_segment_config config = {.ring_bytes = 4096, .flight_records = 64};
        char dir[] = "/tmp/capo-segment-XXXXXX";
        struct capo_segment seg;
        struct capo_area *cells;

        cr_assert(mkdtemp(dir));
        cr_assert_eq(capo_segment_create(&seg, dir, &config), 0);
        cells = &seg.header->areas[CAPO_AREA_CELLS];
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_CELLS, 1), 0);
        cr_assert_geq(cells->committed, 4096 / sizeof(struct capo_seg_cell));
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_CELLS, cells->capacity), 0);
        cr_assert_eq(cells->committed, cells->capacity);
        *(char *)capo_area_at(&seg, CAPO_AREA_CELLS, cells->capacity - 1) = 1;
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_CELLS, cells->capacity + 1), -ENOSPC);
        cr_assert_eq(cells->committed, cells->capacity);
        capo_segment_remove(&seg);
        cr_assert_eq(access(seg.path, F_OK), -1);
        cr_assert_eq(rmdir(dir), 0, "nothing is left there");
}

Test(segment, signals_do_not_keep_it_from_memory)
{
        struct capo_segment_config config = {.ring_bytes = 4096, .flight_records = 64};
        char dir[] = "/tmp/capo-segment-XXXXXX";
        struct capo_segment seg;

        cr_assert(mkdtemp(dir));
        profiled = 1;
        cr_assert_eq(capo_segment_create(&seg, dir, &config), 0);
        cr_expect_geq(seg.fd, 0);
        cr_expect_eq(capo_area_commit(&seg, CAPO_AREA_TEXT, 1), 0);
        cr_expect_eq(seg.header->went_private, 0);
        profiled = 0;
        capo_segment_remove(&seg);
        cr_assert_eq(rmdir(dir), 0);
}

/* Of 300 characters, and of more than can be had: nothing is made under a name that was cut. */
Test(segment, a_folder_with_a_long_name)
{
        struct capo_segment_config config = {.ring_bytes = 4096, .flight_records = 64};
        char dir[600] = "/tmp/capo-segment-XXXXXX", parent[600];
        struct capo_segment seg;

        cr_assert(mkdtemp(dir));
        for (int i = 0; i < 5; i++) {
                size_t n = strlen(dir);

                strcpy(parent, dir);
                snprintf(dir + n, sizeof dir - n, "/%0100d", i);
                cr_assert_eq(mkdir(dir, 0700), 0);
                cr_assert_eq(capo_segment_create(&seg, dir, &config), 0);
                cr_expect_eq(seg.fd >= 0, strlen(dir) + strlen("/capo-") < sizeof seg.path - 32,
                             "%s", seg.path);
                cr_expect(seg.fd < 0 ||
                          (!strncmp(seg.path, dir, strlen(dir)) && access(seg.path, F_OK) == 0));
                capo_segment_remove(&seg);
        }
        while (strlen(dir) > strlen("/tmp/")) { /* empty, all of them */
                cr_assert_eq(rmdir(dir), 0, "%s", dir);
                *strrchr(dir, '/') = 0;
        }
}

static char folder[] = "/tmp/capo-segment-XXXXXX";
static const struct capo_segment_config small = {.ring_bytes = 4096, .flight_records = 64};

Test(segment, it_says_whose_it_is)
{
        struct capo_segment first, second;
        char host[72] = "", name[64];
        struct stat st;

        close(STDIN_FILENO); /* as daemons do: 0 is a descriptor like any other */
        cr_assert(mkdtemp(folder));
        cr_assert_eq(capo_segment_create(&first, folder, &small), 0);
        cr_assert_eq(gethostname(host, sizeof host - 1), 0);
        cr_expect_eq(memcmp(first.header->magic, CAPO_SEGMENT_MAGIC, 8), 0);
        cr_expect_eq(first.header->version, CAPO_SEGMENT_VERSION);
        cr_expect_eq(first.header->header_size, sizeof *first.header);
        cr_expect(first.header->pid == getpid() && first.header->uid == geteuid());
        cr_expect_eq(first.header->start_time, capo_alive_since(getpid()));
        cr_expect_eq(first.header->pid_ns, capo_alive_namespace());
        cr_expect_eq(strlen(first.header->boot_id), 36);
        cr_expect_str_eq(first.header->host, host);
        cr_expect_eq(first.header->ready, 0, "that is for the caller to say");
        snprintf(name, sizeof name, "%s/capo-%u-%d-%llu", folder, (unsigned)geteuid(),
                 (int)getpid(), (unsigned long long)capo_alive_since(getpid()));
        cr_expect_str_eq(first.path, name);
        cr_expect_eq(stat(name, &st), 0);
        cr_expect(st.st_ino == first.ino && st.st_dev == first.dev && (st.st_mode & 0777) == 0600);
        cr_expect(first.fd >= 700 && fcntl(first.fd, F_GETFD) == FD_CLOEXEC,
                  "out of the program's way");
        cr_expect_eq((uint64_t)st.st_size, (sizeof *first.header + 4095) / 4096 * 4096);
        /* after exec() the old image's file may still be there */
        cr_assert_eq(capo_segment_create(&second, folder, &small), 0);
        strcat(name, ".1");
        cr_expect_str_eq(second.path, name);
        capo_segment_remove(&second);
        capo_segment_remove(&first);
        cr_expect_eq(access(first.path, F_OK), -1);
        cr_expect_eq(capo_area_commit(&first, CAPO_AREA_RINGS, 3), 0);
        memset(((struct capo_ring *)capo_area_at(&first, CAPO_AREA_RINGS, 2))->records, 1,
               64 * sizeof(struct capo_record)); /* by a thread that is not done */
        capo_segment_remove(&first);
        cr_assert_eq(rmdir(folder), 0);
}

/* The names of a process number and a start time: those in between are somebody else's. */
Test(segment, a_thousand_names_are_tried)
{
        struct capo_segment seg[3];
        char path[sizeof seg->path + 16];

        capo_msg_set_level(CAPO_ERROR);
        cr_assert(mkdtemp(folder));
        for (int i = 0; i < 3; i++) {
                cr_assert_eq(capo_segment_create(&seg[i], folder, &small), 0);
                cr_expect_eq(seg[i].fd >= 0, i < 2, "%d", i);
                for (int n = 1; i == 0 && n < 999; n++) {
                        snprintf(path, sizeof path, "%s.%d", seg[0].path, n);
                        cr_assert_eq(mknod(path, S_IFREG | 0600, 0), 0);
                }
        }
        cr_expect(strstr(seg[1].path, ".999"), "%s", seg[1].path);
        cr_expect_str_empty(seg[2].path);
        for (int n = 1; n < 999; n++) {
                snprintf(path, sizeof path, "%s.%d", seg[0].path, n);
                cr_assert_eq(unlink(path), 0);
        }
        for (int i = 0; i < 3; i++)
                capo_segment_remove(&seg[i]);
        cr_assert_eq(rmdir(folder), 0);
}

/* Memory without a file does all the same, for as long as the process lives. */
Test(segment, without_a_file)
{
        struct capo_segment seg;

        capo_msg_set_level(CAPO_ERROR);
        cr_assert_eq(capo_segment_create(&seg, "/nonexistent", &small), 0);
        cr_expect(seg.fd == -1 && !*seg.path);
        cr_expect_eq(memcmp(seg.header->magic, CAPO_SEGMENT_MAGIC, 8), 0);
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_FLIGHT, 64), 0);
        ((struct capo_record *)capo_area_at(&seg, CAPO_AREA_FLIGHT, 63))->seq = 1;
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_FLIGHT, 65), -ENOSPC);
        capo_segment_remove(&seg);
        capo_segment_forget(&seg);
}

Test(segment, memory_comes_some_ahead)
{
        static const struct {
                enum capo_area_id id;
                uint32_t n, least, most;
        } rows[] = {
                {CAPO_AREA_CELLS, 1, 64, 64}, {CAPO_AREA_CELLS, 1025, 1280, 1280},
                {CAPO_AREA_HISTS, 3, 3, 3},   {CAPO_AREA_HISTS, 5, 8, 8},
                {CAPO_AREA_SITES, 1, 2, 2},   {CAPO_AREA_SITES, 33, 40, 40},
                {CAPO_AREA_RINGS, 2, 2, 2},   {CAPO_AREA_FLIGHT, 1, 64, 64},
        };
        struct capo_segment seg;

        cr_assert(mkdtemp(folder));
        cr_assert_eq(capo_segment_create(&seg, folder, &small), 0);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct capo_area *a = &seg.header->areas[rows[i].id];
                struct stat st;

                errno = 42;
                cr_assert_eq(capo_area_commit(&seg, rows[i].id, rows[i].n), 0);
                cr_expect_eq(errno, 42);
                cr_expect(a->committed >= rows[i].least && a->committed <= rows[i].most,
                          "row %zu: %u", i, a->committed);
                for (uint32_t k = 0; k < a->committed && rows[i].id != CAPO_AREA_RINGS; k++)
                        memset(capo_area_at(&seg, rows[i].id, k), 1, a->item);
                cr_assert_eq(capo_area_commit(&seg, rows[i].id, rows[i].n - 1), 0,
                             "less is there already");
                cr_assert_eq(fstat(seg.fd, &st), 0);
                cr_expect(rows[i].id == CAPO_AREA_RINGS ||
                          (uint64_t)st.st_size >= a->offset + a->committed * a->item);
        }
        capo_segment_remove(&seg);
        cr_assert_eq(rmdir(folder), 0);
}

/* As another process sees it. */
static bool locked_by_us(const char *path)
{
        int status = -1;
        pid_t pid = fork();

        if (pid == 0)
                _exit(!capo_alive_locked(open(path, O_RDWR)));
        return waitpid(pid, &status, 0) == pid && status == 0;
}

/* A program that closed all descriptors it knew and opened a file of its own: that one is not
 * touched, and ours is opened again. */
Test(segment, a_descriptor_that_became_anothers)
{
        struct capo_segment seg, copy;
        char own[64], away[96];
        struct stat st;
        int fd, low;

        cr_assert(mkdtemp(folder));
        cr_assert_eq(capo_segment_create(&seg, folder, &small), 0);
        snprintf(own, sizeof own, "%s/own", folder);
        fd = open(own, O_CREAT | O_RDWR, 0600);
        cr_assert_eq(dup2(fd, seg.fd), seg.fd);
        errno = 42;
        low = seg.fd;
        cr_expect_eq(capo_area_commit(&seg, CAPO_AREA_CELLS, 1), 0);
        cr_expect_eq(errno, 42);
        cr_expect_eq(seg.header->went_private, 0);
        cr_expect(fstat(fd, &st) == 0 && st.st_size == 0);
        cr_expect(seg.fd != low && fstat(seg.fd, &st) == 0 && st.st_ino == seg.ino);
        cr_expect_geq((uint64_t)st.st_size, seg.header->areas[CAPO_AREA_CELLS].offset + 4096);
        cr_expect(locked_by_us(seg.path), "others see that it lives");
        seg.fd = low;
        capo_msg_set_level(CAPO_ERROR);
        cr_assert_eq(rename(seg.path, strcat(strcpy(away, seg.path), "-away")), 0);
        cr_expect_eq(capo_area_commit(&seg, CAPO_AREA_HISTS, 2), 0, "without a file, too");
        memset(capo_area_at(&seg, CAPO_AREA_HISTS, 0), 3, 2 * sizeof(struct capo_seg_hist));
        cr_expect_eq(seg.header->went_private, 1);
        cr_expect(fstat(fd, &st) == 0 && st.st_size == 0);
        cr_assert_eq(rename(away, seg.path), 0);
        copy = seg;
        capo_segment_forget(&copy);
        cr_expect_eq(copy.fd, -1);
        cr_expect(fcntl(seg.fd, F_GETFD) >= 0, "it is the program's");
        fd = seg.fd;
        capo_segment_remove(&seg);
        cr_expect(fcntl(fd, F_GETFD) >= 0);
        cr_expect_eq(unlink(own), 0);
        cr_assert_eq(rmdir(folder), 0, "its own file is gone all the same");
}

/* From another pid namespace the lock is all that shows that a process lives. */
Test(segment, the_lock_comes_back)
{
        struct capo_segment seg;

        cr_assert_eq(capo_segment_create(&seg, "/tmp", &(struct capo_segment_config){65536, 64, 0}),
                     0);
        cr_expect(locked_by_us(seg.path));
        close(seg.fd); /* as a program does that closes all it does not know */
        cr_expect_not(locked_by_us(seg.path));
        capo_segment_hold(&seg);
        cr_expect(locked_by_us(seg.path));
        capo_segment_remove(&seg);
}

Test(segment, a_name_that_became_anothers_and_a_childs_copy)
{
        struct capo_segment seg, copy;
        int fd;

        cr_assert(mkdtemp(folder));
        cr_assert_eq(capo_segment_create(&seg, folder, &small), 0);
        copy = seg;
        fd = seg.fd;
        capo_segment_forget(&copy);
        cr_expect(copy.fd == -1 && !copy.header);
        cr_expect_eq(fcntl(fd, F_GETFD), -1);
        cr_expect_eq(access(seg.path, F_OK), 0, "the parent's file stays");
        seg.fd = open(seg.path, O_RDWR);
        cr_assert_eq(unlink(seg.path), 0);
        fd = open(seg.path, O_CREAT | O_EXCL | O_RDWR, 0600);
        capo_segment_remove(&seg);
        cr_expect_eq(access(seg.path, F_OK), 0, "it is somebody else's now");
        unlink(seg.path);
        cr_assert_eq(rmdir(folder), 0);
}

/* What the folder has no room for is the process's own: it works as the rest does, and the file has
 * a hole there. */
Test(segment, a_folder_that_becomes_full)
{
        struct capo_segment seg;
        struct capo_area *cells;
        struct capo_seg_cell *first;

        capo_msg_set_level(CAPO_ERROR);
        cr_assert(mkdtemp(folder));
        cr_assert_eq(capo_segment_create(&seg, folder, &small), 0);
        cells = &seg.header->areas[CAPO_AREA_CELLS];
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_CELLS, 256), 0);
        cr_assert_eq(seg.header->went_private, 0);
        first = capo_area_at(&seg, CAPO_AREA_CELLS, 0);
        memset(first, 1, cells->committed * cells->item);
        full = 1;
        errno = 42;
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_CELLS, 257), 0);
        cr_expect_eq(errno, 42);
        cr_expect_eq(seg.header->went_private, 1);
        cr_expect_eq(cells->committed, 512);
        cr_expect_eq(first[255].count, 0x0101010101010101, "what was there stays");
        memset(first + 256, 2, 256 * sizeof *first);
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_HISTS, 2), 0);
        memset(capo_area_at(&seg, CAPO_AREA_HISTS, 0), 3, 2 * sizeof(struct capo_seg_hist));
        cr_expect_eq(seg.header->went_private, 1);
        cr_expect_eq(first[511].count, 0x0202020202020202);
        full = 0;
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_HISTS, 3), 0);
        cr_expect_eq(((char *)capo_area_at(&seg, CAPO_AREA_HISTS, 0))[0], 3);
        capo_segment_remove(&seg);
        cr_assert_eq(rmdir(folder), 0);
}

Test(segment, a_folder_that_is_full_at_the_start)
{
        struct capo_segment seg;

        capo_msg_set_level(CAPO_ERROR);
        full = 1;
        cr_assert(mkdtemp(folder));
        cr_assert_eq(capo_segment_create(&seg, folder, &small), 0);
        cr_expect(seg.fd == -1 && !*seg.path);
        cr_expect_eq(seg.header->uid, geteuid());
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_CELLS, 1), 0);
        cr_assert_eq(rmdir(folder), 0, "nothing is left there");
}

/* The folder is not the job's alone: of what is free a quarter is taken, and rings become smaller.
 */
Test(segment, a_folder_with_little_room)
{
        const uint64_t free_bytes = 4 << 20;
        struct capo_segment seg;
        uint32_t least = UINT32_MAX, most = 0;

        capo_msg_set_level(CAPO_ERROR);
        has_free = free_bytes;
        cr_assert(mkdtemp(folder));
        cr_assert_eq(
                capo_segment_create(&seg, folder, &(struct capo_segment_config){256 << 10, 64, 0}),
                0);
        for (uint32_t i = 0; i < 128; i++) {
                struct capo_ring *ring;

                cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_RINGS, i + 1), 0);
                ring = capo_area_at(&seg, CAPO_AREA_RINGS, i);
                memset(ring->records, 1, ring->size * sizeof *ring->records);
                least = ring->size < least ? ring->size : least;
                most = ring->size > most ? ring->size : most;
        }
        cr_expect_leq(taken, free_bytes / 4, "%llu", (unsigned long long)taken);
        cr_expect_gt(taken, free_bytes / 8);
        cr_expect_leq(most, 1024, "%u", most);
        cr_expect_eq(least, 512, "%u", least);
        cr_expect_eq(seg.header->went_private, 1, "the last ones are the process's alone");
        capo_segment_remove(&seg);
        capo_segment_unmap(&seg);
        cr_assert_eq(rmdir(folder), 0);
}

/* Of a process with many threads few make most calls. */
Test(segment, later_rings_are_smaller)
{
        static const uint32_t records[] = {4096, 4096, 2048, 2048, 2048, 2048, 2048, 2048, 1024};
        struct capo_segment seg;

        cr_assert(mkdtemp(folder));
        cr_assert_eq(
                capo_segment_create(&seg, folder, &(struct capo_segment_config){256 << 10, 64, 0}),
                0);
        for (uint32_t i = 0; i < 9; i++) {
                cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_RINGS, i + 1), 0);
                cr_expect_eq(((struct capo_ring *)capo_area_at(&seg, CAPO_AREA_RINGS, i))->size,
                             records[i], "%u", i);
        }
        capo_segment_remove(&seg);
        cr_assert_eq(rmdir(folder), 0);
}

/* A thread begins with a small one, of no more records than were asked for. */
Test(segment, first_rings_are_small)
{
        static const struct {
                uint64_t asked;
                uint32_t first, large;
        } rows[] = {{4096, 64, 64}, {32 << 10, 512, 512}, {256 << 10, 512, 4096}};
        struct capo_segment seg;

        cr_assert(mkdtemp(folder));
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                cr_assert_eq(
                        capo_segment_create(&seg, folder,
                                            &(struct capo_segment_config){rows[i].asked, 64, 0}),
                        0);
                for (uint32_t nth = 0; nth < 3; nth++)
                        cr_assert_eq(capo_ring_commit(&seg, nth, nth == 2), 0);
                for (uint32_t nth = 0; nth < 3; nth++) {
                        const struct capo_ring *r = capo_area_at(&seg, CAPO_AREA_RINGS, nth);

                        cr_expect_eq(r->size, nth == 2 ? rows[i].large : rows[i].first, "%zu: %u",
                                     i, r->size);
                }
                capo_segment_remove(&seg);
                capo_segment_unmap(&seg);
        }
        cr_assert_eq(rmdir(folder), 0);
}

static uint64_t address_space(void)
{
        unsigned long long pages = 0;
        FILE *f = fopen("/proc/self/statm", "r");

        cr_assert(f && fscanf(f, "%llu", &pages) == 1);
        fclose(f);
        return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A job that locks its memory (mlockall) makes all that is mapped real. */
Test(segment, little_is_mapped_that_is_not_used)
{
        uint64_t before = address_space(), mapped;
        struct capo_drain *drain;
        struct capo_segment seg;

        cr_assert(mkdtemp(folder));
        cr_assert_eq(capo_segment_create(&seg, folder,
                                         &(struct capo_segment_config){256 << 10, 16384, 0}),
                     0);
        for (int i = 0; i < CAPO_AREAS; i++)
                cr_assert_eq(capo_area_commit(&seg, (enum capo_area_id)i, 1), 0);
        mapped = address_space() - before;
        cr_expect_leq(mapped, 2 << 20, "%llu bytes", (unsigned long long)mapped);
        cr_assert_eq(capo_drain_new(&seg, &drain), 0);
        mapped = address_space() - before - mapped;
        cr_expect_leq(mapped, 2 << 20, "the recorder's thread: %llu bytes",
                      (unsigned long long)mapped);
        capo_drain_free(drain);
        capo_segment_remove(&seg);
        capo_segment_unmap(&seg);
        cr_expect_leq(address_space(), before);
        cr_assert_eq(rmdir(folder), 0);
}
