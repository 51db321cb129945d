/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of a sweep: equal on all ranks, fair, and never where NCCL says no. */
#include <criterion/criterion.h>

#include "capo/record.h"
#include "tuner/sweep_plan.h"

static struct capo_sweep_plan plan;
static char why[128];

/* All-reduce on one node as NCCL has it: Tree and Ring with three protocols, NVLS Simple; the rest -1. */
static const float table[7 * 3] = {20, 25, 60, 18, 22, 40, -1, -1, -1, -1, -1, -1, -1, -1, 30, -1, -1, -1, -1, -1, -1};

static struct capo_sweep_ask ask(uint64_t uid, uint32_t seq, uint64_t bytes)
{
        return (struct capo_sweep_ask){
                .call = {.comm_uid = uid, .seq = seq, .n_members = 1, .call = CAPO_CALL_ALLREDUCE},
                .question = {.coll = CAPO_COLL_ALLREDUCE, .bytes = bytes},
                .table = table,
                .n_algos = 7,
                .n_protos = 3,
                .n_ranks = 8,
                .n_nodes = 1};
}

Test(sweep, the_same_question_has_the_same_answer)
{
        cr_assert_eq(capo_sweep_plan_parse("calls=1000", &plan, why, sizeof why), 0);
        for (uint32_t seq = 1; seq < 2000; seq++) {
                struct capo_sweep_ask a = ask(77, seq, 4096), b = a;

                b.n_nodes = 9; /* nothing but what is shared decides */
                cr_assert_eq(capo_sweep_pick(&plan, &a).rule, capo_sweep_pick(&plan, &b).rule);
        }
}

Test(sweep, turns_are_fair_and_never_on_closed_cells)
{
        unsigned count[CAPO_SWEEP_CANDIDATES + 1] = {0}, open = 0;

        cr_assert_eq(capo_sweep_plan_parse("calls=100000 slower=0", &plan, why, sizeof why), 0);
        for (uint32_t seq = 5; seq < 9005; seq++) {
                struct capo_sweep_ask a = ask(4711, seq, 1 << 20);
                struct capo_choice c = capo_sweep_pick(&plan, &a);

                count[c.rule]++;
                if (c.algo)
                        cr_assert_geq(table[(c.algo - 1) * 3 + c.proto - 1], 0);
        }
        for (unsigned i = 1; i <= plan.n; i++) {
                if (!count[i])
                        continue;
                open++;
                cr_assert(count[i] > 850 && count[i] < 1150, "candidate %u had %u of about 1000 turns", i, count[i]);
        }
        cr_assert_eq(open, 7);
        cr_assert(count[0] > 1800 && count[0] < 2200, "NCCL's own choice had %u of about 2000 turns", count[0]);
}

/* A job that repeats the same four sizes: each size must see every candidate. */
Test(sweep, no_period_falls_in_step)
{
        cr_assert_eq(capo_sweep_plan_parse("slower=0", &plan, why, sizeof why), 0);
        for (unsigned phase = 0; phase < 9; phase++) {
                bool seen[CAPO_SWEEP_CANDIDATES + 1] = {false};
                unsigned n = 0;

                for (uint32_t seq = 9 + phase; seq < 2000; seq += 9) {
                        struct capo_sweep_ask a = ask(5, seq, 1 << 20);
                        uint16_t rule = capo_sweep_pick(&plan, &a).rule;

                        n += !seen[rule];
                        seen[rule] = true;
                }
                cr_assert_eq(n, 8, "phase %u sees %u of 8", phase, n);
        }
}

Test(sweep, limits)
{
        struct capo_sweep_ask a;

        cr_assert_eq(
                capo_sweep_plan_parse("colls=allreduce sizes=1K-1M algos=ring protos=ll+simple channels=0+4 calls=50",
                                      &plan, why, sizeof why),
                0);
        cr_assert_eq(plan.n, 4);
        for (uint32_t seq = 1; seq < 200; seq++) {
                a = ask(9, seq, 2048);
                if (seq <= 4 || seq > 50)
                        cr_assert_eq(capo_sweep_pick(&plan, &a).algo, 0);
                a.question.bytes = 2 << 20;
                cr_assert_eq(capo_sweep_pick(&plan, &a).algo, 0);
                a = ask(9, seq, 2048);
                a.question.coll = CAPO_COLL_ALLGATHER;
                cr_assert_eq(capo_sweep_pick(&plan, &a).algo, 0);
                a = ask(9, seq, 2048);
                a.table = NULL;
                cr_assert_eq(capo_sweep_pick(&plan, &a).algo, 0);
                a = ask(0, seq, 2048);
                cr_assert_eq(capo_sweep_pick(&plan, &a).algo, 0);
        }
}

Test(sweep, what_nccl_thinks_hopeless_or_was_dropped_is_not_tried)
{
        cr_assert_eq(capo_sweep_plan_parse("slower=1.5 drop=allreduce:20:1+4", &plan, why, sizeof why), 0);
        for (uint32_t seq = 5; seq < 3000; seq++) {
                struct capo_sweep_ask a = ask(3, seq, 1 << 20);
                struct capo_choice c = capo_sweep_pick(&plan, &a);

                cr_assert(c.rule != 1 && c.rule != 4);
                if (c.algo)
                        cr_assert_leq(table[(c.algo - 1) * 3 + c.proto - 1], 1.5 * 18);
        }
}

Test(sweep, bad_plans)
{
        static const char *const bad[] = {"algos=rings", "sizes=5",   "sizes=9-1", "channels=100",
                                          "calls=x",     "nonsense",  "key=3",     "drop=allreduce:99:1",
                                          "drop=7",      "colls=send"};

        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                cr_assert_lt(capo_sweep_plan_parse(bad[i], &plan, why, sizeof why), 0, "%s", bad[i]);
}

Test(sweep, rules_name_every_candidate)
{
        char text[16384];

        cr_assert_eq(capo_sweep_plan_parse("algos=ring protos=ll channels=0+8", &plan, why, sizeof why), 0);
        capo_sweep_plan_rules(&plan, text, sizeof text);
        cr_assert_str_eq(text, "sweep\t2 candidates\ncandidate\t1\tRing\tLL\t0\ncandidate\t2\tRing\tLL\t8\n");
}
