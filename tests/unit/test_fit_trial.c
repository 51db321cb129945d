/* SPDX-License-Identifier: Apache-2.0 */
/* From what a job tried to the profile of the next. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiles/fit/fit_trial.h"
#include "tests/log_numbers.h"

static struct capo_samples set;
static struct capo_fit *fit;
static struct capo_profile *from, *to;
static struct capo_trial_found *found;
static int n_found;

/* @n calls of Tree Simple among NCCL's own at @bytes, which take 100 us and @gain less. */
static void tried(uint64_t bytes, double gain, int n)
{
        for (int i = 0; i < 10 * n; i++) {
                bool tree = i % 10 == 3;
                struct capo_sample s = {.bytes = bytes,
                                        .us = 100 * (tree ? 1 - gain : 1) *
                                              (1 + 0.01 * (i * 7 % 13 - 6)),
                                        .order = (uint32_t)i,
                                        .call = CAPO_CALL_ALLREDUCE,
                                        .make = CAPO_MAKE_EVENT};

                if (tree)
                        s.want = s.ran = CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_SIMPLE);
                capo_samples_add(&set, &s);
        }
}

static void begin(void)
{
        static char source[] = "job";
        const struct capo_trial run = {
                .source = source, .layout = "8", .n_ranks = 8, .n_nodes = 1, .iterations = 1};
        static const char text[] =
                "{\"capo_profile\": 1, \"name\": \"p\", \"platform\": {\"gpu\": \"H100\"}, \"rules\": ["
                "{\"when\": {\"ranks\": 8}, \"basis\": \"modelled\", \"allreduce\": ["
                "{\"upto\": \"1M\", \"leave\": true},"
                "{\"upto\": \"max\", \"algo\": \"tree\", \"proto\": \"simple\"}]},"
                "{\"when\": {\"ranks\": 4}, \"basis\": \"modelled\", \"allreduce\": ["
                "{\"upto\": \"max\", \"algo\": \"tree\", \"proto\": \"simple\"}]}]}";
        struct capo_fault fault;

        cr_assert_eq(capo_samples_run(&set, &run), 0);
        cr_assert_eq(capo_profile_parse(text, strlen(text), "p", &from, &fault), 0, "%s",
                     fault.text);
        to = capo_profile_new("p");
}

static void end(void)
{
        free(found);
        capo_fit_free(fit);
        capo_samples_free(&set);
        capo_profile_free(from);
        capo_profile_free(to);
}

static char *learn(void)
{
        static const struct capo_fit_options options = {.min_gain = 0.01, .force = true};
        struct capo_fault fault;
        static char *text;
        size_t size;
        FILE *f;

        cr_assert_eq(capo_fit_make(&set, &options, &fit, &fault), 0, "%s", fault.text);
        n_found = capo_fit_trials(&set, fit, from, &found);
        cr_assert_geq(capo_trial_apply(from, found, n_found, to), 0);
        f = open_memstream(&text, &size);
        cr_assert_eq(capo_profile_write(to, f), 0);
        fclose(f);
        return text;
}

TestSuite(fit_trial, .init = begin, .fini = end);

Test(fit_trial, winners_losers_and_what_is_open)
{
        char *text;

        tried(2 << 20, 0.20, 30);
        tried(4 << 20, 0.25, 30);
        tried(16 << 20, -0.20, 30);
        tried(64 << 20, 0.20, 5);
        text = learn();
        cr_assert_eq(n_found, 4);
        cr_expect_eq(found[0].verdict, CAPO_TRIAL_FASTER);
        cr_expect(found[1].gain > 0.22 && found[1].gain_lo < 0.25 && found[1].gain_hi > 0.25);
        cr_expect_eq(found[2].verdict, CAPO_TRIAL_NO_GAIN);
        cr_expect_eq(found[3].verdict, CAPO_TRIAL_OPEN, "five calls");
        cr_expect_eq(to->rules[0].basis, CAPO_BASIS_MEASURED);
        cr_expect_eq(to->rules[1].basis, CAPO_BASIS_MODELLED, "4 ranks were not tried");
        cr_expect(strstr(text, "{\"upto\": \"1M\", \"leave\": true}"), "%s", text);
        /* the verdicts meet in the middle, and hold two doublings away */
        cr_expect(strstr(text,
                         "{\"upto\": \"8M\", \"algo\": \"tree\", \"proto\": \"simple\", \"us\""),
                  "%s", text);
        cr_expect(strstr(text, "{\"upto\": \"64M\", \"leave\": true"), "%s", text);
        cr_expect(strstr(text, "{\"upto\": \"max\", \"algo\": \"tree\", \"proto\": \"simple\", "
                               "\"predicted\": true}"),
                  "%s", text);
        free(text);
}

Test(fit_trial, nothing_tried_changes_nothing)
{
        char *text;

        for (int i = 0; i < 20; i++) {
                const struct capo_sample s = {.bytes = 2 << 20,
                                              .us = 100,
                                              .order = (uint32_t)i,
                                              .call = CAPO_CALL_ALLREDUCE,
                                              .make = CAPO_MAKE_EVENT};

                capo_samples_add(&set, &s);
        }
        text = learn();
        cr_expect_eq(n_found, 0);
        cr_expect_eq(to->rules[0].basis, CAPO_BASIS_MODELLED);
        cr_expect(strstr(text, "\"gpu\": \"H100\"") && !strstr(text, "predicted"), "%s", text);
        free(text);
}

/* A guard's loser is withdrawn two doublings around the size that was measured. What is farther away
 * was not tried and stays as it was, as does a size with enough calls and no verdict. */
Test(fit_trial, a_verdict_holds_around_its_size)
{
        char *text;

        tried(8 << 20, -0.20, 30);
        tried(64 << 20, 0.0, 30);
        text = learn();
        cr_expect(strstr(text, "{\"upto\": \"2M\", \"algo\": \"tree\", \"proto\": \"simple\", "
                               "\"predicted\": true}"),
                  "%s", text);
        cr_expect(strstr(text, "{\"upto\": 23726566, \"leave\": true"), "%s", text);
        cr_expect(strstr(text, "{\"upto\": \"max\", \"algo\": \"tree\", \"proto\": \"simple\", "
                               "\"predicted\": true}"),
                  "%s", text);
        free(text);
}

/* Where NCCL's own choice is the row, there is nothing to compare. */
Test(fit_trial, a_row_is_not_compared_with_itself)
{
        for (int i = 0; i < 40; i++) {
                struct capo_sample s = {.bytes = 2 << 20,
                                        .us = 100 + i % 7,
                                        .order = (uint32_t)i,
                                        .call = CAPO_CALL_ALLREDUCE,
                                        .ran = CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_SIMPLE),
                                        .make = CAPO_MAKE_EVENT};

                s.want = i % 4 ? 0 : s.ran;
                capo_samples_add(&set, &s);
        }
        free(learn());
        cr_expect_eq(n_found, 0);
}

static uint32_t seed = 7;

/* Normal enough: the sum of twelve. */
static double noise(double sd)
{
        double sum = -6;

        for (int i = 0; i < 12; i++) {
                seed = seed * 1664525u + 1013904223u;
                sum += seed / 4294967296.0;
        }
        return sum * sd;
}

/* Jobs of a row whose true change is @change; each differs by its nodes. */
static enum capo_trial_verdict judged(double change, int jobs)
{
        struct capo_trial_found v[8];
        int n;

        for (int i = 0; i < jobs; i++)
                v[i] = (struct capo_trial_found){.bytes = 1 << 20,
                                                 .n_ranks = 8,
                                                 .n_own = 500,
                                                 .n_row = 20,
                                                 .n_jobs = 1,
                                                 .own_us = 100,
                                                 .row_us = 100,
                                                 .se = 0.01,
                                                 .change = change + noise(0.01) + noise(0.01)};
        n = capo_trial_pool(v, jobs);
        cr_assert_eq(n, 1);
        cr_assert_eq(v[0].n_jobs, jobs);
        return v[0].verdict;
}

Test(fit_trial, jobs_are_joined_by_their_differences)
{
        enum { WORLDS = 200 };
        int wrong = 0, open = 0, neutral = 0;

        for (int run = 0; run < 2; run++) {
                for (int i = 0; i < WORLDS; i++) {
                        bool faster = i % 2;
                        enum capo_trial_verdict v = judged(faster ? -0.15 : 0.15, 1 + i % 4);

                        wrong += v == (faster ? CAPO_TRIAL_NO_GAIN : CAPO_TRIAL_FASTER);
                        open += v == CAPO_TRIAL_OPEN;
                        neutral += judged(0, 1 + i % 4) == CAPO_TRIAL_FASTER;
                }
        }
        cr_expect_leq(wrong + open, 2 * WORLDS / 100, "%d wrong, %d open of %d", wrong, open,
                      2 * WORLDS);
        cr_expect_leq(neutral, 2 * WORLDS / 100, "%d neutral rows were taken", neutral);
}

/* A job in which the row lost and one in which it won by as much decide nothing, and times of jobs
 * are never compared with each other. */
Test(fit_trial, jobs_that_disagree_leave_it_open)
{
        struct capo_trial_found v[2] = {
                {.n_jobs = 1, .n_own = 500, .n_row = 20, .own_us = 100, .se = 0.01, .change = -0.4},
                {.n_jobs = 1,
                 .n_own = 500,
                 .n_row = 20,
                 .own_us = 3000,
                 .se = 0.01,
                 .change = 0.4}};

        cr_assert_eq(capo_trial_pool(v, 2), 1);
        cr_expect_eq(v[0].verdict, CAPO_TRIAL_OPEN);
        cr_expect(v[0].gain_lo < 0 && v[0].gain_hi > 0);
}
