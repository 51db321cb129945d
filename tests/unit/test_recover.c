/* SPDX-License-Identifier: Apache-2.0 */
/* A dead process's segment: taken up whole, left alone when it is not one, and never a crash
 * whatever its bytes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log/alive.h"
#include "core/log/drain.h"
#include "core/log/segment_calls.h"
#include "analysis/log/log_read.h"
#include "analysis/log/live_logs.h"
#include "analysis/log/recover.h"
#include "tests/log_numbers.h"

#define CALLS 200

static char dir[] = "/tmp/capo-recover-XXXXXX";
static char segment[96], log_path[128];

/* A frame in a half of the kept area, as the recorder puts it there. */
static void keep(struct capo_segment *seg, unsigned half, const char *text)
{
        uint32_t *size = &seg->header->kept_size[half - 1],
                 head[2] = {CAPO_FRAME_FABRIC, (uint32_t)strlen(text)};
        uint32_t at = (half - 1) * CAPO_KEPT_HALF + *size;

        if (capo_area_commit(seg, CAPO_AREA_KEPT, at + 8 + head[1]))
                _exit(1);
        memcpy(capo_area_at(seg, CAPO_AREA_KEPT, at), head, sizeof head);
        memcpy(capo_area_at(seg, CAPO_AREA_KEPT, at + 8), text, head[1]);
        *size += 8 + ((head[1] + 7) & ~7u);
}

/* In a child: a segment with calls in a ring, left behind after @last (may be NULL). Its name goes
 * to the parent. */
static void leave_segment(int out, bool trace_all, void (*last)(struct capo_segment *seg))
{
        struct capo_segment_config config = {
                .ring_bytes = 256 * 64, .flight_records = 64, .trace_all = trace_all};
        struct capo_segment seg;
        struct capo_ring *ring;

        if (capo_segment_create(&seg, dir, &config) || seg.fd < 0)
                _exit(1);
        capo_clock_init(&seg.header->clock);
        capo_clock_ready(&seg.header->clock);
        snprintf(seg.header->log_path, sizeof seg.header->log_path, "%s/left.capo", dir);
        if (capo_area_commit(&seg, CAPO_AREA_RINGS, 1))
                _exit(1);
        seg.header->areas[CAPO_AREA_RINGS].used = 1;
        ring = capo_area_at(&seg, CAPO_AREA_RINGS, 0);
        for (uint32_t i = 0; i < CALLS; i++) {
                ring->records[i] = (struct capo_record){
                        .t_begin = seg.header->clock.t0_ticks + i * 1000,
                        .t_end = seg.header->clock.t0_ticks + i * 1000 + 100,
                        .bytes = 64u << i % 5,
                        .seq = i + 1,
                        .peer = -1,
                        .call = CAPO_CALL_ALLREDUCE,
                        .clock = CAPO_CLOCK_HOST,
                        .thread = 1,
                };
                ring->head = i + 1;
        }
        keep(&seg, 1, "not in force\n");
        keep(&seg, 2, "first\n");
        keep(&seg, 2, "and second\n");
        seg.header->kept_now = 2;
        seg.header->ready = 1;
        if (last)
                last(&seg);
        if (write(out, seg.path, sizeof seg.path) < 0)
                _exit(1);
        _exit(0);
}

static void leave(bool trace_all, void (*last)(struct capo_segment *seg))
{
        int pipes[2], status;
        pid_t pid;

        cr_assert(pipe(pipes) == 0);
        pid = fork();
        if (pid == 0)
                leave_segment(pipes[1], trace_all, last);
        cr_assert(waitpid(pid, &status, 0) == pid && status == 0, "status %x", status);
        cr_assert(read(pipes[0], segment, 64) == 64);
        close(pipes[0]);
        close(pipes[1]);
}

static void setup(void)
{
        cr_assert(mkdtemp(dir));
        leave(false, NULL);
        snprintf(log_path, sizeof log_path, "%s/left.capo", dir);
}

static void teardown(void)
{
        char command[64];

        snprintf(command, sizeof command, "rm -rf %s", dir);
        cr_assert(system(command) == 0);
}

static int count(const struct capo_segment_info *info, void *cookie)
{
        *(uint64_t *)cookie += info->records;
        return 0;
}

TestSuite(recover, .init = setup, .fini = teardown);

Test(recover, what_was_left_is_found_and_taken)
{
        struct capo_segment_info info;
        struct capo_log_frame f;
        struct capo_log_hist_view host, gpu;
        struct capo_log_cell cell;
        struct capo_log_columns columns;
        struct capo_log_end end = {0};
        uint64_t left = 0, calls = 0, counted = 0;
        struct capo_log *log;
        char why[200], kept[64] = "";

        cr_assert_eq(capo_segment_find(dir, NULL, false, count, &left), 1);
        cr_assert_eq(left, CALLS);
        cr_assert_eq(capo_segment_find(dir, "/tmp", false, count, &left), 0); /* another job's */
        cr_assert_eq(left, CALLS, "nor is it told of");
        cr_assert_eq(capo_segment_recover(segment, NULL, &info), 0);
        cr_assert_str_eq(info.log_path, log_path);
        cr_assert_eq(access(segment, F_OK), -1);
        cr_assert_eq(capo_segment_recover(segment, NULL, &info), -ESTALE);
        cr_assert_eq(capo_log_open(log_path, &log, why, sizeof why), 0, "%s", why);
        while (capo_log_next(log, &f) > 0) {
                if (f.type == CAPO_FRAME_BLOCK && capo_log_block(&f, &columns) == 0)
                        calls += columns.n;
                else if (f.type == CAPO_FRAME_CELL && capo_log_cell(&f, &cell, &host, &gpu) == 0)
                        counted += cell.count;
                else if (f.type == CAPO_FRAME_FABRIC)
                        strncat(kept, f.payload, f.size);
                else if (f.type == CAPO_FRAME_END)
                        cr_assert_eq(capo_log_end(&f, &end), 0);
        }
        capo_log_close(log);
        cr_assert_eq(counted, CALLS);
        cr_assert_eq(calls, 64); /* the flight recorder's */
        cr_assert_eq(end.calls, CALLS);
        cr_assert_str_eq(kept, "first\nand second\n");
        cr_assert_eq(end.clean, 2);
}

Test(recover, others_files_are_left_alone)
{
        char path[160];
        uint64_t left = 0;
        FILE *f;

        cr_assert_eq(unlink(segment), 0);
        snprintf(path, sizeof path, "%s/capo-%u-1-1", dir, (unsigned)geteuid());
        f = fopen(path, "w");
        cr_assert(f && fputs("not a segment", f) >= 0);
        fclose(f);
        cr_assert_eq(capo_segment_find(dir, NULL, false, count, &left), 0);
        cr_assert_eq(capo_segment_recover(path, NULL, NULL), -EBADMSG);
        cr_assert_eq(unlink(path), 0);
        cr_assert_eq(symlink("/etc/passwd", path), 0);
        cr_assert_eq(capo_segment_find(dir, NULL, false, count, &left), 0);
        cr_assert_eq(capo_segment_recover(path, NULL, NULL), -ELOOP);
        cr_assert_eq(access(path, F_OK), 0);
}

/* A whole segment, with a name of ours, that another user put there. */
Test(recover, another_users_segment_is_no_business_of_ours)
{
        uint64_t left = 0;

        if (geteuid())
                cr_skip_test("only root can give a file to somebody");
        cr_assert_eq(chown(segment, 65534, 65534), 0);
        cr_expect_eq(capo_segment_find(dir, NULL, false, count, &left), 0);
        cr_expect_eq(capo_segment_recover(segment, NULL, NULL), -EPERM);
        cr_expect_eq(access(segment, F_OK), 0);
        cr_expect_eq(access(log_path, F_OK), -1);
        cr_assert_eq(chown(segment, geteuid(), 0), 0);
        cr_assert_eq(capo_segment_find(dir, NULL, false, count, &left), 1);
}

/* What a process leaves that was killed while it made its segment: gone a minute later. */
Test(recover, no_process_was_ready)
{
        static const struct {
                const char *text;
                int age_s;
                bool stays;
        } rows[] = {{"", 100, false},          {"", 10, true},          {"\0\0\0\0", 100, false},
                    {"CAPOSEG\n", 100, false}, {"CAPOSEG\n", 10, true}, {"another's", 100, true}};
        char path[160];
        uint64_t left = 0;

        snprintf(path, sizeof path, "%s/capo-%u-1-1", dir, (unsigned)geteuid());
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct timespec then[2] = {{.tv_nsec = UTIME_OMIT},
                                           {.tv_sec = time(NULL) - rows[i].age_s}};
                int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
                size_t n = i == 2 ? 4 : strlen(rows[i].text);

                cr_assert_eq(write(fd, rows[i].text, n), (ssize_t)n);
                cr_assert_eq(futimens(fd, then), 0);
                close(fd);
                cr_assert_eq(capo_segment_find(dir, NULL, false, count, &left), 1,
                             "row %zu: the one of before", i);
                cr_expect_eq(access(path, F_OK) == 0, rows[i].stays, "row %zu", i);
        }
}

/* Flip a few bytes of the header, or anywhere, many times over. */
Test(recover, damage_is_no_crash, .timeout = 60)
{
        static char good[8 << 20];
        struct stat st;
        char copy[160], log[160];
        int fd = open(segment, O_RDONLY), status;
        unsigned seed = 1;

        cr_assert(fd >= 0 && fstat(fd, &st) == 0);
        cr_assert_gt(st.st_size, 0);
        snprintf(copy, sizeof copy, "%s/capo-%u-7-7", dir, (unsigned)geteuid());
        snprintf(log, sizeof log, "%s/other.capo", dir);
        for (int i = 0; i < 100; i++) {
                pid_t pid = fork();

                if (pid == 0) {
                        size_t head = sizeof(struct capo_segment_header);
                        uint64_t ring;
                        int out = open(copy, O_RDWR | O_CREAT | O_TRUNC, 0600);

                        if (pread(fd, good, head, 0) != (ssize_t)head || ftruncate(out, st.st_size))
                                _exit(1);
                        ring = ((struct capo_segment_header *)good)->areas[CAPO_AREA_RINGS].offset;
                        srand(seed + (unsigned)i);
                        for (int k = 0; k < 1 + i % 4; k++)
                                good[rand() % (int)head] ^= (char)(1 << rand() % 8);
                        if (pwrite(out, good, head, 0) < 0 ||
                            pread(fd, good, 16384, (off_t)ring) < 0)
                                _exit(1);
                        for (int k = 0; k < i % 3; k++)
                                good[rand() % 16384] ^= (char)(1 << rand() % 8);
                        if (pwrite(out, good, 16384, (off_t)ring) < 0)
                                _exit(1);
                        close(2);
                        capo_segment_recover(copy, log, NULL);
                        _exit(0);
                }
                cr_assert(waitpid(pid, &status, 0) == pid);
                cr_assert_eq(status, 0, "status %x with seed %d", status, i);
                unlink(log);
                unlink(copy);
        }
        close(fd);
}

/* ---- one thing wrong at a time ---- */

static struct capo_ring *ring_of(struct capo_segment *seg)
{
        return capo_area_at(seg, CAPO_AREA_RINGS, 0);
}

/* A round of the drain, then as if it had been killed while it took the last call out. */
static void half_taken(struct capo_segment *seg, bool counted)
{
        struct capo_seg_cell *cell;
        struct capo_drain *drain;

        if (capo_drain_new(seg, &drain) || capo_drain_create_log(drain) ||
            capo_drain_round(drain) != CALLS)
                _exit(1);
        cell = capo_area_at(seg, CAPO_AREA_CELLS, (CALLS - 1) % 5);
        ring_of(seg)->tail--;
        if (!counted) {
                seg->header->calls--;
                cell->count--;
        }
}

static void kept_and_counted(struct capo_segment *seg) { half_taken(seg, true); }

static void only_kept(struct capo_segment *seg) { half_taken(seg, false); }

/* What the log holds: calls in blocks, the cells' sum, and the last END. */
static void read_log_end(uint64_t *calls, uint64_t *counted, struct capo_log_end *last)
{
        struct capo_log_hist_view host, gpu;
        struct capo_log_columns columns;
        struct capo_log_frame f;
        struct capo_log_cell cell;
        struct capo_log *log;
        char why[200];

        *calls = *counted = 0;
        *last = (struct capo_log_end){0};
        cr_assert_eq(capo_log_open(log_path, &log, why, sizeof why), 0, "%s", why);
        while (capo_log_next(log, &f) > 0) {
                if (f.type == CAPO_FRAME_BLOCK && capo_log_block(&f, &columns) == 0)
                        *calls += columns.n;
                else if (f.type == CAPO_FRAME_CELL && capo_log_cell(&f, &cell, &host, &gpu) == 0)
                        *counted += cell.count;
                else if (f.type == CAPO_FRAME_END)
                        capo_log_end(&f, last);
        }
        capo_log_close(log);
}

static void read_log(uint64_t *calls, uint64_t *counted, uint64_t *end_calls)
{
        struct capo_log_end end;

        read_log_end(calls, counted, &end);
        *end_calls = end.calls;
}

Test(recover, a_call_on_its_way_is_counted_once)
{
        void (*const when[])(struct capo_segment *) = {kept_and_counted, only_kept};
        uint64_t calls, counted, end;

        for (unsigned i = 0; i < 4; i++) {
                leave(i & 2, when[i & 1]);
                cr_assert_eq(capo_segment_recover(segment, NULL, NULL), 0);
                read_log(&calls, &counted, &end);
                cr_expect_eq(counted, CALLS, "%u: %llu in cells", i, (unsigned long long)counted);
                cr_expect_eq(end, CALLS, "%u: END says %llu", i, (unsigned long long)end);
                cr_expect_eq(calls, i & 2 ? CALLS : 64, "%u: %llu written", i,
                             (unsigned long long)calls);
                unlink(log_path);
        }
}

/* Half of the calls are taken while the log cannot grow, and the other half when it can; then it is
 * killed. */
static void no_room_for_a_while(struct capo_segment *seg)
{
        struct capo_ring *ring = capo_area_at(seg, CAPO_AREA_RINGS, 0);
        struct rlimit limit;
        struct capo_drain *drain;

        getrlimit(RLIMIT_FSIZE, &limit);
        ring->head = CALLS / 2;
        if (capo_drain_new(seg, &drain) || capo_drain_create_log(drain) ||
            capo_drain_round(drain) != CALLS / 2)
                _exit(1);
        limit.rlim_cur = sizeof(struct capo_log_header);
        setrlimit(RLIMIT_FSIZE, &limit);
        if (capo_drain_checkpoint(drain) != -EFBIG)
                _exit(1);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_FSIZE, &limit);
        ring->head = CALLS;
        if (capo_drain_round(drain) != CALLS / 2 || capo_drain_checkpoint(drain))
                _exit(1);
}

Test(recover, what_could_not_be_written_was_written_later)
{
        struct capo_log_end end;
        uint64_t calls, counted;

        leave(true, no_room_for_a_while);
        cr_assert_eq(capo_segment_recover(segment, NULL, NULL), 0);
        read_log_end(&calls, &counted, &end);
        cr_expect_eq(calls, CALLS, "%llu written", (unsigned long long)calls);
        cr_expect_eq(end.calls, CALLS);
        cr_expect_eq(end.bytes_lost, 0, "%llu", (unsigned long long)end.bytes_lost);
        unlink(log_path);
}

/* Killed when the log was there and nothing said so yet. */
static void just_made(struct capo_segment *seg)
{
        struct capo_drain *drain;

        if (capo_drain_new(seg, &drain) || capo_drain_create_log(drain))
                _exit(1);
        memset(seg->header->commit, 0, sizeof seg->header->commit);
}

Test(recover, a_log_that_was_just_made_is_gone_on_with)
{
        char second[sizeof log_path + 2];
        struct capo_log_end end;
        uint64_t calls, counted;

        leave(true, just_made);
        cr_assert_eq(capo_segment_recover(segment, NULL, NULL), 0);
        read_log_end(&calls, &counted, &end);
        cr_expect(calls == CALLS && counted == CALLS && end.calls == CALLS && end.clean == 2);
        snprintf(second, sizeof second, "%.*s.1.capo", (int)(strlen(log_path) - strlen(".capo")),
                 log_path);
        cr_expect_neq(access(second, F_OK), 0, "a second one beside it");
        unlink(log_path);
}

/* Calls on their way through the GPU: one in each state. */
static void on_the_gpu(struct capo_segment *seg)
{
        static const uint32_t states[] = {CAPO_SLOT_ARMED, CAPO_SLOT_TAKEN, CAPO_SLOT_FREE,
                                          CAPO_SLOT_DONE};

        if (capo_area_commit(seg, CAPO_AREA_SLOTS, 4))
                _exit(1);
        seg->header->areas[CAPO_AREA_SLOTS].used = 4;
        for (uint32_t i = 0; i < 4; i++) {
                struct capo_slot *slot = capo_area_at(seg, CAPO_AREA_SLOTS, i);

                slot->record = (struct capo_record){.t_begin = seg->header->clock.t0_ticks,
                                                    .t_end = seg->header->clock.t0_ticks + 1,
                                                    .seq = CALLS + i + 1,
                                                    .call = CAPO_CALL_ALLREDUCE,
                                                    .clock = CAPO_CLOCK_EVENT,
                                                    .gpu_ns = 5,
                                                    .thread = 1};
                slot->state = states[i];
        }
}

Test(recover, calls_that_had_returned_but_not_ended)
{
        uint64_t left = 0, calls, counted, end;

        unlink(segment);
        leave(true, on_the_gpu);
        cr_assert_eq(capo_segment_find(dir, NULL, false, count, &left), 1);
        cr_assert_eq(left, CALLS + 2);
        cr_assert_eq(capo_segment_recover(segment, NULL, NULL), 0);
        read_log(&calls, &counted, &end);
        cr_expect(calls == CALLS + 2 && counted == CALLS + 2 && end == CALLS + 2);
}

/* A histogram far behind those there are: a write there would be out of bounds. */
static void hist_beyond(struct capo_segment *seg)
{
        struct capo_drain *drain;

        if (capo_drain_new(seg, &drain) || capo_drain_round(drain) != CALLS)
                _exit(1);
        for (unsigned i = 0; i < 5; i++) {
                struct capo_seg_cell *cell = capo_area_at(seg, CAPO_AREA_CELLS, i);

                cell->host = i ? UINT32_MAX - i : 4000;
        }
        ring_of(seg)->tail = 0;
}

static void text_beyond(struct capo_segment *seg)
{
        if (capo_area_commit(seg, CAPO_AREA_TEXT, seg->header->areas[CAPO_AREA_TEXT].capacity))
                _exit(1);
        seg->header->text_head = UINT64_C(1) << 60; /* pieces of no bytes, one after the other */
}

static void text_as_block(struct capo_segment *seg)
{
        uint32_t piece[2] = {CAPO_FRAME_BLOCK, 16};

        if (capo_area_commit(seg, CAPO_AREA_TEXT, seg->header->areas[CAPO_AREA_TEXT].capacity))
                _exit(1);
        memcpy(capo_area_at(seg, CAPO_AREA_TEXT, 0), piece, sizeof piece);
        seg->header->text_head = 24;
}

static void flight_beyond(struct capo_segment *seg)
{
        if (capo_area_commit(seg, CAPO_AREA_FLIGHT, seg->header->flight_records))
                _exit(1);
        seg->header->flight_head = UINT64_C(1) << 60;
}

static void records_beyond(struct capo_segment *seg)
{
        seg->header->ring_records = seg->header->flight_records = UINT32_C(1) << 31;
        ring_of(seg)->head = UINT32_C(1) << 31;
        ring_of(seg)->tail = (UINT32_C(1) << 31) - 5;
}

static void ring_backwards(struct capo_segment *seg)
{
        ring_of(seg)->tail = ring_of(seg)->head + 1;
}

static void ring_far(struct capo_segment *seg) { ring_of(seg)->head = UINT64_MAX; }

static void short_path(struct capo_segment *seg)
{
        strcpy(seg->header->log_path, "."); /* is there, so another name is made of it */
}

static void rate_of_nothing(struct capo_segment *seg)
{
        seg->header->clock.ns_per_tick = __builtin_nan("");
}

static void rate_of_everything(struct capo_segment *seg)
{
        seg->header->clock.ns_per_tick = 1e300;
        ((struct capo_record *)ring_of(seg)->records)->t_end = UINT64_MAX;
}

Test(recover, what_a_segment_says_is_not_believed, .timeout = 60)
{
        static const struct {
                const char *name;
                void (*last)(struct capo_segment *seg);
                int r;
                uint64_t calls; /* END's */
        } rows[] = {
                {"histograms", hist_beyond, 0, 2 * CALLS},
                {"text", text_beyond, -EBADMSG, 0},
                {"a text that is none", text_as_block, 0, CALLS},
                {"flight recorder", flight_beyond, 0, CALLS},
                {"sizes", records_beyond, -EBADMSG, 0},
                {"ring backwards", ring_backwards, 0, 0},
                {"ring", ring_far, 0, 0},
                {"path", short_path, -EEXIST, 0},
                {"clock", rate_of_nothing, 0, CALLS},
                {"a clock that is too fast", rate_of_everything, 0, CALLS},
        };

        for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
                bool trace_all = i % 2;
                uint64_t calls, counted, end;
                struct stat st;
                int r;

                leave(trace_all, rows[i / 2].last);
                r = capo_segment_recover(segment, NULL, NULL);
                cr_expect_eq(r, rows[i / 2].r, "%s: %d", rows[i / 2].name, r);
                if (r == 0) {
                        read_log(&calls, &counted, &end);
                        cr_expect_eq(end, rows[i / 2].calls, "%s: %llu", rows[i / 2].name,
                                     (unsigned long long)end);
                        cr_expect_leq(calls, trace_all ? 16384 + CALLS : 64, "%s",
                                      rows[i / 2].name);
                        cr_expect(stat(log_path, &st) == 0 && st.st_size < 8 << 20, "%s",
                                  rows[i / 2].name);
                }
                unlink(segment);
                unlink(log_path);
        }
}

static void forget_start(struct capo_segment *seg) { seg->header->start_time = 0; }

/* A /proc that did not say when the process began, as under qemu-user. */
Test(recover, one_whose_start_is_not_known)
{
        struct capo_segment_info info;

        leave(false, forget_start);
        cr_assert_eq(capo_segment_recover(segment, NULL, &info), 0, "it has exited");
}

Test(recover, who_lives)
{
        char text[64];

        cr_assert_gt(capo_alive_since(getpid()), 0);
        cr_assert_eq(capo_alive_since(0), 0);
        cr_assert_gt(capo_alive_namespace(), 0);
        cr_assert_gt(capo_alive_text("/proc/sys/kernel/random/boot_id", text, sizeof text), 30);
        cr_assert_eq(capo_alive_text("/nowhere", text, sizeof text), -ENOENT);
}

static int first(const struct capo_segment_info *info, void *cookie)
{
        *(struct capo_segment_info *)cookie = *info;
        return 1;
}

/* The calls in the memory of a process, and the END of its log. */
static uint64_t calls_seen(const struct capo_segment_info *info, struct capo_log_end *end)
{
        struct capo_log_hist_view host, gpu;
        struct capo_log_frame f;
        struct capo_log_cell cell;
        struct capo_log *log;
        uint64_t n = 0;

        cr_assert_eq(capo_live_log_open(info, &log), 0);
        cr_assert_str_eq(capo_log_path(log), info->log_path);
        while (capo_log_next(log, &f) > 0) {
                if (f.type == CAPO_FRAME_CELL && capo_log_cell(&f, &cell, &host, &gpu) == 0)
                        n += cell.count;
                else if (f.type == CAPO_FRAME_END)
                        cr_assert_eq(capo_log_end(&f, end), 0);
        }
        capo_log_close(log);
        return n;
}

Test(recover, reading_changes_nothing)
{
        struct capo_segment_info info = {.pid = 0};
        struct capo_log_end end = {0};
        int fd;

        cr_assert_eq(capo_segment_find(dir, NULL, true, first, &info), 1);
        cr_assert(!info.alive && info.records == CALLS);
        cr_assert_eq(calls_seen(&info, &end), CALLS);
        cr_assert_eq(end.clean, 2);
        cr_assert(access(segment, F_OK) == 0 && access(log_path, F_OK) != 0,
                  "neither taken nor written");
        cr_assert_eq(unlink(segment), 0);
        cr_assert_eq(capo_segment_peek(&info, &fd), -ENOENT);
}

static void come_to_exit(struct capo_segment *seg) { seg->header->ended = 1; }

/* One that was killed in its exit: its memory says what its log will. */
Test(recover, memory_says_what_the_log_will)
{
        struct capo_segment_info info = {.pid = 0};
        struct capo_log_end end = {0};

        cr_assert_eq(unlink(segment), 0);
        leave(false, come_to_exit);
        cr_assert_eq(capo_segment_find(dir, NULL, true, first, &info), 1);
        cr_assert_eq(calls_seen(&info, &end), CALLS);
        cr_assert_eq(end.clean, 1);
}

static void stay(struct capo_segment *seg)
{
        if (write(3, seg->path, sizeof seg->path) < 0)
                _exit(1);
        pause();
}

Test(recover, a_living_process_is_read)
{
        struct capo_segment_info info = {.pid = 0};
        struct capo_log_end end = {0};
        int pipes[2];
        pid_t pid;

        cr_assert(unlink(segment) == 0 && pipe(pipes) == 0);
        pid = fork();
        if (pid == 0) {
                dup2(pipes[1], 3);
                leave_segment(3, false, stay);
        }
        cr_assert(read(pipes[0], segment, 64) == 64);
        cr_assert_eq(capo_segment_find(dir, NULL, false, first, &info), 0);
        cr_assert_eq(capo_segment_find(dir, NULL, true, first, &info), 1);
        cr_assert(info.alive && info.pid == pid);
        cr_assert_eq(calls_seen(&info, &end), CALLS);
        cr_assert_eq(end.clean, 0);
        cr_assert_eq(capo_segment_recover(segment, NULL, NULL), -EBUSY);
        cr_assert(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
        cr_assert_eq(capo_segment_find(dir, NULL, true, first, &info), 1);
        cr_assert(!info.alive);
}

/* Reading takes no lock: nobody who recovers at that moment takes the dead process for a living
 * one, and leaves it. */
Test(recover, reading_takes_no_lock)
{
        struct capo_segment_info info = {.pid = 0};
        int fd = open(segment, O_RDWR | O_CLOEXEC);
        pid_t pid = fork();

        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG,
                      SIGKILL); /* a check that fails leaves no child that looks for ever */
                for (;;)
                        capo_segment_find(dir, NULL, true, first, &info);
        }
        cr_assert(fd >= 0 && pid > 0);
        for (int i = 0; i < 20000; i++) {
                struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

                cr_assert_eq(fcntl(fd, F_SETLK, &lock), 0, "look %d", i);
                lock.l_type = F_UNLCK;
                cr_assert_eq(fcntl(fd, F_SETLK, &lock), 0);
                if (i % 20 == 0)
                        sched_yield();
        }
        cr_assert(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

/* Of one that another is recovering: gone, and its memory can be read; but who looks for the dead
 * has nothing to do. */
Test(recover, one_that_is_being_recovered_is_dead)
{
        struct capo_segment_info info = {.alive = true};
        struct capo_log_end end;
        char byte[1];
        int pipes[2];
        pid_t pid;

        cr_assert_eq(pipe(pipes), 0);
        pid = fork();
        if (pid == 0) {
                int fd = open(segment, O_RDWR | O_CLOEXEC);

                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (fd < 0 || capo_alive_lock(fd) || write(pipes[1], "", 1) != 1)
                        _exit(1);
                pause();
        }
        cr_assert(read(pipes[0], byte, 1) == 1);
        cr_assert_eq(capo_segment_find(dir, NULL, false, first, &info), 0);
        cr_assert_eq(capo_segment_find(dir, NULL, true, first, &info), 1);
        cr_assert(!info.alive && info.records == CALLS);
        cr_assert_eq(calls_seen(&info, &end), CALLS);
        cr_assert_eq(capo_segment_recover(segment, NULL, NULL), -EBUSY);
        cr_assert(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
        cr_assert_eq(capo_segment_recover(segment, NULL, NULL), 0);
}

/* Processes that end by themselves between the listing of the folder and the reading of their file
 * have left nothing. */
Test(recover, who_ends_meanwhile_left_nothing)
{
        uint64_t records = 0;
        pid_t pid, maker;

        cr_assert(unlink(segment) == 0);
        maker = fork();
        for (int i = 0; maker == 0 && i < 300; i++) {
                pid = fork();
                if (pid == 0) {
                        struct capo_segment_config config = {.ring_bytes = 256 * 64,
                                                             .flight_records = 64};
                        struct capo_segment seg;

                        if (capo_segment_create(&seg, dir, &config) || seg.fd < 0)
                                _exit(1);
                        snprintf(seg.header->log_path, sizeof seg.header->log_path, "%s", log_path);
                        seg.header->ready = 1;
                        sched_yield();
                        capo_segment_remove(&seg);
                        _exit(0);
                }
                waitpid(pid, NULL, 0);
        }
        if (maker == 0)
                _exit(0);
        do
                cr_assert_eq(capo_segment_find(dir, NULL, false, count, &records), 0);
        while (waitpid(maker, NULL, WNOHANG) == 0);
        cr_assert_eq(capo_segment_recover(segment, NULL, NULL), -ESTALE);
}

static void folder_of_another_name(struct capo_segment *seg)
{
        snprintf(seg->header->log_path, sizeof seg->header->log_path, "%s/gone/left.capo", dir);
}

/* The one of the two whose log has no folder. */
static int keep_homeless(const struct capo_segment_info *info, void *out)
{
        if (info->homeless)
                *(struct capo_segment_info *)out = *info;
        return info->homeless;
}

/* The folder of a log may be gone for good: it is said, and what waits for it can be removed. */
Test(recover, a_log_without_a_folder)
{
        struct capo_segment_info info = {0};

        leave(false, folder_of_another_name);
        cr_assert_eq(capo_segment_find(dir, NULL, false, keep_homeless, &info), 1);
        cr_assert(info.homeless, "%s", info.log_path);
        cr_expect_eq(capo_segment_recover(segment, NULL, NULL), -ENOENT);
        cr_expect_eq(access(segment, F_OK), 0, "it waits");
        cr_expect_eq(capo_segment_drop(segment), 0);
        cr_expect_neq(access(segment, F_OK), 0, "it is removed");
        cr_expect_eq(capo_segment_drop(segment), -ESTALE);
}

Test(recover, nothing_is_dropped_that_has_a_folder)
{
        cr_expect_eq(capo_segment_drop(segment), -EEXIST);
        cr_expect_eq(access(segment, F_OK), 0);
}

/* Root recovers, and another user has the log meanwhile. */
Test(recover, the_log_of_another_user)
{
        struct stat before, after;

        if (geteuid())
                return;
        cr_assert_eq(close(open(log_path, O_CREAT | O_WRONLY, 0600)), 0);
        cr_assert_eq(chown(log_path, 4321, 4321), 0);
        cr_assert_eq(stat(log_path, &before), 0);
        cr_expect_eq(capo_segment_recover(segment, NULL, NULL), -EPERM);
        cr_assert_eq(stat(log_path, &after), 0);
        cr_expect_eq(before.st_size, after.st_size);
        cr_expect_eq(access(segment, F_OK), 0, "it waits");
        unlink(log_path);
}
