/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of a sweep: equal on all ranks, fair, and never where NCCL says no. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tuner/sweep_plan.h"
#include "tests/unit/comma.h"
#include "tests/log_numbers.h"

static struct capo_sweep_plan plan;
static char why[128];

/* All-reduce on one node as NCCL has it: Tree and Ring with three protocols, NVLS Simple; the rest
 * -1. */
static const float table[7 * 3] = {20, 25, 60, 18, 22, 40, -1, -1, -1, -1, -1,
                                   -1, -1, -1, 30, -1, -1, -1, -1, -1, -1};

static struct capo_sweep_ask ask(uint64_t uid, uint32_t seq, uint64_t bytes)
{
        return (struct capo_sweep_ask){.call = {.comm_uid = uid, .seq = seq},
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

/* Ranks of one job may run builds of different age: whose turn it is stays what it was. The numbers
 * are of another program of splitmix64's finalizer, which says what the paper's authors publish for
 * the seed 1234567. */
Test(sweep, whose_turn_it_is)
{
        static const struct {
                uint64_t uid;
                uint8_t coll;
                const char *rules; /* from call 100 on; 0: NCCL's own choice */
        } rows[] = {{1, CAPO_COLL_ALLREDUCE, "5326322204001534"},
                    {0x1234567890abcdef, CAPO_COLL_ALLREDUCE, "0013546130600144"},
                    {1, CAPO_COLL_ALLGATHER, "4031403265310252"},
                    {0x1234567890abcdef, CAPO_COLL_ALLGATHER, "6400630000620006"}};

        cr_assert_eq(capo_sweep_plan_parse("algos=tree+ring protos=ll+ll128+simple slower=0", &plan,
                                           why, sizeof why),
                     0);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                char rules[17] = "";

                for (uint32_t k = 0; k < 16; k++) {
                        struct capo_sweep_ask a = ask(rows[i].uid, 100 + k, 4096);

                        a.question.coll = rows[i].coll;
                        rules[k] = (char)('0' + capo_sweep_pick(&plan, &a).rule);
                }
                cr_expect_str_eq(rules, rows[i].rules);
        }
}

/* A cell that costs nothing is the cheapest, whatever stands behind it. */
Test(sweep, how_much_slower_than_nothing)
{
        float free_cell[7 * 3];
        unsigned tried = 0;

        memcpy(free_cell, table, sizeof free_cell);
        free_cell[1] = 0;
        cr_assert_eq(capo_sweep_plan_parse("slower=2", &plan, why, sizeof why), 0);
        for (uint32_t seq = 5; seq < 200; seq++) {
                struct capo_sweep_ask a = ask(3, seq, 4096);
                struct capo_choice c;

                a.table = free_cell;
                c = capo_sweep_pick(&plan, &a);
                cr_assert(!c.algo || (c.algo == CAPO_ALGO_TREE && c.proto == CAPO_PROTO_LL128),
                          "%d %d", c.algo, c.proto);
                tried += c.algo != 0;
        }
        cr_assert_gt(tried, 0);
        free_cell[0] = 1; /* the first of all cells is one like the others */
        free_cell[1] = 20;
        for (uint32_t seq = 5; seq < 200; seq++) {
                struct capo_sweep_ask a = ask(3, seq, 4096);
                struct capo_choice c;

                a.table = free_cell;
                c = capo_sweep_pick(&plan, &a);
                cr_assert(!c.algo || (c.algo == CAPO_ALGO_TREE && c.proto == CAPO_PROTO_LL));
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
                cr_assert(count[i] > 850 && count[i] < 1150,
                          "candidate %u had %u of about 1000 turns", i, count[i]);
        }
        cr_assert_eq(open, 7);
        cr_assert(count[0] > 1800 && count[0] < 2200,
                  "NCCL's own choice had %u of about 2000 turns", count[0]);
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
                capo_sweep_plan_parse(
                        "colls=allreduce sizes=1K-1M algos=ring protos=ll+simple channels=0+4 calls=50",
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

Test(sweep, what_nccl_thinks_hopeless_or_is_not_kept_is_not_tried)
{
        unsigned kept = 0, base = 0;

        cr_assert_eq(capo_sweep_plan_parse("slower=1.5 protos=ll+ll128 channels=0+4 "
                                           "keep=base:2+allreduce:20:5+8",
                                           &plan, why, sizeof why),
                     0);
        for (uint32_t seq = 5; seq < 3000; seq++) {
                struct capo_sweep_ask a = ask(3, seq, 1 << 20);
                struct capo_choice c = capo_sweep_pick(&plan, &a);

                cr_assert(c.rule == 0 || c.rule == 5 || c.rule == 8, "%u", c.rule);
                kept += c.rule != 0;
                if (c.algo)
                        cr_assert_leq(table[(c.algo - 1) * 3 + c.proto - 1], 1.5 * 18);
                a.question.bytes = 1 << 21; /* a class that is not named: the second of each pair */
                c = capo_sweep_pick(&plan, &a);
                cr_assert(c.rule % 2 == 0 && (!c.rule || c.channels == 4), "%u", c.rule);
                base += c.rule != 0;
        }
        cr_assert(kept > 1000 && base > 1000);
}

Test(sweep, bad_plans)
{
        static const char *const bad[] = {
                "algos=rings", "sizes=5", "sizes=9-1",           "channels=100", "calls=x",
                "nonsense",    "key=3",   "keep=allreduce:99:1", "keep=7",       "colls=send"};

        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                cr_assert_lt(capo_sweep_plan_parse(bad[i], &plan, why, sizeof why), 0, "%s",
                             bad[i]);
}

Test(sweep, plans_at_their_borders)
{
        static const struct {
                const char *text;
                unsigned n;
                uint64_t min, max, calls;
                double slower;
                unsigned colls;
        } rows[] = {
                {"", 21, 0, UINT64_MAX, 20000, 4, 31},
                {"  calls=7  slower=0 ", 21, 0, UINT64_MAX, 7, 0, 31},
                {"slower=1.25", 21, 0, UINT64_MAX, 20000, 1.25, 31},
                {"sizes=1K-1K", 21, 1024, 1024, 20000, 4, 31},
                {"sizes=0-max", 21, 0, UINT64_MAX, 20000, 4, 31},
                {"algos=ring protos=ll", 1, 0, UINT64_MAX, 20000, 4, 31},
                {"algos=ring+tree", 6, 0, UINT64_MAX, 20000, 4, 31},
                {"protos=ll+simple", 14, 0, UINT64_MAX, 20000, 4, 31},
                {"channels=0+64", 42, 0, UINT64_MAX, 20000, 4, 31},
                {"channels=0+1+2+3+4+5+6+7", 168, 0, UINT64_MAX, 20000, 4, 31},
                {"colls=allreduce", 21, 0, UINT64_MAX, 20000, 4, 1 << CAPO_COLL_ALLREDUCE},
                {"colls=broadcast+reduce", 21, 0, UINT64_MAX, 20000, 4,
                 1 << CAPO_COLL_BROADCAST | 1 << CAPO_COLL_REDUCE},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                cr_assert_eq(capo_sweep_plan_parse(rows[i].text, &plan, why, sizeof why), 0,
                             "%s: %s", rows[i].text, why);
                cr_expect_eq(plan.n, rows[i].n, "%s: %u", rows[i].text, plan.n);
                cr_expect(plan.min_bytes == rows[i].min && plan.max_bytes == rows[i].max, "%s",
                          rows[i].text);
                cr_expect(plan.calls == rows[i].calls && plan.slower == rows[i].slower, "%s",
                          rows[i].text);
                cr_expect_eq(plan.colls, rows[i].colls, "%s", rows[i].text);
        }
        cr_expect_eq(capo_sweep_plan_parse("algos=ring+pat protos=ll128+ll channels=3+0", &plan,
                                           why, sizeof why),
                     0);
        for (unsigned i = 0; i < 8; i++) {
                cr_expect_eq(plan.candidate[i].algo, i < 4 ? CAPO_ALGO_RING : CAPO_ALGO_PAT);
                cr_expect_eq(plan.candidate[i].proto, i / 2 % 2 ? CAPO_PROTO_LL : CAPO_PROTO_LL128);
                cr_expect_eq(plan.candidate[i].channels, i % 2 ? 0 : 3);
        }
}

Test(sweep, what_is_kept)
{
        static const struct {
                const char *text;
                int coll; /* -1: base */
                unsigned log2, id;
        } rows[] = {{"keep=allreduce:20:1", CAPO_COLL_ALLREDUCE, 20, 1},
                    {"keep=reduce:0:64", CAPO_COLL_REDUCE, 0, 64},
                    {"keep=reduce:63:65", CAPO_COLL_REDUCE, 63, 65},
                    {"keep=reduce:3:9+2048", CAPO_COLL_REDUCE, 3, 2048},
                    {"keep=base:3+reduce:3:9+allgather:4:8+5", CAPO_COLL_ALLGATHER, 4, 5},
                    {"keep=reduce:3:9+base:3+4", -1, 0, 4}};
        static const char *const bad[] = {
                "keep=reduce:64:1", "keep=reduce:3:0",  "keep=reduce:3:2049",
                "keep=reduce:3",    "keep=barrier:3:1", "keep=reduce:3:1+x",
                "keep=send:3:1",    "keep=base",        "keep=base:0"};

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                const struct capo_sweep_list *list = &plan.base;

                cr_assert_eq(capo_sweep_plan_parse(rows[i].text, &plan, why, sizeof why), 0, "%s",
                             why);
                if (rows[i].coll >= 0)
                        list = &plan.keep[rows[i].coll][rows[i].log2];
                cr_expect(list->any &&
                                  list->bit[(rows[i].id - 1) / 64] >> (rows[i].id - 1) % 64 & 1,
                          "%s", rows[i].text);
        }
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                cr_expect_lt(capo_sweep_plan_parse(bad[i], &plan, why, sizeof why), 0, "%s",
                             bad[i]);
}

Test(sweep, what_is_said_of_a_bad_plan)
{
        static const char *const rows[][2] = {
                {"calls=5 algos=tree+rings", "algos: \"rings\" is not known or out of range"},
                {"calls=5x", "calls: \"5x\" is not known or out of range"},
                {"slower=-1", "slower: \"-1\" is not known or out of range"},
                {"slower=nan", "slower: \"nan\" is not known or out of range"},
                {"slower=x", "slower: \"x\" is not known or out of range"},
                {"channels=65", "channels: \"65\" is not known or out of range"},
                {"channels=4x", "channels: \"4x\" is not known or out of range"},
                {"channels=1+2+3+4+5+6+7+8+9+10+11+12+13+14+15+16+17",
                 "channels: \"17\" is not known or out of range"},
                {"channels=1+2+3+4+5+6+7+8+9+10 chunks=16+32+48+64+80+96+112+128+144+160",
                 "expected at most 2048 candidates, found more"},
                {"protos=ll+ll+ll+ll+ll", "protos: \"ll\" is not known or out of range"},
                {"sizes=1K-1023", "sizes: \"1K-1023\" is not known or out of range"},
                {"sizes=00000000000000000000000000000001-2",
                 "sizes: \"00000000000000000000000000000001-2\" is not known or out of range"},
                {"key=3", "key: \"3\" is not known or out of range"},
                {"calls=5 calls", "expected key=value, found \"calls\""}};

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                cr_expect_eq(capo_sweep_plan_parse(rows[i][0], &plan, why, sizeof why), -22, "%s",
                             rows[i][0]);
                cr_expect_str_eq(why, rows[i][1]);
        }
        cr_expect_eq(
                capo_sweep_plan_parse("channels=1+2+3+4+5+6+7+8 chunks=16+32+48+64+80+96+112+128 "
                                      "algos=ring+tree protos=ll+ll+ll+ll",
                                      &plan, why, sizeof why),
                0);
        cr_expect_eq(plan.n, 512);
        cr_expect_eq(capo_sweep_plan_parse("sizes=0000000000000000000000000000001-2", &plan, why,
                                           sizeof why),
                     0);
}

/* Each limit alone: at it, and one beyond. Asked often enough that every candidate would have had a
 * turn. */
Test(sweep, borders_of_turns)
{
        static const struct {
                const char *text;
                uint64_t uid, bytes;
                uint32_t first, last; /* seq */
                unsigned coll;
                bool tried;
        } rows[] = {
                {"", 3, 4096, 5, 200, CAPO_COLL_ALLREDUCE, true},
                {"", 0, 4096, 5, 200, CAPO_COLL_ALLREDUCE, false},
                {"", 3, 4096, 1, 4, CAPO_COLL_ALLREDUCE, false},
                {"", 3, 0, 5, 200, CAPO_COLL_ALLREDUCE, false},
                {"", 3, 1, 5, 200, CAPO_COLL_ALLREDUCE, true},
                {"", 3, 4096, 5, 200, CAPO_NCCL_COLLS, false},
                {"calls=200", 3, 4096, 100, 200, CAPO_COLL_ALLREDUCE, true},
                {"calls=200", 3, 4096, 201, 300, CAPO_COLL_ALLREDUCE, false},
                {"sizes=8-16", 3, 8, 5, 200, CAPO_COLL_ALLREDUCE, true},
                {"sizes=8-16", 3, 16, 5, 200, CAPO_COLL_ALLREDUCE, true},
                {"sizes=8-16", 3, 7, 5, 200, CAPO_COLL_ALLREDUCE, false},
                {"sizes=8-16", 3, 17, 5, 200, CAPO_COLL_ALLREDUCE, false},
                {"colls=reduce", 3, 4096, 5, 200, CAPO_COLL_REDUCE, true},
                {"colls=reduce", 3, 4096, 5, 200, CAPO_COLL_ALLREDUCE, false},
                {"algos=pat", 3, 4096, 5, 200, CAPO_COLL_ALLREDUCE, false},
                {"algos=ring protos=ll", 3, 4096, 5, 200, CAPO_COLL_ALLREDUCE, true},
                {"algos=ring protos=ll keep=allreduce:12:2", 3, 4096, 5, 200, CAPO_COLL_ALLREDUCE,
                 false},
                {"algos=ring protos=ll keep=allreduce:12:2", 3, 4095, 5, 200, CAPO_COLL_ALLREDUCE,
                 true},
                {"algos=ring protos=ll keep=allreduce:12:2", 3, 8192, 5, 200, CAPO_COLL_ALLREDUCE,
                 true},
                {"algos=tree protos=simple slower=3.4", 3, 4096, 5, 200, CAPO_COLL_ALLREDUCE, true},
                {"algos=tree protos=simple slower=3.3", 3, 4096, 5, 200, CAPO_COLL_ALLREDUCE,
                 false},
                {"algos=ring protos=ll slower=1", 3, 4096, 5, 200, CAPO_COLL_ALLREDUCE, true},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                unsigned tried = 0;

                cr_assert_eq(capo_sweep_plan_parse(rows[i].text, &plan, why, sizeof why), 0);
                for (uint32_t seq = rows[i].first; seq <= rows[i].last; seq++) {
                        struct capo_sweep_ask a = ask(rows[i].uid, seq, rows[i].bytes);
                        struct capo_choice c;

                        a.question.coll = (uint8_t)rows[i].coll;
                        c = capo_sweep_pick(&plan, &a);
                        tried += c.algo != 0;
                        if (c.algo)
                                cr_expect(c.rule >= 1 && c.rule <= plan.n &&
                                          plan.candidate[c.rule - 1].algo == c.algo &&
                                          plan.candidate[c.rule - 1].proto == c.proto);
                }
                cr_expect_eq(tried > 0, rows[i].tried, "row %zu, \"%s\": %u", i, rows[i].text,
                             tried);
        }
        for (int n = 0; n < 3;
             n++) { /* a table with fewer algorithms and protocols than the plan */
                cr_assert_eq(capo_sweep_plan_parse("", &plan, why, sizeof why), 0);
                for (uint32_t seq = 5; seq < 200; seq++) {
                        struct capo_sweep_ask a = ask(3, seq, 4096);
                        struct capo_choice c;

                        a.n_algos = n;
                        a.n_protos = n;
                        c = capo_sweep_pick(&plan, &a);
                        cr_expect(c.algo <= n && c.proto <= n);
                }
        }
}

Test(sweep, rules_name_every_candidate)
{
        char text[16384];

        cr_assert_eq(
                capo_sweep_plan_parse("algos=ring protos=ll channels=0+8", &plan, why, sizeof why),
                0);
        capo_sweep_plan_rules(&plan, text, sizeof text);
        cr_assert_str_eq(
                text,
                "sweep\t2 candidates\ncandidate\t1\tRing\tLL\t0\ncandidate\t2\tRing\tLL\t8\n");
}

/* Chunks are candidates where NCCL asks for them, and nowhere else; which is whose is said. */
Test(sweep, chunks)
{
        char text[16384];

        cr_assert_eq(capo_sweep_plan_parse("algos=ring protos=simple channels=0+8 chunks=0+65536",
                                           &plan, why, sizeof why),
                     0);
        capo_sweep_plan_rules(&plan, text, sizeof text);
        cr_assert_str_eq(
                text,
                "sweep\t4 candidates\ncandidate\t1\tRing\tSimple\t0\ncandidate\t2\tRing\tSimple\t0\t65536\n"
                "candidate\t3\tRing\tSimple\t8\ncandidate\t4\tRing\tSimple\t8\t65536\n");
        for (int asks = 0; asks < 2; asks++) {
                unsigned tried = 0;

                for (uint32_t seq = 5; seq < 300; seq++) {
                        struct capo_sweep_ask a = ask(3, seq, 4096);
                        struct capo_choice c;

                        a.chunks = asks;
                        c = capo_sweep_pick(&plan, &a);
                        cr_expect_eq(c.chunk, c.rule ? plan.candidate[c.rule - 1].chunk : 0);
                        tried |= 1u << c.rule;
                }
                cr_expect_eq(tried, asks ? 31 : 1 + 2 + 8);
        }
        cr_expect_eq(capo_sweep_plan_parse("chunks=15", &plan, why, sizeof why), -EINVAL);
        cr_expect_eq(capo_sweep_plan_parse("chunks=65M", &plan, why, sizeof why), -EINVAL);
        cr_expect_eq(capo_sweep_plan_parse("chunks=0+16+64M", &plan, why, sizeof why), 0);
        cr_expect_eq(capo_sweep_plan_parse(
                             "chunks=1K+2K+3K+4K+5K+6K+7K+8K+9K+10K+11K+12K+13K+14K+15K+16K+17K",
                             &plan, why, sizeof why),
                     -EINVAL);
}

/* Into less room than it needs: what fits, ended, and the length of that. */
Test(sweep, rules_in_any_room)
{
        static char all[16384], text[16384];
        size_t whole;

        cr_assert_eq(capo_sweep_plan_parse("", &plan, why, sizeof why), 0);
        whole = capo_sweep_plan_rules(&plan, all, sizeof all);
        cr_assert_eq(whole, strlen(all));
        for (size_t room = whole + 3; room > whole - 60; room--) {
                size_t n;

                memset(text, 'x', sizeof text);
                n = capo_sweep_plan_rules(&plan, text, room);
                cr_expect(n < room && n <= whole && text[n] == 0 && strlen(text) == n, "%zu of %zu",
                          n, room);
                cr_expect(!strncmp(text, all, n), "%zu of %zu", n, room);
                cr_expect(room <= whole || n == whole, "%zu of %zu", n, room);
        }
}

Test(sweep, the_plan_does_not_depend_on_the_locale)
{
        comma_locale();
        cr_assert_eq(capo_sweep_plan_parse("slower=1.25 sizes=1.5K-2.5M", &plan, why, sizeof why),
                     0, "%s", why);
        cr_expect(plan.slower == 1.25 && plan.min_bytes == 1536 && plan.max_bytes == 2621440);
}
