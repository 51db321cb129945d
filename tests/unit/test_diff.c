/* SPDX-License-Identifier: Apache-2.0 */
/* What is called faster or slower, of runs whose truth is known. */
#include <math.h>

#include "core/base/util.h"
#include "analysis/report/job_diff.h"
#include "analysis/job/spread.h"
#include "tests/unit/made_job.h"
#include "tests/log_numbers.h"

static struct capo_diff diff;
static struct capo_job *before[4], *after[4];

static void end(void)
{
        for (unsigned i = 0; i < 4; i++) {
                capo_job_free(before[i]);
                capo_job_free(after[i]);
        }
}

TestSuite(diff, .fini = end);

/* A run of 400 all-reduces of 1 MiB that took @us +- 1 %. */
static struct capo_job *run(double us)
{
        struct capo_job *job = made_job(4);
        struct capo_job_row *row =
                made_row(job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_HOST, 0);

        for (unsigned i = 0; i < 400; i++)
                capo_hist_add(&row->time[CAPO_CLOCK_EVENT], (uint64_t)(us * (990 + i % 21)), 1);
        return job;
}

static void compare(size_t n_a, size_t n_b, double min_change)
{
        capo_diff_make(before, n_a, after, n_b, min_change, &diff);
}

Test(diff, the_same_is_noise)
{
        before[0] = run(500);
        after[0] = run(500);
        compare(1, 1, 0.01);
        cr_assert(diff.n_rows == 1 && diff.rows[0].verdict == CAPO_DIFF_NOISE && !diff.n_slower &&
                  !diff.n_faster);
        cr_assert(diff.rows[0].low < 0 && diff.rows[0].high > 0 && diff.seconds == 0);
        cr_assert(diff.matched == 200 && diff.unmatched == 0 && !diff.between_runs);
        cr_assert(diff.runs_a == 1 && diff.runs_b == 1 && diff.seconds_a == 1 &&
                  diff.seconds_b == 1);
}

/* Runs that do not differ at all have an interval without width: it ends at zero, and zero is no
 * change. */
Test(diff, no_difference_and_no_doubt)
{
        for (unsigned k = 0; k < 2; k++) {
                before[k] = run(500);
                after[k] = run(500);
        }
        compare(2, 2, 0);
        cr_assert(diff.rows[0].low == 0 && diff.rows[0].high == 0 && diff.rows[0].change == 0);
        cr_assert_eq(diff.rows[0].verdict, CAPO_DIFF_NOISE);
}

Test(diff, slower_by_a_fifth)
{
        const struct capo_diff_row *r;

        before[0] = run(500);
        after[0] = run(600);
        compare(1, 1, 0.01);
        r = diff.rows;
        cr_assert(r->verdict == CAPO_DIFF_SLOWER && diff.n_slower == 1 && diff.n_faster == 0);
        cr_assert_float_eq(r->change, 0.2, 0.02);
        cr_assert(0 < r->low && r->low < r->change && r->change < r->high && r->high < 0.3);
        cr_assert_float_eq(r->half_width, (r->high - r->low) / 2, 1e-12);
        cr_assert_float_eq((1 + r->low) * (1 + r->high), (1 + r->change) * (1 + r->change), 1e-9,
                           "the ends of a ratio");
        cr_assert_float_eq(r->seconds, 100e-6 * 100, 2e-3);
        cr_assert_eq(diff.seconds, r->seconds);
        cr_assert(r->clock == CAPO_CLOCK_EVENT && r->count_b == 100);
}

Test(diff, faster_by_a_fifth)
{
        before[0] = run(500);
        after[0] = run(400);
        compare(1, 1, 0.01);
        cr_assert(diff.rows[0].verdict == CAPO_DIFF_FASTER && diff.n_faster == 1 &&
                  diff.rows[0].high < 0);
        cr_assert_lt(diff.seconds, 0);
}

/* Two runs of 400 calls, spread evenly over 40 %: half of the change's interval. */
static double half_width_of_400(uint32_t ranks)
{
        struct capo_job **side[] = {before, after};

        for (int i = 0; i < 2; i++) {
                struct capo_job *job = side[i][0] = made_job(ranks);
                struct capo_job_row *row =
                        made_row(job, CAPO_CALL_ALLREDUCE, 1 << 20, 400, CAPO_CLOCK_HOST, 0);

                for (unsigned k = 0; k < 400; k++)
                        capo_hist_add(&row->time[CAPO_CLOCK_EVENT], 500 * (800 + k), ranks);
        }
        compare(1, 1, 0.01);
        cr_assert_eq(diff.rows[0].verdict, CAPO_DIFF_NOISE);
        return diff.rows[0].half_width;
}

/* The median of 400 calls spread evenly over 40 % is known to 2 %, and the change of two such to 3
 * %. */
Test(diff, the_interval_is_that_of_two_medians)
{
        double half = half_width_of_400(1);

        cr_assert(half > 0.02 && half < 0.045, "%g", half);
}

/* All ranks time the same calls, slow ones and fast ones: their times say no more than those of
 * one. */
Test(diff, more_ranks_make_it_no_surer)
{
        double half = half_width_of_400(8);

        cr_assert(half > 0.02 && half < 0.045, "%g", half);
}

/* A run that saves time cannot save more than the other one spent. */
Test(diff, seconds_are_of_the_calls_that_both_made)
{
        before[0] = run(500);
        after[0] = run(5);
        after[0]->rows[0].count = 300;
        after[0]->rows[0].calls = 1200;
        compare(1, 1, 0.01);
        cr_assert_eq(diff.rows[0].verdict, CAPO_DIFF_FASTER);
        cr_assert_float_eq(diff.seconds, -495e-6 * 100, 2e-3);
        cr_assert(diff.rows[0].count_a == 100 && diff.rows[0].count_b == 300);
        cr_assert(diff.matched == 200 && diff.unmatched == 200, "100 in both, 200 after only");
}

Test(diff, a_change_that_nobody_cares_for)
{
        before[0] = run(500);
        after[0] = run(600);
        compare(1, 1, 0.3);
        cr_assert_eq(diff.rows[0].verdict, CAPO_DIFF_SMALL);
        cr_assert_gt(diff.rows[0].low, 0, "sure, but small");
}

/* Whatever the numbers are: a verdict means that the interval leaves out zero. */
Test(diff, no_verdict_over_zero)
{
        static const double runs[][6] = {
                {500, 520, 480, 1500, 700, 3000}, {500, 510, 505, 600, 610, 605},
                {500, 900, 500, 2000, 480, 2100}, {100, 101, 99, 130, 90, 105},
                {100, 120, 90, 99, 118, 91},
        };

        for (unsigned i = 0; i < sizeof runs / sizeof *runs; i++) {
                const struct capo_diff_row *r;

                for (unsigned k = 0; k < 3; k++) {
                        before[k] = run(runs[i][k]);
                        after[k] = run(runs[i][k + 3]);
                }
                compare(3, 3, 0);
                r = diff.rows;
                cr_assert(diff.between_runs);
                cr_assert_eq(r->verdict == CAPO_DIFF_SLOWER, r->low > 0, "%u: %g to %g", i, r->low,
                             r->high);
                cr_assert_eq(r->verdict == CAPO_DIFF_FASTER, r->high < 0, "%u: %g to %g", i, r->low,
                             r->high);
                cr_assert(r->low < r->change && r->change < r->high && r->low > -1);
                for (unsigned k = 0; k < 3; k++) {
                        capo_job_free(before[k]);
                        capo_job_free(after[k]);
                        before[k] = after[k] = NULL;
                }
        }
}

/* Pairs that differ by the same are sure, however much the pairs differ. */
Test(diff, runs_in_turn_are_pairs)
{
        static const double drift[] = {1, 1.5, 2.2, 3};

        for (unsigned k = 0; k < 4; k++) {
                before[k] = run(200 * drift[k]);
                after[k] = run(260 * drift[k]);
        }
        compare(4, 4, 0.01);
        cr_assert_eq(diff.rows[0].verdict, CAPO_DIFF_SLOWER);
        cr_assert_float_eq(diff.rows[0].change, 0.3, 0.02);
        cr_assert_eq(diff.rows[0].freedom_, 3);
        /* the only row is its own measure of what is usual here, which is as good as twice as many
         * runs */
        cr_assert_float_eq(
                diff.rows[0].low,
                (1 + diff.rows[0].change) * exp(-capo_quantile_t(0.05, 6) * diff.rows[0].se_) - 1,
                1e-9);
        compare(4, 3, 0.01);
        cr_assert_eq(diff.rows[0].freedom_, 5);
        cr_assert_eq(diff.rows[0].verdict, CAPO_DIFF_NOISE, "without pairs nothing is sure");
        cr_assert(diff.runs_a == 4 && diff.runs_b == 3);
}

/* A row that hardly varies is believed to vary as rows here do: beside one that is all over the
 * place it says little. */
Test(diff, no_row_is_much_steadier_than_usual)
{
        static const double steady[] = {1, 1.001, 0.999}, noisy[] = {1, 1.4, 0.7},
                            later[] = {0.8, 1, 1.3};

        for (int both = 0; both < 2; both++) {
                for (unsigned k = 0; k < 3; k++) {
                        before[k] = run(500 * steady[k]);
                        after[k] = run(520 * steady[k]);
                        for (int i = 0; i < 2 && both; i++) {
                                struct capo_job *job = i ? after[k] : before[k];
                                struct capo_job_row *row = made_row(job, CAPO_CALL_REDUCE, 1 << 20,
                                                                    100, CAPO_CLOCK_HOST, 0);

                                capo_hist_add(&row->time[CAPO_CLOCK_EVENT],
                                              (uint64_t)(5e5 * (i ? later[k] : noisy[k])), 400);
                        }
                }
                compare(3, 3, 0.01);
                cr_assert_eq(diff.n_rows, both ? 2 : 1);
                for (size_t i = 0; i < diff.n_rows; i++) {
                        bool is_steady = diff.rows[i].call == CAPO_CALL_ALLREDUCE;

                        cr_expect_eq(diff.rows[i].verdict,
                                     is_steady && !both ? CAPO_DIFF_SLOWER : CAPO_DIFF_NOISE);
                        if (is_steady)
                                cr_expect_float_eq(diff.rows[i].change, 0.04, 0.01);
                }
                for (unsigned k = 0; k < 3; k++) {
                        capo_job_free(before[k]);
                        capo_job_free(after[k]);
                        before[k] = after[k] = NULL;
                }
        }
}

Test(diff, host_times_are_not_judged)
{
        before[0] = run(500);
        after[0] = run(900);
        capo_hist_finish(&after[0]->rows[0].time[CAPO_CLOCK_EVENT]);
        capo_hist_add(&after[0]->rows[0].time[CAPO_CLOCK_HOST], 99000, 400);
        compare(1, 1, 0.01);
        cr_assert(diff.rows[0].verdict == CAPO_DIFF_HOST_TIMES &&
                  diff.rows[0].clock == CAPO_CLOCK_HOST);
        cr_assert(!diff.n_slower && diff.seconds == 0);
}

Test(diff, one_timed_call_is_no_time)
{
        before[0] = run(500);
        after[0] = run(900);
        capo_hist_finish(&after[0]->rows[0].time[CAPO_CLOCK_EVENT]);
        capo_hist_add(&after[0]->rows[0].time[CAPO_CLOCK_EVENT], 900000, 1);
        compare(1, 1, 0.01);
        cr_assert(diff.rows[0].verdict == CAPO_DIFF_NOT_TIMED && isnan(diff.rows[0].change) &&
                  isnan(diff.rows[0].low));
}

Test(diff, what_only_one_side_has)
{
        before[0] = run(500);
        after[0] = run(500);
        made_row(before[0], CAPO_CALL_ALLREDUCE, 64, 7, CAPO_CLOCK_EVENT, 1000);
        made_row(after[0], CAPO_CALL_BROADCAST, 1 << 20, 9, CAPO_CLOCK_EVENT, 1000);
        made_row(after[0], CAPO_CALL_COMMINIT, 0, 50, CAPO_CLOCK_HOST, 0);
        made_row(after[0], CAPO_CALL_SEND, 64, 50, CAPO_CLOCK_HOST, 0)->flags = CAPO_RECORD_MEMBER;
        compare(1, 1, 0.01);
        cr_assert(diff.n_rows == 1 && diff.unmatched == 16 && diff.matched == 200);
}

Test(diff, communicators_are_known_by_name)
{
        before[0] = run(500);
        after[0] = run(500);
        free(after[0]->comms[0].name);
        after[0]->comms[0].name = strdup("other");
        compare(1, 1, 0.01);
        cr_assert(diff.n_rows == 0 && diff.unmatched == 200);
}

/* Rows of what ran differently are one call; what most of them ran is shown. */
Test(diff, what_ran_is_that_of_most)
{
        struct capo_job_row *few;

        before[0] = run(500);
        after[0] = run(500);
        before[0]->rows[0].algo_proto = after[0]->rows[0].algo_proto = 0x11;
        few = made_row(after[0], CAPO_CALL_ALLREDUCE, 1 << 20, 99, CAPO_CLOCK_EVENT, 500000);
        few->algo_proto = 0x22;
        few->rule = 5;
        after[0]->rows[0].rule = 4;
        compare(1, 1, 0.01);
        cr_assert(diff.n_rows == 1 && diff.rows[0].algo_proto_a == 0x11 &&
                  diff.rows[0].algo_proto_b == 0x11);
        cr_assert(diff.rows[0].count_b == 199 && diff.rows[0].rule_b == 4);
}

Test(diff, the_largest_change_in_seconds_is_first)
{
        before[0] = run(500);
        after[0] = run(510);
        made_row(before[0], CAPO_CALL_ALLREDUCE, 2 << 20, 100, CAPO_CLOCK_EVENT, 900000);
        made_row(after[0], CAPO_CALL_ALLREDUCE, 2 << 20, 100, CAPO_CLOCK_EVENT, 700000);
        compare(1, 1, 0.01);
        cr_assert(diff.n_rows == 2 && diff.rows[0].bytes == 2 << 20);
}

Test(diff, rules_of_runs_with_one_profile)
{
        for (unsigned k = 0; k < 2; k++) {
                before[k] = run(500);
                after[k] = run(500);
                after[k]->processes[0].rules = strdup("digest\ta\n");
        }
        compare(2, 2, 0.01);
        cr_assert_str_eq(diff.rules, "digest\ta\n");
        after[1]->processes[0].rules[7] = 'b';
        compare(2, 2, 0.01);
        cr_assert_null(diff.rules);
}

/* Two runs are put together: their times, their calls. A single run with all of them has the same
 * interval. */
Test(diff, runs_are_put_together)
{
        double half_width;

        before[0] = run(500);
        after[0] = run(600);
        after[1] = run(600);
        compare(1, 2, 0.01);
        cr_assert_eq(diff.n_rows, 1);
        cr_expect(diff.rows[0].count_b == 200 && diff.rows[0].count_a == 100);
        half_width = diff.rows[0].half_width;
        for (unsigned i = 0; i < 400; i++)
                capo_hist_add(&after[0]->rows[0].time[CAPO_CLOCK_EVENT],
                              (uint64_t)(600 * (990 + i % 21)), 1);
        after[0]->rows[0].count = 200;
        after[0]->rows[0].calls = 800;
        compare(1, 1, 0.01);
        cr_expect_float_eq(diff.rows[0].half_width, half_width, 1e-12);
}

Test(diff, two_timed_calls_are_a_time_and_the_host_has_medians_too)
{
        before[0] = run(500);
        after[0] = run(900);
        capo_hist_finish(&after[0]->rows[0].time[CAPO_CLOCK_EVENT]);
        capo_hist_add(&after[0]->rows[0].time[CAPO_CLOCK_EVENT], 900000, 4);
        compare(1, 1, 0.01);
        cr_expect_eq(diff.rows[0].verdict, CAPO_DIFF_NOT_TIMED, "one call, on each of four ranks");
        capo_hist_add(&after[0]->rows[0].time[CAPO_CLOCK_EVENT], 900000, 2);
        compare(1, 1, 0.01);
        cr_expect_float_eq(diff.rows[0].p50_b_us, 900, 30, "two ranks made one more");
        capo_hist_add(&after[0]->rows[0].time[CAPO_CLOCK_EVENT], 900000, 2);
        compare(1, 1, 0.01);
        cr_expect_float_eq(diff.rows[0].p50_b_us, 900, 30);
        compare(1, 1, 0.01);
        capo_hist_finish(&after[0]->rows[0].time[CAPO_CLOCK_EVENT]);
        compare(1, 1, 0.01);
        cr_expect(diff.rows[0].clock == CAPO_CLOCK_HOST && diff.rows[0].p50_a_us == 1 &&
                  diff.rows[0].p50_b_us == 1);
}

Test(diff, one_timed_call_before_is_no_time_either)
{
        before[0] = run(500);
        after[0] = run(900);
        capo_hist_finish(&before[0]->rows[0].time[CAPO_CLOCK_EVENT]);
        capo_hist_add(&before[0]->rows[0].time[CAPO_CLOCK_EVENT], 500000, 1);
        compare(1, 1, 0.01);
        cr_expect(diff.rows[0].verdict == CAPO_DIFF_NOT_TIMED && isnan(diff.rows[0].change));
}

/* Whichever side has a row that the other lacks, and wherever among its rows it is. */
Test(diff, rows_of_one_side_only)
{
        static const unsigned calls[] = {CAPO_CALL_BROADCAST, CAPO_CALL_ALLREDUCE, CAPO_CALL_SEND};

        for (int a = 0; a < 8; a++) {
                for (int b = 0; b < 8; b++) {
                        before[0] = made_job(4);
                        after[0] = made_job(4);
                        for (int i = 0; i < 3; i++) {
                                if (a >> i & 1)
                                        made_row(before[0], calls[i], 8, 1u << 2 * i,
                                                 CAPO_CLOCK_HOST, 0);
                                if (b >> i & 1)
                                        made_row(after[0], calls[i], 8, 2u << 2 * i,
                                                 CAPO_CLOCK_HOST, 0);
                        }
                        compare(1, 1, 0.01);
                        cr_expect_eq(diff.n_rows, (size_t)__builtin_popcount((unsigned)(a & b)),
                                     "%d %d", a, b);
                        for (int i = 0; i < 3; i++) {
                                diff.matched -= a & b & 1 << i ? 2u << 2 * i : 0;
                                diff.unmatched -= a & 1 << i        ? 1u << 2 * i
                                                  : ~a & b & 1 << i ? 2u << 2 * i
                                                                    : 0;
                        }
                        cr_expect(diff.matched == 0 && diff.unmatched == 0, "%d %d", a, b);
                        end();
                        before[0] = after[0] = NULL;
                }
        }
}

Test(diff, more_runs_than_are_compared)
{
        struct capo_job *many[CAPO_DIFF_RUNS + 1];

        for (int i = 0; i <= CAPO_DIFF_RUNS; i++)
                many[i] = run(i < CAPO_DIFF_RUNS ? 500 : 9000);
        capo_diff_make(many, CAPO_DIFF_RUNS + 1, many, CAPO_DIFF_RUNS + 1, 0.01, &diff);
        cr_assert(diff.runs_a == CAPO_DIFF_RUNS && diff.runs_b == CAPO_DIFF_RUNS);
        cr_assert_eq(diff.matched, 2 * 100 * CAPO_DIFF_RUNS);
        for (int i = 0; i <= CAPO_DIFF_RUNS; i++)
                capo_job_free(many[i]);
}

Test(diff, one_run_against_several_is_judged_by_its_calls)
{
        before[0] = run(500);
        before[1] = run(510);
        after[0] = run(600);
        compare(2, 1, 0.01);
        cr_expect_not(diff.between_runs);
        after[1] = run(610);
        compare(2, 2, 0.01);
        cr_expect(diff.between_runs);
}

/* A run of @n calls on each of 4 ranks, of a kind that varies by a fifth. */
static struct capo_job *few(unsigned n, double us, unsigned *turn)
{
        struct capo_job *job = made_job(4);
        struct capo_job_row *row =
                made_row(job, CAPO_CALL_ALLREDUCE, 1 << 20, n, CAPO_CLOCK_HOST, 0);

        for (unsigned i = 0; i < n; i++) {
                double normal = -6;

                for (unsigned k = 0; k < 12; k++) {
                        *turn = *turn * 1664525 + 1013904223;
                        normal += *turn / 4294967296.0;
                }
                capo_hist_add(&row->time[CAPO_CLOCK_EVENT],
                              (uint64_t)(us * 1000 * exp(0.2 * normal)), 4);
        }
        return job;
}

/* Two runs that do not differ are reported as different once in twenty times; with two calls each,
 * every second time. */
Test(diff, of_few_calls_little_is_known)
{
        static const unsigned ns[] = {2, 3, 4, 5, 7, 8, 20};
        unsigned turn = 3;

        for (size_t k = 0; k < N_ELEMENTS(ns); k++) {
                unsigned wrong = 0;

                for (unsigned i = 0; i < 1000; i++) {
                        before[0] = few(ns[k], 500, &turn);
                        after[0] = few(ns[k], 500, &turn);
                        compare(1, 1, 0);
                        wrong += diff.n_slower + diff.n_faster > 0;
                        end();
                        before[0] = after[0] = NULL;
                }
                cr_expect(wrong <= 75, "%u of 1000 with %u calls", wrong, ns[k]);
        }
        before[0] = few(5, 500, &turn);
        after[0] = few(5, 1500, &turn);
        compare(1, 1, 0.01);
        cr_expect(diff.n_slower == 1);
}
