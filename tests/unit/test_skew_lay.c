/* SPDX-License-Identifier: Apache-2.0 */
/* Calls side by side: how long the ranks waited in each. */
#include <string.h>
#include <criterion/criterion.h>

#include "capo/record.h"
#include "core/base/util.h"
#include "analysis/job/skew_parts.h"
#include "made_job.h"
#include "tests/log_numbers.h"

enum { RANKS = 3, MS = 1000000, MOST = 16 };

static struct capo_job *job;
static struct capo_meet *meet;
static struct skew_laid laid;

static void begin(void)
{
        job = made_job(RANKS);
        meet = capo_meet_new(RANKS);
        laid = (struct skew_laid){.n = RANKS,
                                  .start = calloc((MOST + 2) * RANKS, sizeof *laid.start),
                                  .call = calloc(MOST, sizeof *laid.call),
                                  .column = calloc(MOST, sizeof *laid.column)};
}

static void end(void)
{
        free(laid.start);
        free(laid.call);
        free(laid.column);
        capo_meet_free(meet);
        capo_job_free(job);
}

TestSuite(skew_lay, .init = begin, .fini = end);

/* Call @seq: when each rank makes it, in ms. */
static void call(uint32_t seq, uint64_t a, uint64_t b, uint64_t c)
{
        const uint64_t at[RANKS] = {a, b, c};

        for (uint32_t k = 0; k < RANKS; k++) {
                struct capo_record r = {.seq = seq,
                                        .call = CAPO_CALL_ALLREDUCE,
                                        .bytes = 8,
                                        .clock = CAPO_CLOCK_HOST,
                                        .t_begin = at[k] * MS};

                cr_assert_geq(capo_meet_add(meet, k, &r), 0);
        }
}

static void lay_out(void)
{
        _cleanup_(capo_clocks_finish) struct capo_clocks clocks;

        capo_clocks_make(&clocks, job, &meet);
        laid.of = (struct skew_comm){&clocks, &job->comms[0], meet};
        laid.from = CAPO_SKEW_HOST_START;
        skew_lay_out(&laid);
}

static void expect(uint32_t i, double waited_ms, bool whole)
{
        cr_expect_float_eq(laid.call[i].waited, waited_ms * MS, 1, "%u: %g ms", i,
                           laid.call[i].waited / MS);
        cr_expect_eq(laid.call[i].whole, whole, "%u", i);
}

Test(skew_lay, a_call_that_all_come_to_afresh)
{
        call(1, 0, 4, 1);
        call(2, 10, 14, 11);
        lay_out();
        expect(0, 4 + 3, true);
        expect(1, 4 + 3, true);
}

/* Ranks 0 and 2 have made call 2 before rank 1 made call 1. */
Test(skew_lay, who_is_ahead_waits_once)
{
        call(1, 0, 100, 0);
        call(2, 1, 101, 1);
        call(3, 2, 112, 90);
        lay_out();
        expect(0, 200, true);
        expect(1, 0, true);
        expect(2, 10, true); /* rank 0 is 10 ms further ahead; rank 2 less far than before */
}

Test(skew_lay, what_order_the_log_has_them_in_does_not_matter)
{
        call(2, 1, 101, 1);
        call(1, 0, 100, 0);
        lay_out();
        expect(0, 0, true);
        expect(1, 200, true);
}

Test(skew_lay, a_call_without_the_one_before_stands_for_itself)
{
        call(4, 0, 10, 0);
        call(5, 20, 30, 20);
        call(9, 21, 40, 21);
        lay_out();
        expect(0, 20, false);
        expect(1, 20, true);
        expect(2, 2 * 9, false);
}

/* The job lasted 1 s: nobody can have waited longer, whatever the clocks say. */
Test(skew_lay, no_longer_than_the_job)
{
        call(1, 0, 5000, 4500);
        lay_out();
        cr_expect_float_eq(laid.call[0].spread, 1000.0 * MS, 1);
        expect(0, 1000 + 500, true);
}
