/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a living process stands in for its log, for the time of one command. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "core/log/segment.h"
#include "core/log/segment_calls.h"
#include "analysis/log/live_logs.h"
#include "analysis/log/log_read.h"
#include "analysis/log/log_window.h"
#include "tests/log_numbers.h"

static char dir[] = "/tmp/capo-live-test-XXXXXX";
static char segment[sizeof((struct capo_segment *)0)->path], log_path[64], other[64];
static struct capo_log_paths paths;
static pid_t process;

/* A process that has made three calls, of which its log has none yet, and that lives on. */
static void live_on(bool trace_all, int out)
{
        struct capo_segment_config config = {
                .ring_bytes = 256 * 64, .flight_records = 64, .trace_all = trace_all};
        struct capo_segment seg;
        struct capo_ring *ring;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (capo_segment_create(&seg, CAPO_SEGMENT_DIR, &config) || seg.fd < 0)
                _exit(1);
        capo_clock_init(&seg.header->clock);
        capo_clock_ready(&seg.header->clock);
        snprintf(seg.header->log_path, sizeof seg.header->log_path, "%s", log_path);
        if (capo_area_commit(&seg, CAPO_AREA_RINGS, 1))
                _exit(1);
        seg.header->areas[CAPO_AREA_RINGS].used = 1;
        ring = capo_area_at(&seg, CAPO_AREA_RINGS, 0);
        for (uint32_t i = 0; i < 3; i++) {
                ring->records[i] = (struct capo_record){
                        .t_begin = seg.header->clock.t0_ticks + i * 1000,
                        .t_end = seg.header->clock.t0_ticks + i * 1000 + 100,
                        .bytes = 64,
                        .seq = i + 1,
                        .peer = -1,
                        .call = CAPO_CALL_ALLREDUCE,
                        .clock = CAPO_CLOCK_HOST,
                        .thread = 1,
                };
                ring->head = i + 1;
        }
        seg.header->ready = 1;
        if (write(out, seg.path, sizeof seg.path) < 0)
                _exit(1);
        for (;;)
                pause();
}

static void begin(bool trace_all)
{
        int pipes[2];
        FILE *log;

        cr_assert(mkdtemp(dir) && pipe(pipes) == 0);
        snprintf(log_path, sizeof log_path, "%s/n0.1.capo", dir);
        log = fopen(log_path, "we");
        cr_assert(log && fclose(log) == 0);
        process = fork();
        if (process == 0)
                live_on(trace_all, pipes[1]);
        close(pipes[1]);
        cr_assert_eq(read(pipes[0], segment, sizeof segment), (ssize_t)sizeof segment);
        close(pipes[0]);
        snprintf(other, sizeof other, "%s/another.capo", dir);
        capo_log_paths_add(&paths, log_path, NULL);
        capo_log_paths_add(&paths, other, NULL);
}

static void end(void)
{
        char command[64];

        kill(process, SIGKILL);
        waitpid(process, NULL, 0);
        unlink(segment);
        capo_log_paths_finish(&paths);
        snprintf(command, sizeof command, "rm -rf %s", dir);
        cr_assert_eq(system(command), 0);
}

static int keep_first(const struct capo_segment_info *info, void *out)
{
        *(struct capo_segment_info *)out = *info;
        return 1;
}

static uint64_t calls_in(struct capo_log *log)
{
        struct capo_log_frame f;
        struct capo_log_end last = {0};

        while (capo_log_next(log, &f) > 0) {
                if (f.type == CAPO_FRAME_END)
                        cr_assert_eq(capo_log_end(&f, &last), 0);
        }
        cr_assert(!last.clean, "it still runs");
        return last.calls;
}

Test(live_logs, memory_stands_in_for_the_log)
{
        uint64_t before = capo_log_window_opened();

        begin(false);
        cr_assert_eq(capo_live_logs_take(&paths), 1);
        cr_assert(paths.log[0] && !paths.log[1], "nobody's memory");
        cr_assert_str_eq(capo_log_path(paths.log[0]), log_path);
        cr_assert(capo_log_in_memory(paths.log[0]));
        cr_assert_eq(calls_in(paths.log[0]), 3);
        capo_log_park(paths.log[0]);
        capo_log_rewind(paths.log[0]);
        cr_assert_eq(calls_in(paths.log[0]), 3, "a second reading");
        cr_assert_eq(capo_log_window_opened(), before, "no file was opened");
        cr_assert_eq(access(segment, F_OK), 0, "the process keeps its memory");
        end();
}

/* The reader shows the moment in which it was opened; another shows what came later. */
Test(live_logs, each_reader_is_of_one_moment)
{
        struct capo_segment_info info = {.pid = 0};
        struct capo_log *log, *again;

        begin(false);
        cr_assert_eq(capo_segment_find(NULL, dir, true, keep_first, &info), 1);
        cr_assert(info.alive && info.pid == process);
        cr_assert_eq(capo_live_log_open(&info, &log), 0);
        cr_assert_eq(capo_live_log_open(&info, &again), 0);
        cr_assert_eq(calls_in(again), 3);
        kill(process, SIGKILL);
        waitpid(process, NULL, 0);
        unlink(segment);
        cr_assert_eq(calls_in(log), 3, "it is a copy");
        cr_assert_eq(capo_live_log_open(&info, &(struct capo_log *){NULL}), -ENOENT);
        capo_log_close(log);
        capo_log_close(again);
        end();
}

/* Its log has all calls already, and its memory the latest only. */
Test(live_logs, a_log_of_all_calls_stays)
{
        begin(true);
        cr_assert_eq(capo_live_logs_take(&paths), 0);
        cr_assert(!paths.log[0]);
        cr_assert_str_eq(paths.path[0], log_path);
        end();
}
