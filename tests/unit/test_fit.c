/* SPDX-License-Identifier: Apache-2.0 */
/* What a fit writes and what it does not: measurements of a few runs, made up so that the answer is
 * known. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/calls.h"
#include "profiles/fit/fit.h"
#include "tests/log_numbers.h"

enum { SIZES = 16, FIRST = 10 }; /* 1 KiB to 32 MiB */

static struct capo_samples set;
static struct capo_fit *fit;
static const uint8_t tree = CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_LL128);
static const uint8_t ring = CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL);
static const uint8_t simple = CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_SIMPLE);

static double base_us(int i) { return 20 + exp2(i) / 40; }

/* One run over sizes @from to @to; @factor(i) times the base; two halves, as nccl-tests has. */
static void run(uint8_t want, int from, int to, double (*factor)(int i), double slow)
{
        static char name[] = "made";
        struct capo_trial t = {
                .source = name, .layout = "8", .n_ranks = 8, .n_nodes = 1, .iterations = 20};
        uint32_t r;

        t.line = (unsigned)set.n_runs + 1;
        r = capo_samples_run(&set, &t);
        for (int i = from; i <= to; i++) {
                for (int half = 0; half < 2; half++) {
                        struct capo_sample s = {.bytes = 1ull << (FIRST + i),
                                                .us = base_us(i) * factor(i) * slow *
                                                      (1 + 0.001 * ((r * 7 + i * 3) % 5)),
                                                .run = r,
                                                .order = (uint32_t)i,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .make = CAPO_MAKE_LOOP,
                                                .place = half ? CAPO_PLACE_IN : CAPO_PLACE_OUT,
                                                .want = want};

                        capo_samples_add(&set, &s);
                }
        }
}

static double own(int i) { return 1; }

static double gains_large(int i) { return i >= 10 ? 0.85 + 0.01 * (i - 10) : 1.2; }

static double gains_middle(int i) { return i >= 4 && i <= 10 ? 0.80 : 1.3; }

static double all_20(int i) { return 0.8; }

static double stalls(int i) { return i >= 5 && i <= 9 ? 3 : 1; }

static double second(
        int i) /* under a stalled own choice the one gains 40 to 60 %, and is slower in truth */
{
        return i == 8 ? 1.8 : 1.3;
}

static double tenth(int i) { return 0.001; }

static struct capo_fit_links machine;

static const struct capo_fit_series *make(void)
{
        const struct capo_fit_options o = {.min_gain = 0.01, .links = machine};
        struct capo_fault fault;

        cr_assert_eq(capo_fit_make(&set, &o, &fit, &fault), 0, "%s", fault.text);
        return &fit->series[0];
}

static void finish(void)
{
        capo_fit_free(fit);
        capo_samples_free(&set);
        fit = NULL;
}

/* The candidate that the rows choose at @bytes; 0: left to NCCL. */
static int at(const struct capo_fit_series *s, double bytes)
{
        for (int i = 0; i < s->n_rows; i++) {
                if ((uint64_t)bytes <= s->rows[i].upto)
                        return s->rows[i].chosen;
        }
        return -1;
}

static double size(double i) { return exp2(FIRST + i); }

TestSuite(fit, .fini = finish);

Test(fit, nothing_is_written_where_the_candidate_was_not_measured)
{
        const struct capo_fit_series *s;

        for (int r = 0; r < 3; r++) {
                run(0, 0, 15, own, 1);
                run(tree, 11, 13, gains_large, 1);
        }
        s = make();
        for (double i = 0; i < 16; i += 0.25)
                cr_expect_eq(at(s, size(i)) > 0, i >= 11 && i <= 13, "2^%.2f", FIRST + i);
}

Test(fit, between_two_sizes_where_it_gains_it_is_written)
{
        const struct capo_fit_series *s;

        for (int r = 0; r < 3; r++) {
                run(0, 0, 15, own, 1);
                run(tree, 4, 5, gains_middle, 1);
                run(tree, 8, 9, gains_middle, 1);
        }
        s = make();
        for (double i = 4; i <= 9; i += 0.25)
                cr_expect(at(s, size(i)) > 0, "2^%.2f", FIRST + i);
        cr_expect_eq(at(s, size(3.9)), 0);
        cr_expect_eq(at(s, size(9.1)), 0);
}

Test(fit, what_was_measured_is_not_displaced_by_what_was_not)
{
        const struct capo_fit_series *s;
        int c;

        for (int r = 0; r < 3;
             r++) { /* Ring gains 20 % everywhere from 4 to 10, Tree 25 % but not measured at 7 */
                run(0, 0, 15, own, 1);
                run(ring, 0, 15, gains_middle, 1);
                run(tree, 5, 6, gains_middle, 0.94);
                run(tree, 8, 9, gains_middle, 0.94);
        }
        s = make();
        c = at(s, size(7));
        cr_assert(c > 0);
        cr_expect_eq(s->candidates[c].algo, CAPO_ALGO_RING);
        cr_expect_eq(s->candidates[at(s, size(5))].algo, CAPO_ALGO_TREE);
}

Test(fit, one_slow_run_of_three_makes_no_rule)
{
        const struct capo_fit_series *s;

        run(0, 0, 15, own, 1);
        run(0, 0, 15, own, 1.3);
        run(0, 0, 15, own, 1);
        for (int r = 0; r < 3; r++)
                run(tree, 0, 15, own, 1.0 + 0.002 * r);
        s = make();
        cr_expect_eq(s->n_rows, 1);
}

Test(fit, two_slow_runs_of_three_make_no_rule)
{
        const struct capo_fit_series *s;

        run(0, 0, 15, own, 1.3);
        run(0, 0, 15, own, 1.3);
        run(0, 0, 15, own, 1);
        for (int r = 0; r < 3; r++)
                run(tree, 0, 15, own, 1.0 + 0.002 * r);
        s = make();
        cr_expect_eq(s->n_rows, 1);
}

Test(fit, a_gain_that_is_the_same_everywhere_needs_repeated_runs)
{
        for (int runs = 1; runs <= 3; runs += 2) {
                const struct capo_fit_series *s;

                for (int r = 0; r < runs; r++) {
                        run(0, 0, 15, own, 1);
                        run(tree, 0, 15, all_20, 1);
                }
                s = make();
                for (int p = 0; p < s->n_points; p++)
                        cr_expect_eq(s->points[p].verdict,
                                     runs > 1 ? CAPO_FIT_WRITTEN : CAPO_FIT_ONCE, "%d runs: %s",
                                     runs, capo_fit_verdict_text(s->points[p].verdict));
                cr_expect_eq(s->next[0].what,
                             runs > 1 ? CAPO_FIT_NEXT_NOTHING : CAPO_FIT_NEXT_DEFAULT_AGAIN);
                finish();
                memset(&set, 0, sizeof set);
        }
}

Test(fit, runs_that_were_not_made_in_turn_are_said)
{
        for (int apart = 0; apart < 2; apart++) {
                for (int r = 0; r < 4; r++)
                        run(apart ? (r < 2 ? 0 : tree) : (r % 2 ? tree : 0), 0, 15, own, 1);
                cr_expect_eq(make()->turns, apart ? CAPO_FIT_APART : CAPO_FIT_IN_TURN);
                finish();
                memset(&set, 0, sizeof set);
        }
}

Test(fit, a_gain_beyond_reason_is_refused)
{
        const struct capo_fit_series *s;

        run(0, 4, 8, own, 1);
        run(tree, 4, 8, tenth, 1);
        s = make();
        cr_expect_eq(s->n_rows, 1);
        cr_expect_eq(s->points[2].verdict, CAPO_FIT_TOO_GOOD);
}

Test(fit, one_stalled_run_of_nccls_own_choice_makes_no_rule)
{
        const struct capo_fit_series *s;

        run(0, 0, 15, stalls, 1);
        for (int r = 0; r < 3; r++) {
                run(ring, 0, 15, second, 1 + 0.002 * r);
                run(tree, 0, 15, second,
                    1.35 + 0.002 * r); /* 42 % where Ring's are too many, and 19 % beside */
        }
        s = make();
        cr_expect_eq(s->n_rows, 1);
        cr_expect_eq(s->points[7].verdict, CAPO_FIT_ONCE, "%s",
                     capo_fit_verdict_text(s->points[7].verdict));
        cr_expect_eq(s->points[8].verdict, CAPO_FIT_UNREPEATED, "beside: %s",
                     capo_fit_verdict_text(s->points[8].verdict));
        cr_expect_eq(s->points[3].verdict, CAPO_FIT_LEFT);
}

/* Four times as slow from 2^5 on. */
static double slow_quarter(int i) { return i >= 5 ? 4 : 1; }

/* The other run of NCCL's own choice has one half that was held up; the two then seem to agree, and
 * the slow run alone must not make the noise so large that they do. */
Test(fit, one_slow_run_and_a_stalled_half_of_the_other_make_no_rule)
{
        const struct capo_fit_series *s;

        run(0, 0, 15, slow_quarter, 1);
        run(0, 0, 15, own, 1);
        for (size_t i = 0; i < set.n; i++) {
                if (set.v[i].run == 1 && set.v[i].bytes == (uint64_t)size(8) &&
                    set.v[i].place == CAPO_PLACE_IN)
                        set.v[i].us *= 6;
        }
        for (int r = 0; r < 2; r++) {
                run(tree, 0, 15, own, 1.2 + 0.001 * r);
                run(ring, 0, 15, own, 1.3 + 0.001 * r);
        }
        s = make();
        cr_expect_eq(s->n_rows, 1);
        cr_expect_lt(s->noise, 0.02, "%g", s->noise);
}

/* Two runs of NCCL's own choice that differ by half at all sizes, beside one candidate. */
Test(fit, runs_of_nccls_own_choice_that_disagree_are_named)
{
        const struct capo_fit_series *s;

        run(0, 0, 15, own, 1);
        run(0, 0, 15, own, 1.5);
        run(tree, 0, 15, own, 0.8);
        run(tree, 0, 15, own, 0.802);
        s = make();
        cr_expect_eq(s->n_rows, 1);
        cr_expect_eq(s->points[8].verdict, CAPO_FIT_DISAGREE, "%s",
                     capo_fit_verdict_text(s->points[8].verdict));
        cr_expect_eq(s->next[0].what, CAPO_FIT_NEXT_DEFAULT_AGAIN);
}

static double gains_low(int i) { return i <= 7 ? 0.8 : i < 10 ? 1 + 0.4 * (i - 7) : 2.5; }

static double gains_high(int i) { return i >= 10 ? 0.8 : i > 7 ? 1 + 0.4 * (10 - i) : 2.5; }

Test(fit, where_two_cross_above_nccls_own_it_is_left_also_when_what_ran_is_not_known)
{
        const struct capo_fit_series *s;

        for (int r = 0; r < 3; r++) {
                run(0, 0, 15, own, 1);
                run(tree, 0, 15, gains_low, 1);
                run(simple, 0, 15, gains_high, 1);
        }
        for (size_t i = 0; i < set.n; i++) { /* sizes three doublings apart */
                if (set.v[i].bytes == (uint64_t)size(8) || set.v[i].bytes == (uint64_t)size(9))
                        set.v[i--] = set.v[--set.n];
        }
        s = make();
        cr_expect(at(s, size(7)) > 0 && at(s, size(10)) > 0);
        cr_expect_eq(at(s, size(8.5)), 0);
}

/* LL moves twice the bytes: a gain where bandwidth decides contradicts the label, unless NCCL ran LL. */
Test(fit, ll_ahead_of_nccls_own_choice_at_large_sizes_is_believed_only_if_that_is_ll)
{
        for (int known = 0; known < 2; known++) {
                const struct capo_fit_series *s;

                for (int r = 0; r < 3; r++) {
                        run(0, 0, 15, own, 1);
                        run(ring, 0, 15, all_20, 1);
                }
                for (size_t i = 0; known && i < set.n; i++)
                        set.v[i].ran = set.v[i].want
                                               ? ring
                                               : CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_LL);
                s = make();
                cr_expect_eq(s->points[12].verdict, known ? CAPO_FIT_WRITTEN : CAPO_FIT_LABELS,
                             "%s", capo_fit_verdict_text(s->points[12].verdict));
                finish();
        }
}

Test(fit, a_row_ends_where_its_candidate_is_no_longer_sure_to_gain)
{
        static const int order[] = {0, 2, 1, 2, 0, 1}; /* neither rises nor falls */
        uint64_t ends[2];

        for (int noisy = 0; noisy < 2; noisy++) {
                const struct capo_fit_series *s;

                for (int r = 0; r < 3; r++) {
                        run(0, 0, 15, own, 1 + (noisy ? 0.08 : 0.001) * order[r]);
                        run(tree, 0, 15, gains_middle, 1 + (noisy ? 0.08 : 0.001) * order[r + 3]);
                }
                for (size_t i = 0; i < set.n; i++)
                        set.v[i].ran = set.v[i].want ? tree : ring;
                s = make();
                cr_assert_eq(s->n_rows, 3);
                ends[noisy] = s->rows[1].upto;
                cr_expect(ends[noisy] >= (uint64_t)size(10) && ends[noisy] < (uint64_t)size(11));
                finish();
        }
        cr_expect_gt(ends[0], ends[1], "%llu %llu", (unsigned long long)ends[0],
                     (unsigned long long)ends[1]);
}

Test(fit, what_the_links_cannot_carry_is_refused)
{
        static const struct {
                const char *gpu;
                struct capo_fit_links machine;
                bool refused;
        } cases[] = {{"V100-SXM2-16GB", {0}, true},
                     {"H100 80GB HBM3", {0}, false},
                     {"RTX 9999", {0}, false},
                     {"RTX 9999",
                      {.gpu_gbs = 166},
                      true}, /* what was said of the machine goes before the name */
                     {"V100-SXM2-16GB", {.gpu_gbs = 514}, false}};

        for (size_t g = 0; g < sizeof cases / sizeof *cases;
             g++) { /* the large sizes at 400 GB/s and more */
                const struct capo_fit_series *s;

                for (int r = 0; r < 3; r++) {
                        run(0, 4, 15, own, 0.15 + 0.0001 * r);
                        run(tree, 4, 15, gains_large, 0.15 + 0.0001 * r);
                }
                for (size_t i = 0; i < set.n_runs; i++)
                        strcpy(set.runs[i].gpu, cases[g].gpu);
                machine = cases[g].machine;
                s = make();
                cr_expect_eq(s->points[11].verdict,
                             cases[g].refused ? CAPO_FIT_BEYOND_LINKS : CAPO_FIT_WRITTEN,
                             "case %zu: %s", g, capo_fit_verdict_text(s->points[11].verdict));
                finish();
        }
}

Test(fit, one_run_each_is_not_believed_to_a_percent)
{
        const struct capo_fit_series *s;

        run(0, 0, 15, own, 1);
        run(tree, 0, 15, gains_large, 1);
        s = make();
        cr_expect_eq(s->n_rows, 1, "15 %% from one run each");
        cr_expect_eq(s->points[12].verdict, CAPO_FIT_ONCE);
        cr_expect_eq(s->next[0].what, CAPO_FIT_NEXT_DEFAULT_AGAIN);
        cr_expect_eq(s->points[12].repeats, 0);
}

Test(fit, three_runs_each_find_what_is_there)
{
        const struct capo_fit_series *s;

        for (int r = 0; r < 3; r++) {
                run(0, 0, 15, own, 1 + 0.004 * r);
                run(tree, 0, 15, gains_large, 1 + 0.003 * r);
        }
        s = make();
        cr_expect_eq(at(s, size(9)), 0);
        cr_expect(at(s, size(10)) > 0);
        cr_expect(at(s, size(15)) > 0);
        cr_expect_eq(at(s, size(15.01)), 0, "nothing is claimed beyond the last size");
        cr_expect_eq(s->regret.n_scored, 16);
        cr_expect_eq(s->regret.n_unscored, 0);
        cr_expect_leq(s->regret.worst_default, 0.01);
}

Test(fit, the_same_times_twice_are_one_measurement)
{
        for (int r = 0; r < 2; r++) {
                run(0, 0, 15, own, 1);
                run(tree, 0, 15, gains_large, 1);
        }
        for (size_t i = 0; i < set.n; i++)
                set.v[i].us = base_us((int)set.v[i].order) * (set.v[i].want ? 0.9 : 1);
        capo_fit_guard(&set, false);
        cr_expect(!set.runs[0].left_out && !set.runs[1].left_out);
        cr_expect(set.runs[2].left_out && set.runs[3].left_out, "%s", set.runs[2].why);
}

Test(fit, runs_of_other_settings_or_hosts_are_not_compared)
{
        static const struct {
                const char *settings, *hosts;
                bool out, forced_out;
        } cases[] = {{"", "a", false, false},
                     {"NCCL_SOCKET_NTHREADS=4", "a", true, false},
                     {"", "b", true, false},
                     {"", "", false, false}};

        run(0, 0, 15, own, 1);
        strcpy(set.runs[0].hosts, "a");
        for (size_t i = 0; i < 4; i++) {
                run(tree, 0, 15, gains_large, 1 + 0.01 * (double)i);
                strcpy(set.runs[i + 1].settings, cases[i].settings);
                strcpy(set.runs[i + 1].hosts, cases[i].hosts);
        }
        capo_fit_guard(&set, true);
        for (size_t i = 0; i < 4; i++)
                cr_expect_eq(set.runs[i + 1].left_out, cases[i].forced_out, "forced, case %zu: %s",
                             i, set.runs[i + 1].why);
        capo_fit_guard(&set, false);
        for (size_t i = 0; i < 4; i++)
                cr_expect_eq(set.runs[i + 1].left_out, cases[i].out, "case %zu: %s", i,
                             set.runs[i + 1].why);
}

Test(fit, nccls_own_choice_where_no_candidate_is_makes_no_noise)
{
        static const char *const drivers[] = {"CUDA 12.4", "CUDA 12.8", "", "580.65"};

        run(tree, 0, 15, gains_large, 1);
        strcpy(set.runs[0].driver, "CUDA 12.4");
        for (size_t i = 0; i < 4; i++) {
                run(0, 0, 15, own, 1 + 0.01 * (double)i);
                strcpy(set.runs[i + 1].driver, drivers[i]);
        }
        capo_fit_guard(&set, false);
        for (size_t i = 0; i <= 4; i++)
                cr_expect_eq(set.runs[i].left_out, i == 2, "run %zu: %s", i, set.runs[i].why);
}

Test(fit, a_run_in_other_units_is_named_and_the_rest_is_used)
{
        run(0, 0, 15, own, 1);
        run(0, 0, 15, own, 1000); /* in ns */
        run(0, 0, 15, own, 1.01);
        for (int r = 0; r < 3; r++)
                run(tree, 0, 15, gains_large, 1 + 0.001 * r);
        capo_fit_guard(&set, true);
        for (size_t i = 0; i < 6; i++)
                cr_expect_eq(set.runs[i].left_out, i == 1, "run %zu: %s", i, set.runs[i].why);
        cr_expect_str_eq(
                set.runs[1].why,
                "mixed units? most of its times are more than ten times those of the other runs");
        cr_expect_eq(make()->points[0].default_runs, 2);
}

Test(fit, one_run_against_one_is_not_decided)
{
        run(0, 0, 15, own, 1);
        run(0, 0, 15, own, 1000);
        capo_fit_guard(&set, false);
        cr_expect(!set.runs[0].left_out && !set.runs[1].left_out);
}

Test(fit, a_default_that_chose_otherwise_than_most_was_forced)
{
        for (int r = 0; r < 3; r++)
                run(0, 0, 15, own, 1 + 0.001 * r);
        run(tree, 0, 15, gains_large, 1);
        for (size_t i = 0; i < set.n; i++)
                set.v[i].ran = set.v[i].want                             ? tree
                               : set.v[i].run == 1 && set.v[i].order > 8 ? tree
                                                                         : ring;
        capo_fit_guard(&set, false);
        for (size_t i = 0; i < 4; i++)
                cr_expect_eq(set.runs[i].left_out, i == 1, "run %zu: %s", i, set.runs[i].why);
        make();
}

/* What ran beside the table is counted, and all is decided as without it. */
Test(fit, symmetric_kernels_are_beside_the_table)
{
        const uint8_t ran[] = {CAPO_KERNEL_SYMK_AGXLL_R, CAPO_KERNEL_COPY_ENGINE};
        const struct capo_fit_series *s;
        int chosen[SIZES], n_rows;

        for (int pass = 0; pass < 2; pass++) {
                for (int r = 0; r < 3; r++) {
                        run(0, 0, 15, own, 1);
                        run(tree, 0, 15, gains_large, 1);
                }
                for (int r = 0; r < 3 && pass; r++) { /* in the same runs, a tenth of the time; the
                                                         largest size in odd numbers */
                        for (size_t i = 0; i < set.n_runs; i++) {
                                struct capo_sample x = {.bytes = 1024u << 3 * r,
                                                        .us = 1 + (double)i,
                                                        .run = (uint32_t)i,
                                                        .call = CAPO_CALL_ALLREDUCE,
                                                        .make = CAPO_MAKE_LOOP,
                                                        .want = i % 2 ? tree : 0,
                                                        .ran = ran[i == 0]};

                                capo_samples_add(&set, &x);
                        }
                }
                s = make();
                for (int i = 0; i < SIZES; i++) {
                        int c = at(s, size(i));

                        cr_expect(!pass || c == chosen[i], "2^%d", FIRST + i);
                        chosen[i] = c;
                }
                cr_expect(!pass || s->n_rows == n_rows);
                n_rows = s->n_rows;
                cr_expect_eq(fit->n_beside, pass ? 3 * set.n_runs : 0);
                if (pass)
                        break;
                finish();
                memset(&set, 0, sizeof set);
        }
}

/* Processor time, with wide margins: three times the runs in three sets of settings were 27 times
 * the time. */
Test(fit, many_runs_of_several_settings_take_time_in_proportion)
{
        static const char *const settings[] = {"NCCL_BUFFSIZE=1", "", "NCCL_BUFFSIZE=2"};
        clock_t begin;

        for (int i = 0; i < 6000; i++) {
                run(i % 2 ? tree : 0, i % 16, i % 16, own, 1 + 1e-7 * i);
                strcpy(set.runs[i].settings, settings[i % 3]);
        }
        begin = clock();
        capo_fit_guard(&set, false);
        cr_expect_lt((double)(clock() - begin) / CLOCKS_PER_SEC, 3);
        for (int i = 0; i < 6000; i++)
                cr_expect_eq(set.runs[i].left_out, i % 3 != 1,
                             "where as many were measured, no settings are the usual");
}

static double of_sizes(uint64_t n)
{
        static char name[] = "made";
        struct capo_trial t = {
                .source = name, .layout = "8", .n_ranks = 8, .n_nodes = 1, .iterations = 20};
        clock_t begin;

        finish();
        for (uint32_t r = 0; r < 2; r++) {
                capo_samples_run(&set, &t);
                for (uint64_t i = 0; i < n; i++)
                        capo_samples_add(
                                &set, &(struct capo_sample){.bytes = 1024 + 64 * i,
                                                            .us = 20 + (double)(i * (r + 1)) / 400,
                                                            .run = r,
                                                            .call = CAPO_CALL_ALLREDUCE,
                                                            .make = CAPO_MAKE_LOOP,
                                                            .want = r ? tree : 0});
        }
        begin = clock();
        make();
        return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

Test(fit, many_sizes_take_time_in_proportion)
{
        double few = of_sizes(4000), many = of_sizes(40000);

        cr_expect_lt(many, 30 * few + 0.3, "ten times the sizes: %.3f s, %.3f s", few, many);
}

/* Runs of several files are put in order by their time stamps; without them nothing is known. */
Test(fit, own_runs_and_candidates_in_turn, .fini = finish)
{
        static char names[4][8] = {"a", "b", "c", "d"};
        static const int64_t hours[][4] = {{1, 2, 3, 4}, {1, 3, 2, 4}, {1, 2, 0, 4}};
        static const enum capo_fit_turns turns[] = {CAPO_FIT_APART, CAPO_FIT_IN_TURN,
                                                    CAPO_FIT_TURNS_UNKNOWN};

        for (int i = 0; i < 4; i++)
                run(i < 2 ? 0 : ring, 0, SIZES - 1, i < 2 ? own : all_20, 1);
        for (size_t k = 0; k < 3; k++) {
                for (int i = 0; i < 4; i++) {
                        free(set.runs[i].source);
                        set.runs[i].source = strdup(names[i]);
                        set.runs[i].began.at = hours[k][i];
                }
                cr_expect_eq(make()->turns, turns[k], "%zu", k);
                set.runs[2].began.local = true;
                capo_fit_free(fit);
                cr_expect_eq(make()->turns, CAPO_FIT_TURNS_UNKNOWN, "two kinds of clock");
                set.runs[2].began.local = false;
                capo_fit_free(fit);
                fit = NULL;
        }
}
