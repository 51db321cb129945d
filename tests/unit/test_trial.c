/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of trials: one call of each period, another in every communicator, and nothing but
 * what all ranks share decides. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tuner/trial.h"
#include "tests/log_numbers.h"

static char why[200];
static const struct capo_choice row = {
        .algo = CAPO_ALGO_TREE, .proto = CAPO_PROTO_SIMPLE, .rule = 1};
static float table[2][3] = {{9, -1, 5}, {8, -1, 4}};

static struct capo_trial plan(const char *text)
{
        struct capo_trial t;
        struct capo_profile *p = capo_profile_new("p");
        const struct capo_row made = {.upto = UINT64_MAX,
                                      .algo = CAPO_ALGO_TREE,
                                      .proto = CAPO_PROTO_SIMPLE,
                                      .coll = CAPO_COLL_ALLREDUCE};

        capo_profile_rule(p, CAPO_BASIS_MODELLED);
        cr_assert_eq(capo_profile_row(p, &made), 0);
        cr_assert_eq(capo_trial_parse(text, &t, why, sizeof why), 0, "%s", why);
        cr_assert_eq(capo_trial_rows(&t, p), 0);
        capo_profile_free(p);
        return t;
}

static struct capo_choice ask(const struct capo_trial *t, uint64_t comm, uint64_t nth)
{
        const struct capo_trial_ask a = {comm, nth, &table[0][0], 2, 3};

        return capo_trial_choose(t, &a, row);
}

Test(trial, one_call_of_each_period)
{
        struct capo_trial t = plan("predicted,period=100");
        unsigned places[100] = {0}, tried = 0;

        for (uint64_t uid = 1; uid <= 50; uid++) {
                for (uint32_t period = 1; period < 40; period++) {
                        unsigned n = 0;

                        for (uint32_t k = 0; k < 100; k++) {
                                bool turn = ask(&t, uid, 100 * period + k).algo != 0;

                                n += turn;
                                places[k] += turn;
                        }
                        cr_assert_eq(n, 1, "communicator %u, period %u", (unsigned)uid, period);
                }
        }
        for (int k = 0; k < 100; k++)
                tried += places[k] > 0;
        cr_expect_eq(tried, 100, "%u of 100 places are ever tried", tried);
        for (uint32_t seq = 0; seq <= 4; seq++)
                cr_expect_eq(ask(&t, 1, seq).algo, 0, "connections are set up in the first calls");
        free(t.predicted);
}

Test(trial, a_guard_is_the_other_way_round)
{
        struct capo_trial t = plan("guard,period=10"), p = plan("predicted,period=10");

        for (uint32_t seq = 0; seq < 1000; seq++)
                cr_assert_neq(ask(&t, 7, seq).algo == 0, ask(&p, 7, seq).algo == 0);
        free(t.predicted);
        free(p.predicted);
}

Test(trial, what_is_not_known_is_not_tried)
{
        struct capo_trial t = plan("predicted,period=1,calls=100"), g = plan("guard,period=1");
        const struct capo_trial_ask a = {3, 50, &table[0][0], 2, 3};
        struct capo_choice other = row;

        cr_expect_eq(ask(&t, 3, 50).algo, CAPO_ALGO_TREE);
        cr_expect_eq(ask(&t, 3, 101).algo, 0, "behind the last call");
        cr_expect_eq(ask(&t, 0, 50).algo, 0, "which communicator?");
        cr_expect_eq(ask(&t, 3, 0).algo, 0, "only simulated");
        cr_expect_eq(ask(&g, 3, 0).algo, CAPO_ALGO_TREE, "only simulated");
        other.rule = 2;
        cr_expect_eq(capo_trial_choose(&t, &a, other).algo, CAPO_ALGO_TREE, "not on trial");
        other.rule = UINT16_MAX;
        cr_expect_eq(capo_trial_choose(&t, &a, other).algo, 0, "which row?");
        table[0][2] = 8.1f; /* more than twice Ring's 4 */
        cr_expect_eq(ask(&t, 3, 50).algo, 0, "NCCL predicts it to be far slower");
        table[0][2] = -1;
        cr_expect_eq(ask(&t, 3, 50).algo, 0, "not available");
        free(t.predicted);
        free(g.predicted);
}

Test(trial, texts)
{
        static const char *const bad[] = {"x",
                                          "period=5",
                                          "predicted,period=0",
                                          "guard,-1",
                                          "guard,period=1e3",
                                          "guard,calls=",
                                          "predicted,period=99999999999999"};
        struct capo_trial t;

        cr_expect(capo_trial_parse("", &t, why, sizeof why) == 0 && t.mode == CAPO_TRIAL_OFF);
        cr_expect(capo_trial_parse("guard", &t, why, sizeof why) == 0 && t.period == 100);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                *why = 0;
                cr_expect_eq(capo_trial_parse(bad[i], &t, why, sizeof why), -EINVAL, "%s", bad[i]);
                cr_expect(strstr(why, "CAPO_TRIAL: expected"), "%s", why);
        }
}

/* "tune": a predicted row runs in its turns, a measured one in all others. */
Test(trial, tune_is_both)
{
        struct capo_profile *p = capo_profile_new("p");
        const struct capo_row made = {.upto = UINT64_MAX,
                                      .algo = CAPO_ALGO_TREE,
                                      .proto = CAPO_PROTO_SIMPLE,
                                      .coll = CAPO_COLL_ALLREDUCE};
        struct capo_choice measured = row;
        struct capo_trial t;
        unsigned n[2] = {0};

        measured.rule = 2;
        capo_profile_rule(p, CAPO_BASIS_MODELLED);
        cr_assert_eq(capo_profile_row(p, &made), 0);
        capo_profile_rule(p, CAPO_BASIS_MEASURED);
        cr_assert_eq(capo_profile_row(p, &made), 0);
        cr_assert_eq(capo_trial_parse("tune,period=10", &t, why, sizeof why), 0, "%s", why);
        cr_assert_eq(capo_trial_rows(&t, p), 0);
        for (uint64_t nth = 10; nth < 110; nth++) {
                const struct capo_trial_ask a = {7, nth, &table[0][0], 2, 3};

                n[0] += capo_trial_choose(&t, &a, row).algo != 0;
                n[1] += capo_trial_choose(&t, &a, measured).algo != 0;
        }
        cr_expect_eq(n[0], 10, "the predicted row ran in %u of 100", n[0]);
        cr_expect_eq(n[1], 90, "the measured row ran in %u of 100", n[1]);
        free(t.predicted);
        capo_profile_free(p);
}
