/* SPDX-License-Identifier: Apache-2.0 */
/* Time with at least one call on the GPU: calls of several streams count once, those of one stream
 * and of two GPUs do not. */
#include <stdlib.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "analysis/report/job_judge.h"
#include "analysis/job/stats.h"
#include "tests/golden/gen_log.h"
#include "tests/job_add.h"
#include "tests/log_numbers.h"

static char path[] = "/tmp/capo-test-exposed-XXXXXX";
static struct gen_log g;
static struct capo_page page;

static void start(void)
{
        close(mkstemp(path));
        gen_log_open(&g, path, 1);
        gen_log_text(&g, CAPO_FRAME_INFO, "host\tnode-a\nrank\t0\n");
        gen_log_comm(&g, (struct capo_log_comm){.id = 1, .n_ranks = 2, .uid = 7}, "a");
}

static void stop(void)
{
        unlink(path);
        capo_page_finish(&page);
}

TestSuite(exposed, .init = start, .fini = stop);

enum { PAIR_NS = 1000000 };

/* Pairs of calls of 100 us each, one pair each millisecond; of the first @n_close of @n the second
 * call is made 50 us after the first, else 500 us. Each is on a stream; @second: its communicator.
 */
static void pairs(uint32_t n_close, uint32_t n, uint32_t stream, uint16_t second)
{
        struct capo_log_shape shape[2] = {{.id = 0,
                                           .comm = 1,
                                           .call = CAPO_CALL_ALLREDUCE,
                                           .clock = CAPO_CLOCK_EVENT,
                                           .bytes = 8,
                                           .stream = 1},
                                          {.id = 1,
                                           .comm = second,
                                           .call = CAPO_CALL_ALLREDUCE,
                                           .clock = CAPO_CLOCK_EVENT,
                                           .bytes = 8,
                                           .stream = stream}};
        struct capo_log_end end = {
                .t_ns = (uint64_t)n * PAIR_NS, .clean = 1, .calls = 2 * (uint64_t)n};
        struct gen_hist *h = calloc(1, sizeof *h);

        gen_log_shapes(&g, shape, 2);
        for (uint32_t i = 0; i < n; i++)
                gen_log_block(&g, 1000 + (uint64_t)i * PAIR_NS, 1, 2,
                              (uint32_t[]){0, i < n_close ? 50000 : 500000}, (uint32_t[]){10, 10},
                              (uint32_t[]){2 * i + 1, 2 * i + 2}, (uint16_t[]){0, 1},
                              (uint32_t[]){100000, 100000}, NULL);
        gen_hist_add(h, 100000, 2 * n);
        gen_log_cell(&g,
                     (struct capo_log_cell){.comm = 1,
                                            .call = CAPO_CALL_ALLREDUCE,
                                            .clock = CAPO_CLOCK_EVENT,
                                            .bytes = 8,
                                            .count = 2 * n},
                     NULL, h);
        free(h);
        gen_log_frame(&g, CAPO_FRAME_END, &end, sizeof end);
}

static void two(uint32_t stream, uint16_t second) { pairs(1, 1, stream, second); }

static void judge(void)
{
        char why[256];

        gen_log_close(&g);
        page.job = capo_job_new();
        cr_assert_eq(add_log(page.job, path, why, sizeof why), 0, "%s", why);
        capo_job_finish(page.job);
        capo_judge(&page);
}

Test(exposed, one_stream_does_one_after_the_other)
{
        two(1, 1);
        judge();
        cr_assert_float_eq(page.gpu_share, 0.2, 1e-9);
        cr_assert_float_eq(page.exposed_most, 0.2, 1e-9);
        cr_assert(!page.overlapping);
}

Test(exposed, calls_of_two_streams_count_once)
{
        two(2, 1);
        judge();
        cr_assert_float_eq(page.gpu_sum, 0.2, 1e-9);
        cr_assert_float_eq(page.gpu_share, 0.15, 1e-9);
        cr_assert_float_eq(page.exposed_most, 0.15, 1e-9);
        cr_assert(page.overlapping);
}

/* More than are sorted at once: 2,000 pairs of 150 us, then 33,000 of 200. */
Test(exposed, all_calls_of_a_long_log_count)
{
        pairs(2000, 35000, 2, 1);
        judge();
        cr_assert_float_eq(page.gpu_sum, 0.2, 1e-9);
        cr_assert_float_eq(page.exposed_most, 0.2 * 6.9 / 7, 1e-6, "%g", page.exposed_most);
}

Test(exposed, two_gpus_of_one_process_do_not_overlap)
{
        gen_log_comm(
                &g, (struct capo_log_comm){.id = 2, .n_ranks = 2, .rank = 1, .device = 1, .uid = 7},
                "a");
        two(2, 2);
        judge();
        cr_assert_eq(capo_job_gpus(page.job), 2);
        cr_assert_float_eq(page.gpu_share, 0.1, 1e-9);
        cr_assert_float_eq(page.exposed_most, 0.1, 1e-9);
}

/* Members of a group are in the group's own time, and what is no communication is in nobody's. */
Test(exposed, members_of_a_group_are_no_calls_of_their_own)
{
        struct capo_log_shape shape[2] = {{.id = 2,
                                           .comm = 1,
                                           .call = CAPO_CALL_ALLREDUCE,
                                           .clock = CAPO_CLOCK_EVENT,
                                           .bytes = 8,
                                           .stream = 2,
                                           .flags = CAPO_RECORD_MEMBER},
                                          {.id = 3,
                                           .comm = 1,
                                           .call = CAPO_CALL_COMMSPLIT,
                                           .clock = CAPO_CLOCK_EVENT,
                                           .bytes = 8,
                                           .stream = 3}};

        gen_log_shapes(&g, shape, 2);
        gen_log_block(&g, 1000, 1, 2, (uint32_t[]){0, 0}, (uint32_t[]){10, 10}, (uint32_t[]){3, 4},
                      (uint16_t[]){2, 3}, (uint32_t[]){900000, 900000}, NULL);
        two(2, 1);
        judge();
        cr_assert_float_eq(page.exposed_most, 0.15, 1e-9, "%g", page.exposed_most);
}

/* It is open since it was added. */
Test(exposed, a_log_that_is_removed_meanwhile)
{
        char why[256];

        two(2, 1);
        gen_log_close(&g);
        page.job = capo_job_new();
        cr_assert_eq(add_log(page.job, path, why, sizeof why), 0, "%s", why);
        capo_job_finish(page.job);
        cr_assert_eq(unlink(path), 0);
        capo_judge(&page);
        cr_assert(page.exposed_most == page.gpu_share && page.overlapping);
}

Test(exposed, no_time_on_the_gpu_is_known_to_be_none)
{
        two(2, 1);
        judge();
        page.gpu_share = page.gpu_sum = 0;
        capo_judge_exposed(&page);
        cr_assert_eq(page.exposed_most, 0);
}

Test(exposed, without_gpu_times_it_is_not_known)
{
        judge();
        cr_assert(page.gpu_share < 0 && page.exposed_most < 0);
}
