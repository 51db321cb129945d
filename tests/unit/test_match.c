/* SPDX-License-Identifier: Apache-2.0 */
/* Which rule wins, and that the flat tables answer as the rows say. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/layout.h"
#include "core/profile/profile_file.h"
#include "core/profile/profile_table.h"
#include "core/base/util.h"
#include "tests/log_numbers.h"

static struct capo_profile *parse(const char *text)
{
        struct capo_profile *p = NULL;
        struct capo_fault fault;

        cr_assert_eq(capo_profile_parse(text, strlen(text), "t", &p, &fault), 0, "%s", fault.text);
        return p;
}

/* From least to most specific; each `when` holds for `job`. */
static const char *const ladder[] = {
        "",
        "\"reg_buff\": true",
        "\"pipe_ops\": \"1-\"",
        "\"pipe_ops\": \"1-4\"",
        "\"pipe_ops\": 1",
        "\"nccl\": \"2.2-2.30\"",
        "\"nccl\": \"2.28\"",
        "\"nccl\": \"2.28.9\"",
        "\"tree_gbs\": 1",
        "\"ring_gbs\": \"1-9\"",
        "\"link\": \"nvlink\"",
        "\"max_local\": \"2-6\"",
        "\"max_local\": 5",
        "\"min_local\": \"2-6\"",
        "\"min_local\": 3",
        "\"nodes\": \"2-4\"",
        "\"nodes\": 2",
        "\"ranks\": \"8-\"",
        "\"ranks\": \"8-16\"",
        "\"ranks\": \"8-9\"",
        "\"ranks\": 8",
        "\"layout\": \"uneven\"",
        "\"layout\": \"5+3\"",
        "\"class\": \"dgx1v/3-chain\"",
        "\"comm\": \"dp*\"",
        "\"comm\": \"dp*\", \"layout\": \"3+5\", \"nodes\": 2",
};
static const struct capo_shape job = {.n_ranks = 8,
                                      .n_nodes = 2,
                                      .min_local = 3,
                                      .max_local = 5,
                                      .nccl = 22809,
                                      .allow_modelled = true,
                                      .layout = "3+5",
                                      .class_name = "dgx1v/3-chain",
                                      .comm = "dp_1"};

Test(match, specificity_is_the_documented_order)
{
        char text[4096] = "{\"capo_profile\": 1, \"rules\": [";
        uint32_t *order;
        struct capo_profile *p;

        for (size_t i = 0; i < N_ELEMENTS(ladder); i++)
                sprintf(text + strlen(text), "%s{\"when\": {%s}}", i ? ", " : "", ladder[i]);
        strcat(text, "]}");
        p = parse(text);
        cr_assert_eq(capo_match(p, &job, &order), (int)N_ELEMENTS(ladder));
        for (uint32_t i = 0; i < N_ELEMENTS(ladder); i++)
                cr_expect_eq(order[i], N_ELEMENTS(ladder) - 1 - i, "place %u: {%s}", i,
                             ladder[order[i]]);
        free(order);
        capo_profile_free(p);
}

Test(match, measured_before_modelled_then_file_order)
{
        struct capo_profile *p = parse(
                "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"basis\": \"modelled\"}, {\"when\": {}},"
                "{\"when\": {}}]}");
        uint32_t *order;
        const char *why;

        cr_assert_eq(capo_match(p, &job, &order), 3);
        cr_expect(order[0] == 1 && order[1] == 2 && order[2] == 0);
        cr_expect_lt(capo_rule_compare(p, 1, 0, &why), 0);
        cr_expect_str_eq(why, "basis");
        cr_expect_lt(capo_rule_compare(p, 1, 2, &why), 0);
        cr_expect_str_eq(why, "place in the file");
        free(order);
        capo_profile_free(p);
}

/* One that is not allowed gives way to what would have ruled without it: rows and constants. */
Test(match, modelled_only_where_allowed)
{
        struct capo_profile *p = parse(
                "{\"capo_profile\": 1, \"rules\": [{\"when\": {\"layout\": \"3+5\"}, \"basis\": \"modelled\","
                "\"constants\": [{\"table\": \"tree_bw\", \"gpu\": \"volta\", \"scale\": 2, \"value\": 9}],"
                "\"allreduce\": [{\"upto\": \"max\", \"algo\": \"tree\", \"proto\": \"ll\"}]},"
                "{\"when\": {}, \"allreduce\": [{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"ll\"}]}]}");

        for (int allowed = 0; allowed < 2; allowed++) {
                struct capo_shape s = job;
                struct capo_question q = {.coll = CAPO_COLL_ALLREDUCE, .bytes = 8};
                struct capo_tables *t;
                const char *why = "";

                s.allow_modelled = allowed;
                cr_assert_eq(capo_tables_new(p, &s, &t), 0);
                cr_expect_eq(capo_tables_find(t, &q).algo,
                             allowed ? CAPO_ALGO_TREE : CAPO_ALGO_RING);
                cr_expect_eq(t->constants != NULL, allowed);
                cr_expect_eq(t->first, &p->rules[!allowed]);
                cr_expect_eq(capo_rule_settled(&p->rules[0], &s, &why), allowed);
                cr_expect_eq(why && strstr(why, "not allowed"), !allowed);
                s.layout = "4+4";
                cr_expect_not(capo_rule_settled(&p->rules[0], &s, &why));
                cr_expect_str_eq(why, "layout", "the condition is named first");
                capo_tables_free(t);
        }
        cr_expect_eq(capo_profile_modelled(p), 1);
        capo_profile_free(p);
}

Test(match, conditions)
{
        static const struct {
                const char *when;
                bool holds;
                struct capo_shape shape;
        } rows[] = {
                {"\"nodes\": 2", true, {.n_nodes = 2}},
                {"\"nodes\": \"3-\"", false, {.n_nodes = 2}},
                {"\"nodes\": \"-3\"", true, {.n_nodes = 2}},
                {"\"layout\": \"3+5\"",
                 false,
                 {.n_nodes = 2, .n_ranks = 8, .min_local = -1, .max_local = -1}},
                {"\"layout\": \"even\"", true, {.min_local = 4, .max_local = 4}},
                {"\"layout\": \"even\"", false, {.min_local = 3, .max_local = 5}},
                {"\"layout\": \"min<max\"", true, {.min_local = 3, .max_local = 5}},
                {"\"layout\": \"uneven\"", false, {.min_local = -1, .max_local = -1}},
                {"\"layout\": \"8+4+8\"", true, {.layout = "8+4+8"}},
                {"\"layout\": \"8+4+8\"", false, {.layout = "4+8+8"}},
                {"\"layout\": \"5+3\"", true, {.layout = "3+5"}},
                /* a communicator whose order is not known: only what holds in every order */
                {"\"layout\": \"4+8+8\"", false, {.layout = "4+8+8 in any order"}},
                {"\"layout\": \"8+4+8 in any order\"", true, {.layout = "4+8+8 in any order"}},
                {"\"layout\": \"8+4+8 in any order\"", true, {.layout = "8+8+4"}},
                {"\"layout\": \"8+4+8 in any order\"", false, {.layout = "4+4+8"}},
                {"\"trays\": \"3+1+2\"", true, {.n_nodes = 1, .n_ranks = 6, .trays = "3+1+2"}},
                {"\"trays\": \"3+1+2\"", false, {.n_nodes = 1, .n_ranks = 6, .trays = "1+2+3"}},
                {"\"trays\": \"3+1+2 in any order\"", true, {.n_nodes = 1, .trays = "1+2+3"}},
                {"\"trays\": \"3+3\"", false, {.n_nodes = 1, .n_ranks = 6, .trays = "1+2+3"}},
                {"\"trays\": \"even\"", true, {.trays = "3x4"}},
                {"\"trays\": \"uneven\"", true, {.trays = "1+2+3"}},
                {"\"trays\": \"even\"", false, {.n_nodes = 1, .layout = "6"}},
                {"\"min_local\": \"1-\"", false, {.min_local = -1}},
                {"\"nccl\": \"2.28\"", true, {.nccl = 22899}},
                {"\"nccl\": \"2.28\"", false, {.nccl = 22900}},
                {"\"nccl\": \"2.28.3\"", true, {.nccl = 22803}},
                {"\"nccl\": \"2.28-2.30\"", true, {.nccl = 23007}},
                {"\"nccl\": \"2.28-2.30\"", false, {.nccl = 23100}},
                {"\"nccl\": \"-2.30\"", false, {.nccl = 0}},
                {"\"comm\": \"dp*\"", false, {.comm = NULL}},
                {"\"comm\": \"dp?\"", false, {.comm = "dp"}},
                {"\"class\": \"a\"", false, {.class_name = "b"}},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                char text[300];
                struct capo_profile *p;

                snprintf(text, sizeof text, "{\"capo_profile\": 1, \"rules\": [{\"when\": {%s}}]}",
                         rows[i].when);
                p = parse(text);
                cr_expect_eq(capo_when_settled(&p->rules[0].when, &rows[i].shape, NULL),
                             rows[i].holds, "row %zu: %s", i, rows[i].when);
                capo_profile_free(p);
        }
}

/* The rule that misses fewest conditions is named, not the first. */
Test(match, the_nearest_rule)
{
        struct capo_profile *p = parse(
                "{\"capo_profile\": 1, \"rules\": [{\"when\": {\"ranks\": 16, \"nodes\": 4, \"nccl\": \"2.28\"}},"
                "{\"when\": {\"ranks\": 8, \"nodes\": 2, \"nccl\": \"2.28\"}}]}");
        struct capo_shape s = {.n_ranks = 8, .n_nodes = 2, .nccl = 23007};
        char text[CAPO_NEAREST_TEXT];

        cr_expect_str_eq(capo_match_nearest(p, &s, text, sizeof text),
                         "nccl; the nearest rule is for nodes=2 ranks=8 nccl=2.28");
        s.nccl = 22809;
        cr_expect_str_eq(capo_match_nearest(p, &s, text, sizeof text), "", "a rule holds");
        s.n_ranks = 6;
        s.nccl = 23007;
        cr_expect(strstr(capo_match_nearest(p, &s, text, sizeof text), "ranks, nccl; the nearest"),
                  "%s", text);
        p->rules[1].basis = CAPO_BASIS_MODELLED;
        s = (struct capo_shape){.n_ranks = 8, .n_nodes = 2, .nccl = 22809};
        cr_expect(strstr(capo_match_nearest(p, &s, text, sizeof text), "not allowed"), "%s", text);
        capo_profile_free(p);
}

Test(match, what_follows_from_the_numbers)
{
        static const struct {
                struct capo_shape in;
                const char *launcher, *layout;
                int min, max;
        } rows[] = {
                {{.n_ranks = 8, .n_nodes = 1, .min_local = -1, .max_local = -1}, NULL, "8", 8, 8},
                {{.n_ranks = 2, .n_nodes = 2, .min_local = -1, .max_local = -1}, NULL, "1+1", 1, 1},
                {{.n_ranks = 8, .n_nodes = 2, .min_local = -1, .max_local = -1},
                 NULL,
                 NULL,
                 -1,
                 -1},
                {{.n_ranks = 8, .n_nodes = 2, .min_local = -1, .max_local = -1},
                 "3+5",
                 "3+5",
                 3,
                 5},
                {{.n_ranks = 8, .n_nodes = 2, .min_local = 4, .max_local = 4}, "3+5", "4+4", 4, 4},
                {{.n_ranks = 8, .n_nodes = 2, .min_local = 3, .max_local = 5}, NULL, "3+5", 3, 5},
                {{.n_ranks = 6, .n_nodes = 2, .min_local = -1, .max_local = -1},
                 "3+5",
                 NULL,
                 -1,
                 -1},
                {{.n_ranks = 24, .n_nodes = 4, .min_local = 3, .max_local = 8},
                 "3+5+8+8",
                 "3+5+8+8",
                 3,
                 8},
                {{.n_ranks = 24, .n_nodes = 4, .min_local = 3, .max_local = 8}, NULL, NULL, 3, 8},
                {{.n_ranks = 32, .n_nodes = 4, .min_local = 8, .max_local = 8},
                 "junk",
                 "4x8",
                 8,
                 8},
        };
        char text[CAPO_LAYOUT_TEXT];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_shape s = rows[i].in;

                capo_shape_fill(&s, rows[i].launcher, text, sizeof text, NULL);
                cr_expect(rows[i].layout ? s.layout && !strcmp(s.layout, rows[i].layout)
                                         : !s.layout,
                          "row %zu: %s", i, s.layout ? s.layout : "-");
                cr_expect_eq(s.min_local, rows[i].min, "row %zu", i);
                cr_expect_eq(s.max_local, rows[i].max, "row %zu", i);
        }
}

/* Of a launcher's hosts, where the communicator has all their ranks; NCCL may count them together,
 * but not more of them. */
Test(match, trays_of_the_launcher)
{
        static const struct {
                int ranks, nodes;
                const char *launcher, *trays;
        } rows[] = {
                {6, 1, "1+3+2", "1+3+2"}, {6, 3, "3+2+1", "3+2+1"}, {6, 4, "1+2+3", ""},
                {5, 1, "1+2+3", ""},      {6, 1, NULL, ""},         {6, 1, "junk", ""},
        };
        char text[CAPO_LAYOUT_TEXT];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_shape s = {.n_ranks = rows[i].ranks,
                                       .n_nodes = rows[i].nodes,
                                       .min_local = -1,
                                       .max_local = -1};

                capo_shape_fill(&s, rows[i].launcher, text, sizeof text, NULL);
                cr_expect_str_eq(s.trays, rows[i].trays, "row %zu", i);
        }
}

static uint64_t random64(void)
{
        static uint64_t x = 88172645463325252ull;

        x ^= x << 13;
        x ^= x >> 7;
        return x ^= x << 17;
}

/* Any list of boundaries, also absurdly crowded ones, against a walk over the rows. */
Test(match, look_up_is_the_walk)
{
        for (int round = 0; round < 60; round++) {
                struct capo_profile *p = capo_profile_new("t");
                unsigned n = round < 20 ? (unsigned)round : (unsigned)(random64() % 1500),
                         shift = (unsigned)(random64() % 60);
                uint64_t last = 0;
                struct capo_tables *t;
                struct capo_question q = {.coll = CAPO_COLL_REDUCE, .reg_buff = -1, .pipe_ops = 1};

                capo_profile_rule(p, CAPO_BASIS_MEASURED);
                for (unsigned i = 0; i < n; i++) {
                        uint64_t upto = last + 1 +
                                        (random64() >>
                                         (round % 3 ? 64 - 1 - (random64() % (shift + 1)) : 62));

                        if (upto < last || upto == UINT64_MAX)
                                break;
                        cr_assert_eq(
                                capo_profile_row(p, &(struct capo_row){.coll = CAPO_COLL_REDUCE,
                                                                       .algo = CAPO_ALGO_RING,
                                                                       .proto = CAPO_PROTO_LL,
                                                                       .upto = upto}),
                                0);
                        last = upto;
                }
                capo_profile_row(p,
                                 &(struct capo_row){.coll = CAPO_COLL_REDUCE, .upto = UINT64_MAX});
                cr_assert_eq(capo_tables_new(p, &job, &t), 0);
                for (uint32_t i = 0; i < p->n_rows; i++) {
                        for (int d = -1; d < 2; d++) {
                                uint32_t k = 0;

                                q.bytes = p->rows[i].upto + (uint64_t)d;
                                while (p->rows[k].upto < q.bytes)
                                        k++;
                                cr_assert_eq(capo_tables_find(t, &q).rule, k + 1,
                                             "round %d size %llu", round,
                                             (unsigned long long)q.bytes);
                        }
                }
                for (int i = 0; i < 2000; i++) {
                        uint32_t k = 0;

                        q.bytes = random64() >> (random64() & 63);
                        while (p->rows[k].upto < q.bytes)
                                k++;
                        cr_assert_eq(capo_tables_find(t, &q).rule, k + 1);
                }
                q.coll = CAPO_COLL_ALLREDUCE;
                cr_expect_eq(capo_tables_find(t, &q).rule, 0,
                             "no rows for this collective: no opinion");
                capo_tables_free(t);
                capo_profile_free(p);
        }
}

/* CSV: the first line that fits wins, whatever its conditions; compared with just that, line by
 * line. */
Test(match, csv_first_line_wins)
{
        for (int round = 0; round < 40; round++) {
                char text[16384];
                size_t used = 0;
                int n = 1 + (int)(random64() % 60);
                struct capo_profile *p;
                struct capo_tables *t;

                for (int i = 0; i < n; i++) {
                        static const char *const words[] = {"allreduce", "reduce", "allgather"};
                        uint64_t a = random64() >> (random64() & 63),
                                 b = random64() >> (random64() & 63);

                        used += (size_t)snprintf(
                                text + used, sizeof text - used,
                                "%s,%llu,%llu,ring,ll,%d,%d,%d,%d,%d\n", words[random64() % 3],
                                (unsigned long long)(a < b ? a : b),
                                (unsigned long long)(a < b ? b : a), 1 + i % 32,
                                random64() % 3 ? -1 : 2,
                                random64() % 4 ? -1 : (int)(random64() % 2 ? 8 : 9),
                                random64() % 2 ? -1 : (int)(1 + random64() % 3),
                                (int)(random64() % 3) - 1);
                }
                p = parse(text);
                cr_assert_eq(capo_tables_new(p, &job, &t), 0);
                for (int i = 0; i < 3000; i++) {
                        struct capo_question q = {.coll = (uint8_t)(random64() % CAPO_NCCL_COLLS),
                                                  .reg_buff = (int8_t)((int)(random64() % 3) - 1),
                                                  .pipe_ops = 1 + (int)(random64() % 4),
                                                  .bytes = random64() >> (random64() & 63)};
                        unsigned want = 0;

                        for (uint32_t r = 0; r < p->n_rules && !want; r++) {
                                const struct capo_rule *rule = &p->rules[r];

                                if (!capo_when_settled(&rule->when, &job, NULL) ||
                                    !capo_when_asked(&rule->when, &q))
                                        continue;
                                for (uint32_t k = 0; k < rule->count[q.coll] && !want; k++) {
                                        const struct capo_row *row =
                                                &p->rows[rule->first[q.coll] + k];

                                        if (q.bytes >= row->from && q.bytes <= row->upto)
                                                want = rule->first[q.coll] + k + 1;
                                }
                        }
                        cr_assert_eq(capo_tables_find(t, &q).rule, want, "%s", text);
                }
                capo_tables_free(t);
                capo_profile_free(p);
        }
}

/* Conditions that change from question to question choose between rules, for all sizes. */
Test(match, asked_conditions)
{
        struct capo_profile *p = parse(
                "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"allreduce\": [{\"upto\": \"max\", \"algo\": "
                "\"ring\", \"proto\": \"ll\"}]},"
                "{\"when\": {\"reg_buff\": true}, \"allreduce\": [{\"upto\": \"max\", \"leave\": true}]},"
                "{\"when\": {\"link\": \"other\", \"ring_gbs\": \"-12\"}, \"allreduce\": [{\"upto\": \"max\", "
                "\"algo\": \"tree\", \"proto\": \"ll\"}]}]}");
        struct capo_tables *t;
        struct capo_question q = {.coll = CAPO_COLL_ALLREDUCE,
                                  .reg_buff = 0,
                                  .pipe_ops = 1,
                                  .bytes = 1,
                                  .ring_gbs = -1,
                                  .tree_gbs = -1};

        cr_assert_eq(capo_tables_new(p, &job, &t), 0);
        cr_expect(t->asks && t->asks_links);
        cr_expect_eq(capo_tables_find(t, &q).rule, 1);
        q.reg_buff = 1;
        cr_expect_eq(capo_tables_find(t, &q).rule, 2);
        cr_expect_eq(capo_tables_find(t, &q).algo, 0);
        q.link = CAPO_LINK_OTHER;
        cr_expect_eq(capo_tables_find(t, &q).rule, 2,
                     "a bandwidth that is not known does not hold");
        q.ring_gbs = 10;
        cr_expect_eq(capo_tables_find(t, &q).rule, 3);
        q.ring_gbs = 13;
        cr_expect_eq(capo_tables_find(t, &q).rule, 2);
        capo_tables_free(t);
        capo_profile_free(p);
}

/* Channel counts that this NCCL would take unchecked are not given to it. */
Test(match, channels_nccl_does_not_check)
{
        struct capo_profile *p = parse(
                "allgather,0,max,ring,ll,48,-1,-1\nallreduce,0,9,nvls,simple,48,-1,-1\n"
                "allreduce,10,max,collnetchain,simple,48,-1,-1\nreduce,0,max,ring,ll,48,-1,-1");
        static const struct {
                int nccl, nodes, allgather, nvls, collnet, reduce;
        } rows[] = {{22809, 2, 48, 0, 0, 48},
                    {22902, 1, 0, 48, 0, 48},
                    {22403, 1, 32, 32, 0, 32},
                    {0, 1, 48, 48, 0, 48}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_shape s = job;
                struct capo_tables *t;
                struct capo_question q = {.coll = CAPO_COLL_ALLGATHER, .reg_buff = -1};

                s.nccl = rows[i].nccl;
                s.n_nodes = rows[i].nodes;
                cr_assert_eq(capo_tables_new(p, &s, &t), 0);
                cr_expect_eq(capo_tables_find(t, &q).channels, rows[i].allgather);
                q.coll = CAPO_COLL_ALLREDUCE;
                cr_expect_eq(capo_tables_find(t, &q).channels, rows[i].nvls);
                q.bytes = 10;
                cr_expect_eq(capo_tables_find(t, &q).channels, rows[i].collnet);
                q.coll = CAPO_COLL_REDUCE;
                cr_expect_eq(capo_tables_find(t, &q).channels, rows[i].reduce);
                capo_tables_free(t);
        }
        capo_profile_free(p);
}

/* Calls are turned by the rule that always holds, on releases that can, and where no rule with
 * conditions on the question comes before it. */
Test(match, turns)
{
#define TURNING(more)                                                                                                 \
        "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"allreduce\": ["                                           \
        "{\"upto\": 1024, \"leave\": true}, {\"upto\": \"1M\", \"algo\": \"ring\", \"proto\": \"ll\", \"ctas\": 4}, " \
        "{\"upto\": \"2M\", \"kernel\": \"Symk RSxLD_AGxST\", \"cluster\": 0, \"cta_policy\": \"zero\"}, "            \
        "{\"upto\": \"max\", \"algo\": \"tree\", \"proto\": \"ll\"}]}" more "]}"
        static const struct {
                int nccl;
                bool turned;
                const char *more;
        } rows[] = {
                {23102, true, ""},
                {23203, true, ""},
                {23007, false, ""},
                {0, false, ""},
                {23203, false,
                 ", {\"when\": {\"link\": \"nvlink\"}, \"allreduce\": [{\"upto\": \"max\", \"leave\": true}]}"},
                {23203, true,
                 ", {\"when\": {\"link\": \"nvlink\"}, \"reduce\": [{\"upto\": \"max\", \"leave\": true}]}"},
                {23203, true,
                 ", {\"when\": {\"ranks\": 99}, \"allreduce\": [{\"upto\": \"max\", \"leave\": true}]}"}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_shape s = job;
                struct capo_profile *p;
                const struct capo_turn *turn;
                struct capo_tables *t;
                char text[2048];

                snprintf(text, sizeof text, "%s%s]}", TURNING(""), "");
                snprintf(text + strlen(TURNING("")) - 2, sizeof text - strlen(TURNING("")), "%s]}",
                         rows[i].more);
                p = parse(text);
                cr_assert(p, "row %zu", i);
                cr_expect_eq(capo_profile_turned(p), 2);
                s.nccl = rows[i].nccl;
                cr_assert_eq(capo_tables_new(p, &s, &t), 0);
                cr_expect_eq(capo_tables_turns(t), rows[i].turned, "row %zu", i);
                cr_expect_null(capo_tables_turn(t, CAPO_COLL_ALLREDUCE, 0));
                cr_expect_null(capo_tables_turn(t, CAPO_COLL_ALLREDUCE, 1024));
                cr_expect_null(capo_tables_turn(t, CAPO_COLL_REDUCE, 4096));
                cr_expect_null(capo_tables_turn(t, CAPO_COLL_ALLREDUCE, (2 << 20) + 1));
                turn = capo_tables_turn(t, CAPO_COLL_ALLREDUCE, 1025);
                cr_assert_eq(turn != NULL, rows[i].turned, "row %zu", i);
                if (turn) {
                        cr_expect(!turn->selection && turn->ctas == 4 && !turn->cluster &&
                                  !turn->cta_policy);
                        cr_expect_eq(turn->rule, 2);
                        turn = capo_tables_turn(t, CAPO_COLL_ALLREDUCE, 2 << 20);
                        cr_assert(turn && turn->rule == 3 && !turn->ctas && turn->cluster == 1 &&
                                  turn->cta_policy == 2);
                        cr_expect_str_eq(turn->selection, "SYMK_RSxLD_AGxST");
                }
                capo_tables_free(t);
                capo_profile_free(p);
        }
}

Test(match, each_condition_on_the_question_is_asked)
{
        static const struct capo_range any = {-1, -1}, one = {1, 1};

        for (int i = 0; i < 7; i++) {
                const struct capo_when w = {.pipe_ops = i == 1 ? one : any,
                                            .ring_gbs = i == 2 ? one : any,
                                            .tree_gbs = i == 3 ? one : any,
                                            .link = i == 4 ? CAPO_LINK_OTHER : CAPO_LINK_ANY,
                                            .reg_buff = i == 5   ? 0
                                                        : i == 6 ? 1
                                                                 : -1};

                cr_expect_eq(capo_when_asks(&w), i > 0, "%d", i);
        }
}

/* Sizes a factor of two apart have buckets of their own: no answer but in absurd lists needs a
 * search. */
Test(match, boundaries_of_every_day_are_not_searched)
{
        struct capo_profile *p = capo_profile_new("t");
        struct capo_tables *t;

        capo_profile_rule(p, CAPO_BASIS_MEASURED);
        for (unsigned shift = 0; shift < 63; shift++) {
                for (int half = 0; half < 2; half++)
                        capo_profile_row(p, &(struct capo_row){.coll = CAPO_COLL_REDUCE,
                                                               .algo = CAPO_ALGO_RING,
                                                               .proto = CAPO_PROTO_LL,
                                                               .upto = (2ull + half) << shift});
        }
        capo_profile_row(p, &(struct capo_row){.coll = CAPO_COLL_REDUCE, .upto = UINT64_MAX});
        cr_assert_eq(capo_tables_new(p, &job, &t), 0);
        for (uint32_t i = 0; i < p->n_rows; i++)
                cr_expect_neq(capo_table_word(t->table[CAPO_COLL_REDUCE], p->rows[i].upto) & 255,
                              CAPO_CELL_CROWDED, "row %u", i);
        capo_tables_free(t);
        capo_profile_free(p);
}

Test(match, registration_yes_no_and_not_asked)
{
        static const struct {
                int8_t rule, asked;
                bool holds;
        } rows[] = {{-1, -1, true}, {-1, 0, true}, {-1, 1, true}, {0, 0, true},  {0, 1, false},
                    {0, -1, false}, {1, 1, true},  {1, 0, false}, {1, -1, false}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_when when = capo_when_any;
                struct capo_question q = {.reg_buff = rows[i].asked, .pipe_ops = 1};

                when.reg_buff = rows[i].rule;
                cr_expect_eq(capo_when_asked(&when, &q), rows[i].holds, "row %zu", i);
                cr_expect_eq(capo_when_asks(&when), rows[i].rule >= 0, "row %zu", i);
        }
}

/* A table for each number of operations that lines name: of 64 there can be tables, of more there
 * is an error. */
Test(match, more_numbers_of_operations_than_there_are_tables_for)
{
        for (int n = 64; n <= 65; n++) {
                char text[65 * 40];
                struct capo_profile *p;
                struct capo_tables *t = NULL;
                size_t used = 0;

                for (int i = 1; i <= n; i++)
                        used += (size_t)snprintf(text + used, sizeof text - used,
                                                 "reduce,0,%d,ring,ll,1,-1,-1,%d,-1\n", 10 * i, i);
                p = parse(text);
                cr_expect_eq(capo_tables_new(p, &job, &t), n == 64 ? 0 : -E2BIG, "%d", n);
                if (n == 64) {
                        for (int i = 1; i <= n; i++) {
                                struct capo_question q = {
                                        .coll = CAPO_COLL_REDUCE, .pipe_ops = i, .reg_buff = -1};

                                q.bytes = (uint64_t)(10 * i);
                                cr_expect_eq(capo_tables_find(t, &q).rule, i);
                                q.bytes++;
                                cr_expect_eq(capo_tables_find(t, &q).rule, 0);
                        }
                        capo_tables_free(t);
                }
                capo_profile_free(p);
        }
}

Test(match, a_star_stands_for_slashes_too)
{
        struct capo_when when = capo_when_any;
        struct capo_shape shape = job;

        when.comm = "dp*";
        shape.comm = "dp/first";
        cr_expect(capo_when_settled(&when, &shape, NULL));
        shape.comm = "d";
        cr_expect_not(capo_when_settled(&when, &shape, NULL));
}
