/* SPDX-License-Identifier: Apache-2.0 */
/* The decision by itself: a communicator put together by hand, cost tables with numbers at their
 * borders. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "tuner/choose.h"
#include "tuner/process.h"
#include "tests/log_numbers.h"

enum { TREE, RING, N_ALGOS = 7, N_PROTOS = 3, LL = 0, LL128 = 1, SIMPLE = 2 };

static uint16_t decided;
static int n_decided;

static void decide(uint16_t rule)
{
        decided = rule;
        n_decided++;
}

/* A communicator of 8 ranks on 2 nodes that every question is considered for. */
static struct capo_tuner tuner(const char *text)
{
        static const struct capo_shape shape = {
                .n_ranks = 8, .n_nodes = 2, .min_local = 4, .max_local = 4};
        struct capo_tuner t = {.decided = decide, .n_ranks = 8, .n_nodes = 2};
        struct capo_profile *p;
        struct capo_fault fault;
        struct capo_tables *tables;

        cr_assert_eq(capo_profile_parse(text, strlen(text), "t", &p, &fault), 0, "%s", fault.text);
        cr_assert_eq(capo_tables_new(p, &shape, &tables), 0);
        t.tables = tables;
        return t;
}

static void fill(float *table, float with)
{
        for (int i = 0; i < N_ALGOS * N_PROTOS; i++)
                table[i] = with;
}

/* The rule that decided, 0 none. */
static unsigned ask(const struct capo_tuner *t, size_t bytes, float *table, int n_algos,
                    int n_protos)
{
        int channels = 0;

        decided = 0;
        cr_assert_eq(capo_mark_considered(t, CAPO_COLL_ALLREDUCE, bytes, 1, table, n_algos,
                                          n_protos, 0, &channels),
                     0);
        return decided;
}

#define TO_TREE "\"allreduce\": [{\"upto\": \"max\", \"algo\": \"tree\", \"proto\": \"ll\"}]"

Test(choose, the_link_is_read_from_the_ring)
{
        static const struct {
                float ll128, simple;
                unsigned rule;
        } rows[] = {{5, 5, 1},     {0, 5, 1},  {0.5f, -1, 1}, {-1, 5, 2},
                    {-1, 0.5f, 2}, {-1, 0, 2}, {-1, -1, 0}};
        struct capo_tuner t = tuner(
                "{\"capo_profile\": 1, \"rules\": [{\"when\": {\"link\": \"nvlink\"}, " TO_TREE
                "}, {\"when\": {\"link\": \"other\"}, " TO_TREE "}]}");

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                float table[N_ALGOS * N_PROTOS];

                fill(table, 9);
                table[RING * N_PROTOS + LL128] = rows[i].ll128;
                table[RING * N_PROTOS + SIMPLE] = rows[i].simple;
                cr_expect_eq(ask(&t, 8, table, N_ALGOS, N_PROTOS), rows[i].rule, "row %zu", i);
        }
        for (int n_algos = 1; n_algos <= 2;
             n_algos++) { /* the ring must be in the table, with its three protocols */
                for (int n_protos = 1; n_protos <= 3; n_protos++) {
                        float table[N_ALGOS * N_PROTOS];

                        fill(table, 9);
                        cr_expect_eq(ask(&t, 8, table, n_algos, n_protos),
                                     n_algos == 2 && n_protos == 3);
                }
        }
}

/* All-reduce moves 2 x 7/8 of its bytes: 64 MiB in 11744 us is 10 GB/s. */
Test(choose, bandwidths_are_read_from_large_questions)
{
        static const struct {
                const char *of;
                int algo;
        } rows[] = {{"ring", RING}, {"tree", TREE}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                char text[300];
                struct capo_tuner t;
                float table[N_ALGOS * N_PROTOS], *cell = &table[rows[i].algo * N_PROTOS + SIMPLE];

                snprintf(
                        text, sizeof text,
                        "{\"capo_profile\": 1, \"rules\": [{\"when\": {\"%s_gbs\": \"9.99-10.01\"}, " TO_TREE
                        "}]}",
                        rows[i].of);
                t = tuner(text);
                fill(table, 9);
                *cell = 11744;
                cr_expect_eq(ask(&t, 64 << 20, table, N_ALGOS, N_PROTOS), 1, "%s", rows[i].of);
                fill(table, 9);
                cr_expect_eq(ask(&t, 64 << 20, table, N_ALGOS, N_PROTOS), 0, "%s", rows[i].of);
                fill(table, 9);
                *cell = (float)(2. * 7 / 8 * CAPO_GBS_MIN_BYTES /
                                1e4); /* 10 GB/s at the smallest size that tells */
                cr_expect_eq(ask(&t, CAPO_GBS_MIN_BYTES, table, N_ALGOS, N_PROTOS), 1, "%s",
                             rows[i].of);
                cr_expect_eq(ask(&t, CAPO_GBS_MIN_BYTES - 1, table, N_ALGOS, N_PROTOS), 0, "%s",
                             rows[i].of);
                *cell = 0;
                cr_expect_eq(ask(&t, 64 << 20, table, N_ALGOS, N_PROTOS), 0, "%s", rows[i].of);
                *cell = -1;
                cr_expect_eq(ask(&t, 64 << 20, table, N_ALGOS, N_PROTOS), 0, "%s", rows[i].of);
        }
}

Test(choose, a_mark_where_the_cell_is_there_and_before_all_else)
{
        static const struct {
                float cell;
                bool marked;
        } rows[] = {{7, true},        {0.25f, true}, {0, true},       {FLT_MAX, true},
                    {INFINITY, true}, {-1, false},   {-0.25f, false}, {NAN, false}};
        struct capo_tuner t = tuner(
                "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"allreduce\": [{\"upto\": 100, "
                "\"algo\": \"ring\", \"proto\": \"ll128\", \"channels\": 3}, {\"upto\": 200, "
                "\"algo\": \"pat\", \"proto\": \"simple\"}, {\"upto\": \"max\", \"leave\": "
                "true}]}]}");

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const int at = RING * N_PROTOS + LL128;
                float table[N_ALGOS * N_PROTOS], before[N_ALGOS * N_PROTOS];
                int channels = 0;

                fill(table, 9);
                table[1] = table[at - 1] = table[at + 1] = 0; /* two before it, one behind it */
                table[2] = -1;
                table[at] = rows[i].cell;
                memcpy(before, table, sizeof table);
                n_decided = 0;
                cr_expect_eq(capo_mark_considered(&t, CAPO_COLL_ALLREDUCE, 100, 1, table, N_ALGOS,
                                                  N_PROTOS, 0, &channels),
                             0);
                if (rows[i].marked) {
                        before[1] = before[at - 1] = FLT_MIN;
                        before[at] = 0;
                }
                cr_expect(!memcmp(before, table, sizeof table), "row %zu", i);
                cr_expect_eq(channels, rows[i].marked ? 3 : 0, "row %zu", i);
                cr_expect_eq(n_decided, rows[i].marked, "row %zu", i);
        }
        for (int n_algos = 6; n_algos <= 7; n_algos++) { /* PAT is the seventh */
                float table[N_ALGOS * N_PROTOS];

                fill(table, 9);
                cr_expect_eq(ask(&t, 200, table, n_algos, N_PROTOS), n_algos == 7 ? 2 : 0);
                cr_expect_eq(table[6 * N_PROTOS + SIMPLE], n_algos == 7 ? 0 : 9);
                fill(table, 9);
                cr_expect_eq(ask(&t, 200, table, n_algos, 2), 0,
                             "two protocols, and Simple is the third");
        }
        for (int quiet = 0; quiet < 2; quiet++) { /* no recorder to tell, no channels in the row */
                float table[N_ALGOS * N_PROTOS];
                int channels = 5;

                fill(table, 9);
                t.decided = quiet ? NULL : decide;
                n_decided = 0;
                capo_mark_considered(&t, CAPO_COLL_ALLREDUCE, 200, 1, table, N_ALGOS, N_PROTOS, 0,
                                     &channels);
                cr_expect(channels == 5 && table[6 * N_PROTOS + SIMPLE] == 0 &&
                          n_decided == !quiet);
        }
}

/* By name only what is safe on any machine, and nothing where the user has variables of NCCL's. */
Test(choose, what_may_be_named)
{
        static const struct {
                uint8_t algo, proto;
                int func, nodes, nvls;
                bool safe;
        } rows[] = {
                {CAPO_ALGO_RING, CAPO_PROTO_LL, CAPO_COLL_REDUCE, 2, 0, true},
                {CAPO_ALGO_RING, CAPO_PROTO_SIMPLE, CAPO_COLL_ALLREDUCE, 2, 0, true},
                {CAPO_ALGO_RING, CAPO_PROTO_LL128, CAPO_COLL_ALLREDUCE, 2, 1, false},
                {CAPO_ALGO_TREE, CAPO_PROTO_LL, CAPO_COLL_ALLREDUCE, 2, 0, true},
                {CAPO_ALGO_TREE, CAPO_PROTO_LL128, CAPO_COLL_ALLREDUCE, 2, 1, false},
                {CAPO_ALGO_TREE, CAPO_PROTO_LL, CAPO_COLL_REDUCE, 2, 1, false},
                {CAPO_ALGO_NVLS, CAPO_PROTO_SIMPLE, CAPO_COLL_ALLREDUCE, 2, 1, true},
                {CAPO_ALGO_NVLS, CAPO_PROTO_SIMPLE, CAPO_COLL_ALLREDUCE, 2, 0, false},
                {CAPO_ALGO_NVLS, CAPO_PROTO_LL, CAPO_COLL_ALLREDUCE, 2, 1, false},
                {CAPO_ALGO_NVLS, CAPO_PROTO_SIMPLE, CAPO_COLL_ALLGATHER, 1, 1, true},
                {CAPO_ALGO_NVLS, CAPO_PROTO_SIMPLE, CAPO_COLL_REDUCESCATTER, 1, 1, true},
                {CAPO_ALGO_NVLS, CAPO_PROTO_SIMPLE, CAPO_COLL_ALLGATHER, 2, 1, false},
                {CAPO_ALGO_NVLS, CAPO_PROTO_SIMPLE, CAPO_COLL_BROADCAST, 1, 1, false},
                {CAPO_ALGO_NVLS_TREE, CAPO_PROTO_SIMPLE, CAPO_COLL_ALLREDUCE, 2, 1, true},
                {CAPO_ALGO_NVLS_TREE, CAPO_PROTO_SIMPLE, CAPO_COLL_ALLREDUCE, 1, 1, false},
                {CAPO_ALGO_NVLS_TREE, CAPO_PROTO_SIMPLE, CAPO_COLL_ALLGATHER, 2, 1, false},
                {CAPO_ALGO_PAT, CAPO_PROTO_SIMPLE, CAPO_COLL_ALLREDUCE, 2, 1, false},
                {CAPO_ALGO_COLLNET_CHAIN, CAPO_PROTO_SIMPLE, CAPO_COLL_ALLREDUCE, 2, 1, false},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const struct capo_tuner t = {.n_nodes = rows[i].nodes};
                const struct capo_choice c = {.algo = rows[i].algo, .proto = rows[i].proto};

                cr_expect_eq(capo_tuner_safe(&t, rows[i].func, c, rows[i].nvls), rows[i].safe,
                             "row %zu", i);
        }
}

Test(choose, naming_gives_all_or_nothing)
{
        struct capo_tuner t = tuner(
                "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"allreduce\": [{\"upto\": 100, "
                "\"algo\": \"ring\", \"proto\": \"ll\", \"channels\": 3}, {\"upto\": 200, "
                "\"algo\": \"tree\", \"proto\": \"simple\"}, {\"upto\": 300, \"algo\": \"ring\", "
                "\"proto\": \"ll128\"}, {\"upto\": \"max\", \"leave\": true}]}]}");

        for (int blocked = 0; blocked < 2; blocked++) {
                static const struct {
                        size_t bytes;
                        int algo, proto, channels;
                } rows[] = {{100, RING, LL, 3},
                            {200, TREE, SIMPLE, -7},
                            {300, -7, -7, -7},
                            {301, -7, -7, -7}};

                capo_process.direct_blocked = blocked;
                for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                        int algo = -7, proto = -7, channels = -7;

                        n_decided = 0;
                        cr_expect_eq(capo_name_considered(&t, CAPO_COLL_ALLREDUCE, rows[i].bytes, 0,
                                                          0, 1, &algo, &proto, &channels),
                                     0);
                        cr_expect_eq(algo, blocked ? -7 : rows[i].algo, "row %zu", i);
                        cr_expect_eq(proto, blocked ? -7 : rows[i].proto, "row %zu", i);
                        cr_expect_eq(channels, blocked ? -7 : rows[i].channels, "row %zu", i);
                        cr_expect_eq(n_decided, !blocked && rows[i].algo >= 0, "row %zu", i);
                }
        }
        capo_process.direct_blocked = false;
}
