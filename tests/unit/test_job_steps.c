/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of recorded jobs: all calls kept, the last ones, none; a rank that holds one step up. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "analysis/job/stats.h"
#include "analysis/steps/job_steps.h"
#include "core/base/util.h"
#include "tests/golden/gen_log.h"
#include "tests/job_add.h"
#include "tests/log_numbers.h"

enum { RANKS = 3 };
static char dir[] = "/tmp/capo-test-job-steps-XXXXXX";
static char path[RANKS][64];
static struct capo_job *job;
static struct capo_job_steps s;

static void start(void)
{
        cr_assert(mkdtemp(dir));
        job = capo_job_new();
}

static void stop(void)
{
        char command[128];

        capo_job_steps_finish(&s);
        capo_job_free(job);
        snprintf(command, sizeof command, "rm -r %s", dir);
        cr_assert_eq(system(command), 0);
}

TestSuite(job_steps, .init = start, .fini = stop);

static unsigned n_nodes = 2;

static void load_with(unsigned kept, bool gpu, uint64_t slow_ns)
{
        static const uint64_t sizes[] = {25 << 20, 1 << 20};
        char command[256], line[256], why[128];
        struct gen_job made = {.dir = dir,
                               .layout = (unsigned[]){n_nodes, 1},
                               .n_nodes = n_nodes,
                               .n_steps = 300,
                               .sizes = sizes,
                               .n_sizes = 2,
                               .trace = kept > 0,
                               .gpu = gpu,
                               .slow_ns = slow_ns,
                               .kept_calls = kept == 1 ? 0 : kept};
        FILE *list;

        gen_job_write(&made);
        snprintf(command, sizeof command, "ls %s/*.capo", dir);
        list = popen(command, "r");
        while (list && fgets(line, sizeof line, list)) {
                line[strcspn(line, "\n")] = 0;
                cr_assert_eq(add_log(job, line, why, sizeof why), 0);
        }
        pclose(list);
        capo_job_finish(job);
        capo_job_steps(job, &s);
}

static void load(unsigned kept) { load_with(kept, true, 0); }

/* A step of 2 ms whose calls take 10 ms on the GPU is none: the host ran ahead. */
Test(job_steps, ahead_of_the_gpu)
{
        load_with(1, true, 10000000);
        cr_expect_eq(s.steps.known, CAPO_STEPS_NONE, "%u steps of %g ns", s.steps.n,
                     s.steps.p50_ns);
        cr_expect_str_eq(s.steps.why, "calls were made ahead of the GPU, faster than it runs them");
        cr_expect(!s.steps.n_plain && !s.total);
}

Test(job_steps, whole)
{
        load(1);
        cr_expect_eq(s.steps.known, CAPO_STEPS_FOUND, "%s", s.steps.why);
        cr_expect_eq(s.steps.period, 2);
        cr_expect_eq(s.total, 300);
        cr_expect(s.whole);
        cr_expect_eq(s.agree, RANKS);
        cr_expect_float_eq(s.steps.p50_ns, 2e6, 1e4); /* a call each ms */
        cr_expect_eq(s.n_slow, 0);
        cr_expect_eq(s.steps.part[0].comm, 0);
        cr_expect_gt(s.nccl_share, 0.1);
        cr_expect_lt(s.nccl_share, 1);
}

/* A single process is asked alone, and agrees with itself. */
Test(job_steps, one_process)
{
        n_nodes = 1;
        load(1);
        cr_expect_eq(s.steps.known, CAPO_STEPS_FOUND, "%s", s.steps.why);
        cr_expect_eq(s.total, 300);
        cr_expect(s.asked == 1 && s.agree == 1, "%u of %u", s.agree, s.asked);
}

/* Of the steps before the last calls only the number is known. */
Test(job_steps, last_calls)
{
        load(100);
        cr_expect_eq(s.steps.known, CAPO_STEPS_FOUND, "%s", s.steps.why);
        cr_expect_eq(s.total, 300);
        cr_expect_geq(s.steps.n, 48);
        cr_expect_leq(s.steps.n, 50);
        cr_expect_not(s.whole);
}

Test(job_steps, no_calls)
{
        load(0);
        cr_expect_eq(s.steps.known, CAPO_STEPS_NONE);
        cr_expect_str_eq(s.steps.why, "the logs keep no single calls");
        cr_expect_eq(s.total, 0);
        cr_expect_eq(s.n_slow, 0);
}

/* ---- two calls in a step; rank @late_rank comes 50 ms late to call @late_call ---- */

enum { STEPS = 40, STALLED = 25, STALL_NS = 50000000 };

static void write_rank(int rank, bool gpu, int late_rank, uint32_t late_call)
{
        struct gen_log g;
        char text[64];
        struct capo_log_shape shape[2] = {{.id = 0, .bytes = 1000000}, {.id = 1, .bytes = 4}};
        uint32_t at = 0;
        uint32_t begin[2 * STEPS], host[2 * STEPS], seq[2 * STEPS], on_gpu[2 * STEPS];
        uint16_t of[2 * STEPS];

        snprintf(path[rank], sizeof path[rank], "%s/a.%d.capo", dir, rank + 1);
        gen_log_open(&g, path[rank], (unsigned)rank + 1);
        snprintf(text, sizeof text, "host\ta\nboot_id\tx\nrank\t%d\n", rank);
        gen_log_text(&g, CAPO_FRAME_INFO, text);
        gen_log_comm(&g, (struct capo_log_comm){.id = 1, .n_ranks = RANKS, .rank = rank, .uid = 7},
                     "dp");
        for (int i = 0; i < 2; i++) {
                shape[i].comm = 1;
                shape[i].call = CAPO_CALL_ALLREDUCE;
                shape[i].peer = -1;
                shape[i].clock = gpu ? CAPO_CLOCK_EVENT : CAPO_CLOCK_HOST;
        }
        gen_log_shapes(&g, shape, 2);
        for (uint32_t i = 0; i < 2 * STEPS; i++) {
                uint32_t late = i == late_call ? STALL_NS : 0;

                begin[i] = at + (rank == late_rank ? late : 0);
                host[i] = 1000;
                seq[i] = i + 1;
                of[i] = i % 2;
                on_gpu[i] = 20000 + (rank == late_rank ? 0 : late);
                at += 1000000 + late;
        }
        gen_log_block(&g, 1000, 1, 2 * STEPS, begin, host, seq, of, gpu ? on_gpu : NULL, NULL);
        gen_log_frame(&g, CAPO_FRAME_END,
                      &(struct capo_log_end){.t_ns = at + 1000000u, .clean = 1, .calls = 2 * STEPS},
                      sizeof(struct capo_log_end));
        gen_log_close(&g);
}

static void load_late(bool gpu, uint32_t late_rank, uint32_t late_call, uint32_t number)
{
        char why[128];

        for (int i = 0; i < RANKS; i++)
                write_rank(i, gpu, (int)late_rank, late_call);
        for (int i = 0; i < RANKS; i++)
                cr_assert_eq(add_log(job, path[i], why, sizeof why), 0);
        capo_job_finish(job);
        capo_job_steps(job, &s);
        cr_assert_eq(s.n_slow, 1, "%u", s.n_slow);
        cr_expect_float_eq((double)s.slow[0].ns, 52e6, 1e4);
        cr_expect(s.slow[0].known);
        cr_expect_eq(s.slow[0].number, number);
        cr_expect_eq(s.slow[0].process, late_rank);
        cr_expect_float_eq(s.slow[0].held_ns, 50e6, 1e4);
}

static void load_stalled(bool gpu) { load_late(gpu, 1, 2 * STALLED + 1, STALLED); }

/* The steps are those of rank 0: one that it begins late makes the one before it long. */
Test(job_steps, the_rank_of_the_steps_is_late) { load_late(true, 0, 2 * STALLED, STALLED - 1); }

Test(job_steps, the_rank_of_the_steps_is_late_by_host)
{
        load_late(false, 0, 2 * STALLED, STALLED - 1);
}

/* Rank 1 came last after rank 2 had been stopped inside a call, and all had waited. */
Test(job_steps, a_stop_inside_a_call)
{
        struct capo_job_info stop = {.key = (char *)"stopped",
                                     .value = (char *)"52000000 48000000"},
                             *info;
        uint32_t n;

        load_stalled(true);
        capo_job_steps_finish(&s);
        info = job->processes[2].info;
        n = job->processes[2].n_info;
        job->processes[2].info = &stop;
        job->processes[2].n_info = 1;
        for (uint32_t i = 0; i < RANKS; i++) {
                job->processes[i].still.n = 0;
                capo_silences_add(&job->processes[i].still, 51000000, 50000000);
        }
        capo_job_steps(job, &s);
        cr_expect_eq(s.slow[0].process, 2);
        cr_expect_float_eq(s.slow[0].held_ns, 48e6, 1);
        job->processes[2].info = info;
        job->processes[2].n_info = n;
}

Test(job_steps, stalled_by_gpu) { load_stalled(true); }

Test(job_steps, stalled_by_host)
{
        load_stalled(false);
        cr_expect_lt(s.nccl_share, 0);
}

/* None of the calls that are kept was timed, but others of their kind were. */
Test(job_steps, ahead_of_the_gpu_by_other_calls)
{
        load_with(1, false, 0);
        cr_expect_eq(s.steps.known, CAPO_STEPS_FOUND, "%s", s.steps.why);
        capo_job_steps_finish(&s);
        for (uint32_t i = 0; i < job->n_rows; i++)
                capo_hist_add(&job->rows[i].time[CAPO_CLOCK_EVENT], 10000000, 9);
        capo_job_steps(job, &s);
        cr_expect_eq(s.steps.known, CAPO_STEPS_NONE, "%g ns", s.steps.p50_ns);
}
