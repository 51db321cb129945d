/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks over time: one is late to a call, and the others wait for it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "analysis/job/stats.h"
#include "analysis/timeline/last_ranks.h"
#include "analysis/timeline/timeline.h"
#include "core/base/util.h"
#include "tests/golden/gen_log.h"
#include "tests/job_add.h"
#include "tests/log_numbers.h"

enum { RANKS = 3, PARTS = 100, MS = 1000000 };

static char dir[] = "/tmp/capo-test-timeline-XXXXXX";
static char path[RANKS][64];
static struct capo_job *job;

/* Two calls, each 10 ms on the GPU; rank 1 comes to the second one 30 ms late. The first begins at
 * 100 ms, the second at 150 ms. */
static void write_rank(int rank, bool gpu)
{
        struct capo_log_shape shape = {.comm = 1,
                                       .call = CAPO_CALL_ALLREDUCE,
                                       .peer = -1,
                                       .bytes = 1 << 20,
                                       .clock = gpu ? CAPO_CLOCK_EVENT : CAPO_CLOCK_HOST};
        uint32_t late = rank == 1 ? 30 * MS : 0, waited = rank == 1 ? 0 : 30 * MS;
        struct gen_log g;
        char text[64];

        snprintf(path[rank], sizeof path[rank], "%s/a.%d.capo", dir, rank + 1);
        gen_log_open(&g, path[rank], (unsigned)rank + 1);
        snprintf(text, sizeof text, "host\ta\nboot_id\tx\nrank\t%d\n", rank);
        gen_log_text(&g, CAPO_FRAME_INFO, text);
        gen_log_comm(&g, (struct capo_log_comm){.id = 1, .n_ranks = RANKS, .rank = rank, .uid = 7},
                     "dp");
        gen_log_shapes(&g, &shape, 1);
        gen_log_block(&g, 100 * MS, 1, 2, (uint32_t[]){0, 50 * MS + late},
                      (uint32_t[]){1 * MS, 1 * MS}, (uint32_t[]){1, 2}, (uint16_t[]){0, 0},
                      gpu ? (uint32_t[]){10 * MS, 10 * MS + waited} : NULL,
                      gpu ? (uint32_t[]){1, 1} : NULL);
        gen_log_frame(&g, CAPO_FRAME_END,
                      &(struct capo_log_end){.t_ns = 300 * MS, .clean = 1, .calls = 2},
                      sizeof(struct capo_log_end));
        gen_log_close(&g);
}

static void load(bool gpu)
{
        char why[128];

        cr_assert(mkdtemp(dir));
        job = capo_job_new();
        for (int i = 0; i < RANKS; i++) {
                write_rank(i, gpu);
                cr_assert_eq(add_log(job, path[i], why, sizeof why), 0);
        }
        capo_job_finish(job);
}

static void clean(void)
{
        capo_job_free(job);
        for (int i = 0; i < RANKS; i++)
                unlink(path[i]);
        rmdir(dir);
}

static double sum_of(const float *share)
{
        double sum = 0;

        for (int i = 0; i < PARTS; i++)
                sum += share[i];
        return sum;
}

/* From 100 ms to 190 ms: a part is 0.9 ms. */
Test(timeline, waiting, .fini = clean)
{
        struct capo_timeline t;

        load(true);
        capo_timeline_make(job, PARTS, UINT32_MAX, &t);
        cr_assert_eq(t.n_ranks, RANKS);
        cr_expect(t.gpu);
        cr_expect_float_eq(t.to_s - t.from_s, 0.090, 1e-6);
        for (int i = 0; i < RANKS; i++) {
                cr_expect_float_eq(sum_of(t.rank[i].busy) * 0.9, 20, 0.01);
                cr_expect_float_eq(sum_of(t.rank[i].waiting) * 0.9, i == 1 ? 0 : 30, 0.01);
        }
        cr_expect_float_eq(t.rank[0].waiting[70], 1, 1e-3); /* 163 ms */
        cr_expect_float_eq(t.rank[0].busy[95], 1, 1e-3);    /* 185.5 ms */
        cr_expect_float_eq(t.rank[0].busy[30], 0, 1e-3);
}

Test(timeline, host_alone, .fini = clean)
{
        struct capo_timeline t;

        load(false);
        capo_timeline_make(job, PARTS, UINT32_MAX, &t);
        cr_expect_not(t.gpu);
        cr_expect_eq(t.n_ranks, RANKS);
        cr_expect_gt(sum_of(t.rank[0].busy), 0);
        cr_expect_eq(sum_of(t.rank[0].waiting), 0);
}

Test(timeline, last_ranks, .fini = clean)
{
        bool wanted[RANKS] = {true, true, true};
        struct capo_last_ranks last;

        load(true);
        capo_last_ranks_make(job, wanted, &last);
        cr_assert_not_null(capo_last_call(&last, 0, 2));
        cr_expect_eq(capo_last_call(&last, 0, 2)->last, 1);
        cr_expect_eq(capo_last_call(&last, 0, 2)->least_ns, 10 * MS);
        cr_expect_eq(capo_last_call(&last, 0, 2)->n, RANKS);
        cr_expect_null(capo_last_call(&last, 0, 3));
        cr_expect_null(capo_last_call(&last, 0, 4000000000));
}
