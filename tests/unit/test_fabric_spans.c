/* SPDX-License-Identifier: Apache-2.0 */
/* When calls were, by the clock that timed them; what has no time of its own is none. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "capo/record.h"
#include "core/base/clock.h"
#include "core/base/util.h"
#include "analysis/network/network_parts.h"
#include "tests/golden/gen_log.h"
#include "tests/job_add.h"
#include "tests/log_numbers.h"

#define T0 1000000000ull /* of gen_log_open(): CLOCK_MONOTONIC at the log's epoch */

static char path[] = "/tmp/capo-test-spans-XXXXXX";
static struct gen_log g;
static struct capo_job *job;
static struct capo_fabric_job f;
static struct fabric_calls calls;
#define spans calls.were

static void start(void)
{
        close(mkstemp(path));
        gen_log_open(&g, path, 1);
        gen_log_text(&g, CAPO_FRAME_INFO, "host\tnode-a\nrank\t0\n");
        gen_log_comm(&g, (struct capo_log_comm){.id = 1, .n_ranks = 2, .uid = 7}, "dp");
}

static void stop(void)
{
        unlink(path);
        free(spans.span);
        free(calls.maybe.span);
        free(f.shares);
        capo_job_free(job);
}

TestSuite(fabric_spans, .init = start, .fini = stop);

static void put(struct capo_record r)
{
        r.call = r.call ? r.call : CAPO_CALL_ALLREDUCE;
        r.comm = r.comm ? r.comm : 1;
        r.bytes = 4096;
        gen_log_frame(&g, CAPO_FRAME_WIDE, &r, sizeof r);
}

static void read_log(void)
{
        char why[256];

        gen_log_close(&g);
        job = capo_job_new();
        cr_assert_eq(add_log(job, path, why, sizeof why), 0, "%s", why);
        capo_job_finish(job);
        fabric_spans_read(&f, job, 0, &calls);
}

static void is(size_t i, uint64_t begin, uint64_t end)
{
        cr_assert_eq(spans.span[i].begin, T0 + begin, "%zu", i);
        cr_assert_eq(spans.span[i].end, T0 + end, "%zu", i);
}

Test(fabric_spans, by_the_host_where_no_gpu_was_timed)
{
        put((struct capo_record){.t_begin = 1000, .t_end = 1500, .clock = CAPO_CLOCK_HOST});
        put((struct capo_record){.t_begin = 2000, .t_end = 2000, .clock = CAPO_CLOCK_HOST});
        put((struct capo_record){.t_begin = 3000,
                                 .t_end = 3001,
                                 .clock = CAPO_CLOCK_HOST,
                                 .call = CAPO_CALL_BROADCAST});
        read_log();
        cr_assert_eq(spans.n, 2, "a call of no length is none");
        is(0, 1000, 1500);
        is(1, 3000, 3001);
        cr_assert_eq(f.n_shares, 2);
        cr_assert(f.shares[0].call == CAPO_CALL_ALLREDUCE && f.shares[0].calls == 1 &&
                  f.shares[0].call_ns == 500);
        cr_assert(f.shares[spans.span[1].share].call == CAPO_CALL_BROADCAST);
}

Test(fabric_spans, by_the_gpu_where_it_was_timed)
{
        struct capo_log_cell cell = {.bytes = 4096,
                                     .count = 3,
                                     .comm = 1,
                                     .call = CAPO_CALL_ALLREDUCE,
                                     .clock = CAPO_CLOCK_EVENT};
        struct gen_hist gpu = {0};

        gen_hist_add(&gpu, 700, 1);
        put((struct capo_record){
                .t_begin = 1000, .t_end = 1500, .clock = CAPO_CLOCK_EVENT, .gpu_ns = 700});
        put((struct capo_record){
                .t_begin = 3000, .t_end = 3100, .clock = CAPO_CLOCK_KERNEL, .gpu_ns = 20});
        put((struct capo_record){.t_begin = 5000, .t_end = 5100, .clock = CAPO_CLOCK_HOST});
        gen_log_cell(&g, cell, NULL, &gpu);
        read_log();
        cr_assert_eq(spans.n, 3);
        is(0, 1000, 1700);
        is(1, 3000, 3100); /* the call returned after the GPU was done */
        cr_assert_eq(spans.span[2].begin, T0 + 5000);
        cr_assert_geq(spans.span[2].end, T0 + 5000 + 650,
                      "as long as its like take: to a sixteenth");
        cr_assert_leq(spans.span[2].end, T0 + 5000 + 750);
}

/* Between two whose place is known: it can have been there longer than its like were. */
Test(fabric_spans, where_a_call_can_have_been)
{
        struct capo_log_cell cell = {.bytes = 4096,
                                     .count = 9,
                                     .comm = 1,
                                     .call = CAPO_CALL_ALLREDUCE,
                                     .clock = CAPO_CLOCK_EVENT};
        struct gen_hist gpu = {0};

        gen_hist_add(&gpu, 700, 2);
        put((struct capo_record){.t_begin = 1000,
                                 .t_end = 1010,
                                 .clock = CAPO_CLOCK_EVENT,
                                 .gpu_ns = 700,
                                 .group = 1,
                                 .flags = CAPO_RECORD_CHOSEN});
        put((struct capo_record){.t_begin = 1100, .t_end = 1110, .clock = CAPO_CLOCK_HOST});
        put((struct capo_record){.t_begin = 1200, .t_end = 1210, .clock = CAPO_CLOCK_HOST});
        put((struct capo_record){.t_begin = 1300,
                                 .t_end = 1310,
                                 .clock = CAPO_CLOCK_EVENT,
                                 .gpu_ns = 900,
                                 .group = 1 + 30});
        gen_log_cell(&g, cell, NULL, &gpu);
        cell.id = 1;
        cell.flags = CAPO_RECORD_CHOSEN;
        cell.count = 1;
        gpu = (struct gen_hist){0};
        gen_hist_add(&gpu, 700, 1);
        gen_log_cell(&g, cell, NULL, &gpu);
        read_log();
        cr_assert_eq(spans.n, 4);
        is(0, 1000, 1700);
        is(3, 4300, 5200);
        cr_expect_eq(spans.span[1].begin, T0 + 1700);
        cr_assert_eq(calls.maybe.n, 2);
        for (size_t i = 0; i < 2; i++)
                cr_expect(calls.maybe.span[i].begin == T0 + 1700 &&
                          calls.maybe.span[i].end <= T0 + 4300 &&
                          calls.maybe.span[i].end >= spans.span[1 + i].end);
}

Test(fabric_spans, members_and_what_moves_nothing_have_none)
{
        put((struct capo_record){.t_begin = 1000, .t_end = 1500, .flags = CAPO_RECORD_MEMBER});
        put((struct capo_record){.t_begin = 1000, .t_end = 1500, .call = CAPO_CALL_COMMDESTROY});
        gen_log_frame(&g, CAPO_FRAME_WIDE,
                      &(struct capo_record){.t_begin = 1000,
                                            .t_end = 9000,
                                            .call = CAPO_CALL_GROUP,
                                            .flags = CAPO_RECORD_GROUP},
                      sizeof(struct capo_record)); /* of created communicators */
        put((struct capo_record){.t_begin = 900,
                                 .t_end = 1600,
                                 .call = CAPO_CALL_GROUP,
                                 .flags = CAPO_RECORD_GROUP});
        read_log();
        cr_assert_eq(spans.n, 1);
        is(0, 900, 1600);
}

/* Its traffic, if there is any beside it, is another's. */
Test(fabric_spans, a_communicator_of_one_rank_moves_nothing)
{
        gen_log_comm(&g, (struct capo_log_comm){.id = 2, .n_ranks = 1, .uid = 8}, "self");
        put((struct capo_record){.t_begin = 1000, .t_end = 1500, .clock = CAPO_CLOCK_HOST});
        put((struct capo_record){
                .t_begin = 1400, .t_end = 2500, .clock = CAPO_CLOCK_HOST, .comm = 2});
        read_log();
        cr_assert_eq(spans.n, 1);
        is(0, 1000, 1500);
        cr_expect(f.n_shares == 1 && f.shares[0].calls == 1);
}

Test(fabric_spans, but_where_there_is_no_other)
{
        put((struct capo_record){.t_begin = 1000, .t_end = 1500, .clock = CAPO_CLOCK_HOST});
        read_log();
        spans.n = f.n_shares = 0;
        job->comms[0].n_ranks = 1;
        fabric_spans_read(&f, job, 0, &calls);
        cr_expect(spans.n == 1 && f.n_shares == 1);
}

Test(fabric_spans, shares_are_found_again)
{
        cr_assert_eq(fabric_share_of(&f, 1, CAPO_CALL_SEND), 0);
        cr_assert_eq(fabric_share_of(&f, 2, CAPO_CALL_SEND), 1);
        cr_assert_eq(fabric_share_of(&f, 1, CAPO_CALL_SEND), 0);
        cr_assert_eq(f.n_shares, 2);
        gen_log_close(&g);
}

enum { MANY = 2000, CALLS = 20000 };

/* @n_kinds sizes, each as long on the GPU as it has bytes and never timed; the calls take turns.
 * Return: ns of the processor. */
static uint64_t read_kinds(uint32_t n_kinds)
{
        uint64_t began, ended;

        for (uint32_t i = 0; i < n_kinds; i++) {
                struct capo_log_cell cell = {.id = (uint16_t)i,
                                             .bytes = 1000 + i,
                                             .count = 9,
                                             .comm = 1,
                                             .call = CAPO_CALL_ALLREDUCE,
                                             .clock = CAPO_CLOCK_EVENT};
                struct gen_hist gpu = {0};

                gen_hist_add(&gpu, cell.bytes, 1);
                gen_log_cell(&g, cell, NULL, &gpu);
        }
        for (uint32_t i = 0; i < CALLS; i++) {
                struct capo_record r = {.t_begin = 10000ull * i,
                                        .t_end = 10000ull * i + 1,
                                        .seq = i + 1,
                                        .bytes = 1000 + i % n_kinds,
                                        .comm = 1,
                                        .call = CAPO_CALL_ALLREDUCE,
                                        .clock = CAPO_CLOCK_HOST};

                gen_log_frame(&g, CAPO_FRAME_WIDE, &r, sizeof r);
        }
        gen_log_close(&g);
        job = capo_job_new();
        cr_assert_eq(add_log(job, path, (char[256]){0}, 256), 0);
        capo_job_finish(job);
        f = (struct capo_fabric_job){0};
        began = capo_clock_of(CLOCK_PROCESS_CPUTIME_ID);
        fabric_spans_read(&f, job, 0, &calls);
        ended = capo_clock_of(CLOCK_PROCESS_CPUTIME_ID);
        cr_assert_eq(spans.n, CALLS);
        for (uint32_t i = 0; i < CALLS; i++) {
                cr_assert_eq(spans.span[i].begin, T0 + 10000ull * i);
                cr_assert_eq(spans.span[i].end - spans.span[i].begin, 1000 + i % n_kinds, "%u", i);
        }
        return ended - began;
}

/* A call costs the same however many kinds of them there are: 300 times as much where each was
 * looked for among all. */
Test(fabric_spans, many_kinds_cost_no_more)
{
        uint64_t few = read_kinds(2), many;

        stop();
        calls = (struct fabric_calls){0};
        strcpy(path + strlen(path) - 6, "XXXXXX");
        start();
        many = read_kinds(MANY);
        cr_expect_lt(many, 30 * few, "%llu ns, of two kinds %llu", (unsigned long long)many,
                     (unsigned long long)few);
}
