/* SPDX-License-Identifier: Apache-2.0 */
/* What all calls took, from those that were timed: some stand for themselves, the others for all
 * the rest. */
#include <math.h>
#include <criterion/criterion.h>

#include "analysis/job/sampled.h"
#include "analysis/job/spread.h"

static struct capo_hist timed, chosen;

static void end(void)
{
        capo_hist_finish(&timed);
        capo_hist_finish(&chosen);
}

TestSuite(sampled, .fini = end);

static void drawn(uint64_t ns, uint64_t times) { capo_hist_add(&timed, ns, times); }

static void alone(uint64_t ns)
{
        drawn(ns, 1);
        capo_hist_add(&chosen, ns, 1);
}

static struct capo_sampled of(uint64_t calls)
{
        return (struct capo_sampled){&timed, &chosen, calls};
}

Test(sampled, nothing_timed)
{
        struct capo_sampled s = of(10);

        cr_expect_eq(capo_sampled_weight(&s), 1);
        s.calls = 0;
        cr_expect_eq(capo_sampled_mean(&s), 0);
        s.calls = 10;
        cr_expect(capo_sampled_mean(&s) == 0 && capo_sampled_cov(&s) == 0 &&
                  capo_sampled_quantile(&s, 0.5) == 0 && capo_sampled_doubt(&s, 10) == 0);
}

/* As the histogram itself has it: logs that do not tell, and those in which every call is timed. */
Test(sampled, all_drawn)
{
        struct capo_sampled s = of(40);

        drawn(1000, 5);
        drawn(3000, 5);
        cr_expect_float_eq(capo_sampled_mean(&s), 2000, 1e-9);
        cr_expect_float_eq(capo_sampled_cov(&s), 0.5, 1e-9);
        cr_expect_eq(capo_sampled_quantile(&s, 0.9), capo_hist_quantile(&timed, 0.9));
        /* 40 calls of one rank: a quarter of them drawn */
        cr_expect_float_eq(capo_sampled_doubt(&s, 40),
                           40 * 1000 * sqrt(0.75 / 10) * capo_quantile_t(0.05, 9), 1);
        /* of two ranks, which time the same: five */
        cr_expect_float_eq(capo_sampled_doubt(&s, 20),
                           40 * 1000 * sqrt(0.75 / 5) * capo_quantile_t(0.05, 4), 1);
        s.calls = 10;
        cr_expect_eq(capo_sampled_doubt(&s, 10), 0);
        s.calls = 3; /* fewer than were timed: a log that was cut */
        cr_expect_float_eq(capo_sampled_mean(&s), 2000, 1e-9);
        cr_expect_eq(capo_sampled_doubt(&s, 3), 0);
}

Test(sampled, the_first_counts_once)
{
        struct capo_sampled s = of(102);

        alone(1000000);
        alone(1500);
        drawn(1000, 5);
        drawn(3000, 5);
        cr_expect_float_eq(capo_sampled_mean(&s) * 102, 1000000 + 1500 + 100 * 2000, 1e-3);
        cr_expect_float_eq(capo_sampled_doubt(&s, 102),
                           100 * 1000 * sqrt(0.9 / 10) * capo_quantile_t(0.05, 9), 1,
                           "what is known is not in doubt");
        cr_expect_lt(capo_sampled_quantile(&s, 0.985), 3200,
                     "one call of 102 is slow, not one of 12");
        cr_expect_eq(capo_sampled_quantile(&s, 1), 1000000);
        cr_expect_gt(capo_hist_quantile(&timed, 0.985), 900000);
        cr_expect_float_eq(
                capo_sampled_cov(&s),
                sqrt((1e12 + 1500.0 * 1500 + 50 * 1e6 + 50 * 9e6) / 102 - pow(1201500 / 102.0, 2)) /
                        (1201500 / 102.0),
                1e-9);
}

Test(sampled, where_none_was_drawn_the_second_stands_for_the_rest)
{
        struct capo_sampled s = of(20);

        for (int rank = 0; rank < 2; rank++) {
                alone(1000000);
                alone(1000);
        }
        cr_expect_float_eq(capo_sampled_mean(&s) * 20, 2002000 + 16 * 1000, 16 * 1000 / 16);
        cr_expect_float_eq(capo_sampled_doubt(&s, 10), 16 * 1000, 1000,
                           "nothing tells how it varies");
        s.calls = 4;
        cr_expect_float_eq(capo_sampled_mean(&s) * 4, 2002000, 1e-6);
        cr_expect_eq(capo_sampled_doubt(&s, 2), 0);
}

Test(sampled, what_is_known_of_calls_that_were_not_timed)
{
        struct capo_sampled s = of(40);

        drawn(1000, 10);
        s.inferred_calls = 4;
        s.inferred_ns = 5e6;
        cr_expect_float_eq(capo_sampled_mean(&s) * 40, 36 * 1000 + 5e6, 1e-3);
        cr_expect_eq(capo_sampled_doubt(&s, 40), 0, "all drawn took as long");
        cr_expect_eq(capo_sampled_quantile(&s, 0.5), 1000);
}

Test(sampled, one_drawn_call_tells_no_interval)
{
        struct capo_sampled s = of(12);

        alone(9000);
        alone(1000);
        drawn(2000, 1);
        cr_expect_float_eq(capo_sampled_mean(&s) * 12, 10000 + 10 * 2000, 1e-6);
        cr_expect_float_eq(capo_sampled_doubt(&s, 12), 10 * 2000, 1e-6);
}

Test(sampled, the_least_that_tells_an_interval)
{
        struct capo_sampled s = of(1);

        drawn(2000, 1);
        cr_expect_eq(capo_sampled_doubt(&s, 1), 0, "the only call was timed");
        s.calls = 4;
        drawn(4000, 1);
        cr_expect_float_eq(capo_sampled_doubt(&s, 4),
                           4 * 1000 * sqrt(0.5 / 2) * capo_quantile_t(0.05, 1), 1e-6);
}

Test(sampled, the_spread_of_chosen_calls_alone)
{
        struct capo_sampled s = of(5);

        alone(1000);
        alone(3000);
        cr_expect_float_eq(capo_sampled_cov(&s), 0.5, 1e-9);
}

Test(sampled, the_longest_silences_are_kept)
{
        struct capo_silences s = {0};

        for (uint64_t i = 1; i <= 40; i++)
                capo_silences_add(&s, i, i % 2 ? i : 100 - i);
        cr_assert_eq(s.n, CAPO_SILENCES);
        cr_expect(s.v[0].ns == 98 && s.v[1].ns == 96 && s.v[19].ns == 60 && s.v[20].ns == 39 &&
                  s.v[31].ns == 17);
        capo_silences_add(&s, 0, 16);
        cr_expect_eq(s.v[31].ns, 17);
        capo_silences_add(&s, 7, 1000);
        cr_expect(s.v[0].ns == 1000 && s.v[31].ns == 19);
}

Test(sampled, silences_that_the_job_has_many_of_are_usual)
{
        struct capo_silences s = {0};

        capo_silences_add(&s, 3, 5000);
        cr_expect_eq(capo_silences_usual(&s), 0);
        for (uint64_t i = 0; i < 20; i++)
                capo_silences_add(&s, 100 + i, 100);
        cr_expect_eq(capo_silences_usual(&s), 100);
        cr_expect(s.v[0].ns == 5000 && s.v[0].from == 3);
}

Test(sampled, as_many_silences_as_there_can_be_unseen_calls)
{
        struct capo_silences s = {0};

        cr_expect_eq(capo_sampled_unseen(&s, 100, 10), 0);
        capo_silences_add(&s, 0, 5000);
        capo_silences_add(&s, 0, 300);
        capo_silences_add(&s, 0, 70);
        cr_expect_eq(capo_sampled_unseen(&s, 2, 0), 5300, "none was drawn: all can be");
        cr_expect_eq(capo_sampled_unseen(&s, 20, 0), 5370);
        cr_expect_eq(capo_sampled_unseen(&s, 0, 10), 0);
        /* 8 x (1 - 0.05^(1/16)): 1.366 calls */
        cr_expect_float_eq(capo_sampled_unseen(&s, 8, 16), 5000 + 0.36595 * 300, 0.1, "%g",
                           capo_sampled_unseen(&s, 8, 16));
        for (int i = 0; i < CAPO_SILENCES; i++)
                capo_silences_add(&s, 0, 100);
        cr_expect_float_eq(capo_sampled_unseen(&s, 40, 0), 5300 + 38 * 100, 1e-6,
                           "what is kept no more was no longer");
}

static uint64_t state;

static double chance(void)
{
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (double)(state >> 11) / (double)(1ull << 53);
}

/* A rank makes @n calls, waits for each and computes a little; one in a hundred stalls. Is what
 * they took inside what the two calls timed for what they are and one draw in eight say of it, with
 * (@tail) and without what silences allow? */
static bool holds(uint64_t seed, uint64_t n, bool tail)
{
        struct capo_sampled s = of(n);
        struct capo_silences silent = {0};
        uint64_t drawn_calls = 0;
        double truth = 0, pm;

        end();
        timed = chosen = (struct capo_hist){0};
        state = seed * 0x9e3779b97f4a7c15u;
        for (uint64_t i = 0; i < n; i++) {
                uint64_t ns =
                        (uint64_t)(chance() < 0.01 ? 2e7 + chance() * 8e7 : 8e4 + chance() * 8e4);
                bool draw = chance() < 0.125;

                truth += (double)ns;
                drawn_calls += draw && i > 1;
                if (i < 2)
                        alone(ns);
                else if (draw)
                        drawn(ns, 1);
                else
                        capo_silences_add(&silent, 0, ns + (uint64_t)(chance() * 1e5));
        }
        pm = capo_sampled_doubt(&s, n);
        if (tail)
                pm += capo_sampled_unseen(&silent, (double)(n - timed.count), (double)drawn_calls);
        return fabs(capo_sampled_mean(&s) * (double)n - truth) <= pm;
}

Test(sampled, the_interval_has_the_truth_where_one_call_in_a_hundred_stalls)
{
        static const uint64_t calls[] = {60, 250, 1000, 5000};

        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
                unsigned with = 0, without = 0;

                for (uint64_t seed = 1; seed <= 100; seed++) {
                        with += holds(seed, calls[i], true);
                        without += holds(seed, calls[i], false);
                }
                cr_expect_geq(with, 95, "%u of 100 runs of %u calls", with, (unsigned)calls[i]);
                if (calls[i] <= 250)
                        cr_expect_lt(without, 80, "%u of 100 runs of %u calls hold anyway", without,
                                     (unsigned)calls[i]);
        }
}
