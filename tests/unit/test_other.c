/* SPDX-License-Identifier: Apache-2.0 */
/* Calling somebody else's tuner through the version it speaks. */
#include <criterion/criterion.h>
#include <string.h>

#include "tuner/other.h"
#include "tuner/plugin_versions.h"
#include "tests/log_numbers.h"

enum { TREE, RING, N_ALGOS = 7, N_PROTOS = 3, LL = 0, SIMPLE = 2 };

static struct {
        int calls, collnet, nvls, pipe_ops, reg, name_algo, name_proto, result;
        size_t ranks, nodes;
        uint64_t id;
} fake;
static int context;

static capo_nccl_result init2(size_t n_ranks, size_t n_nodes, capo_nccl_log log, void **out)
{
        fake.ranks = n_ranks;
        fake.nodes = n_nodes;
        *out = &context;
        return fake.result;
}

static capo_nccl_result get2(void *c, int func, size_t bytes, int collnet, int nvls, int pipe_ops,
                             int *algo, int *proto, int *channels)
{
        fake.calls += c == &context && func == 4 && bytes == 4096;
        fake.collnet = collnet;
        fake.nvls = nvls;
        fake.pipe_ops = pipe_ops;
        *algo = fake.name_algo;
        *proto = fake.name_proto;
        *channels = 5;
        return fake.result;
}

static capo_nccl_result get4(void *c, int func, size_t bytes, int pipe_ops, float **table,
                             int n_algos, int n_protos, int reg_buff, int *channels)
{
        fake.calls += c == &context && n_algos == N_ALGOS && n_protos == N_PROTOS;
        fake.reg = reg_buff;
        ((float *)table)[RING * N_PROTOS + SIMPLE] = 0;
        return fake.result;
}

static capo_nccl_result init5(void **out, uint64_t id, size_t n_ranks, size_t n_nodes,
                              capo_nccl_log log, struct capo_nvl_info *nvl,
                              struct capo_nccl_constants *constants)
{
        fake.id = id;
        fake.ranks = n_ranks;
        fake.nodes = (size_t)nvl->min_ranks;
        constants->tree_bw[0][0] = 3;
        *out = &context;
        return 0;
}

static capo_nccl_result destroy(void *c)
{
        fake.calls += c == &context ? 100 : 0;
        return 0;
}

static const struct capo_tuner_v2 v2 = {"theirs", init2, get2, destroy};
static const struct capo_tuner_v4 v4 = {"theirs", init2, get4, destroy};
static const struct capo_tuner_v6 v6 = {"theirs", init5, get4, destroy, NULL};

static void fill(float *table)
{
        for (int i = 0; i < N_ALGOS * N_PROTOS; i++)
                table[i] = -1;
        table[TREE * N_PROTOS + LL] = 7;
        table[RING * N_PROTOS + SIMPLE] = 9;
}

/* What stands in the two lists at a version's place is that version's, under the name that NCCL
 * looks for. */
Test(other, every_version_has_its_place)
{
        extern const struct capo_tuner_v2 ncclTunerPlugin_v2;
        extern const struct capo_tuner_v4 ncclTunerPlugin_v4;
        extern const struct capo_tuner_v5 ncclTunerPlugin_v5;
        extern const struct capo_profiler_v6 ncclProfiler_v6;

        for (int v = 1; v <= CAPO_TUNER_ABI_NEWEST; v++) {
                cr_expect_eq(capo_tuner_abis[v - 1]->version, v);
                cr_expect((capo_tuner_abis[v - 1]->name != NULL) == (v <= 2) &&
                          (capo_tuner_abis[v - 1]->mark != NULL) == (v > 2));
        }
        for (int v = 1; v <= CAPO_PROFILER_ABI_NEWEST; v++)
                cr_expect(capo_profiler_abis[v - 1]->version == v &&
                          capo_profiler_abis[v - 1]->events <= v);
        cr_expect_eq(capo_tuner_abis[1]->own, &ncclTunerPlugin_v2);
        cr_expect_eq(capo_tuner_abis[3]->own, &ncclTunerPlugin_v4);
        cr_expect_eq(capo_tuner_abis[4]->own, &ncclTunerPlugin_v5);
        cr_expect_eq(capo_profiler_abis[5]->own, &ncclProfiler_v6);
}

Test(other, none_is_never_asked)
{
        struct capo_other o = {0};
        struct capo_tuner_info info = {.n_ranks = 8};
        float table[N_ALGOS * N_PROTOS];
        int algo = -1, proto = -1, channels = 0;
        size_t chunk = 42;

        fill(table);
        cr_expect_eq(capo_other_open(&o, &info), 0);
        cr_expect_eq(capo_other_mark(&o, 4, 4096, 1, table, N_ALGOS, N_PROTOS, 0, &channels), 0);
        cr_expect_eq(capo_other_name(&o, 4, 4096, 0, 0, 1, &algo, &proto, &channels), 0);
        cr_expect_eq(capo_other_chunk(&o, 4, 4096, 1, 2, 3, &chunk), 0);
        cr_expect_eq(capo_other_close(&o), 0);
        cr_expect(algo == -1 && proto == -1 && channels == 0 && chunk == 42 && table[0] == 7);
}

Test(other, two_numbers_become_a_mark_where_the_cell_is_there)
{
        static const struct {
                int algo, proto;
                bool marked;
        } rows[] = {{TREE, LL, true}, {RING, SIMPLE, true}, {RING, LL, false},    {-1, 0, false},
                    {0, -1, false},   {N_ALGOS, 0, false},  {0, N_PROTOS, false}, {-1, -1, false}};
        struct capo_other o = {.abi = capo_tuner_abis[1], .plugin = &v2};
        struct capo_tuner_info info = {.n_ranks = 8, .n_nodes = 2};

        cr_assert_eq(capo_other_open(&o, &info), 0);
        cr_expect(fake.ranks == 8 && fake.nodes == 2);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                float table[N_ALGOS * N_PROTOS], before[N_ALGOS * N_PROTOS];
                int channels = 0;

                fill(table);
                fake.name_algo = rows[i].algo;
                fake.name_proto = rows[i].proto;
                memcpy(before, table, sizeof table);
                cr_expect_eq(
                        capo_other_mark(&o, 4, 4096, 3, table, N_ALGOS, N_PROTOS, 1, &channels), 0);
                cr_expect(fake.collnet == 0 && fake.nvls == 0 && fake.pipe_ops == 3 &&
                          channels == 5);
                if (rows[i].marked)
                        before[rows[i].algo * N_PROTOS + rows[i].proto] = 0;
                cr_expect(!memcmp(before, table, sizeof table), "row %zu", i);
        }
        cr_expect_eq(fake.calls, 8);
        fake.result = 5;
        cr_expect_eq(capo_other_mark(&o, 4, 4096, 3, (float[N_ALGOS * N_PROTOS]){0}, N_ALGOS,
                                     N_PROTOS, 1, &(int){0}),
                     5);
        cr_expect_eq(capo_other_close(&o), 0);
        cr_expect_eq(fake.calls, 109);
}

/* CollNet is CollNetChain/Simple; NVLS either of its two, all with Simple. */
Test(other, two_numbers_are_given_what_the_table_offers)
{
        static const struct {
                unsigned algo, proto;
                int collnet, nvls;
        } rows[] = {{CAPO_ALGO_COLLNET_CHAIN, CAPO_PROTO_SIMPLE, 1, 0},
                    {CAPO_ALGO_COLLNET_CHAIN, CAPO_PROTO_LL, 0, 0},
                    {CAPO_ALGO_COLLNET_DIRECT, CAPO_PROTO_SIMPLE, 0, 0},
                    {CAPO_ALGO_NVLS, CAPO_PROTO_SIMPLE, 0, 1},
                    {CAPO_ALGO_NVLS_TREE, CAPO_PROTO_SIMPLE, 0, 1},
                    {CAPO_ALGO_NVLS, CAPO_PROTO_LL128, 0, 0},
                    {CAPO_ALGO_PAT, CAPO_PROTO_SIMPLE, 0, 0}};
        struct capo_other o = {.abi = capo_tuner_abis[1], .plugin = &v2, .context = &context};

        fake.name_algo = fake.name_proto = -1;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                float table[N_ALGOS * N_PROTOS];
                int channels;

                fill(table);
                table[(rows[i].algo - 1) * N_PROTOS + rows[i].proto - 1] = 0;
                capo_other_mark(&o, 4, 4096, 1, table, N_ALGOS, N_PROTOS, 0, &channels);
                cr_expect(fake.collnet == rows[i].collnet && fake.nvls == rows[i].nvls, "row %zu",
                          i);
        }
}

Test(other, a_table_is_handed_on)
{
        struct capo_other o = {.abi = capo_tuner_abis[3], .plugin = &v4, .context = &context};
        float table[N_ALGOS * N_PROTOS];
        int algo = -1, proto = -1, channels = 0;

        fill(table);
        cr_expect_eq(capo_other_mark(&o, 4, 4096, 1, table, N_ALGOS, N_PROTOS, 1, &channels), 0);
        cr_expect(fake.calls == 1 && fake.reg == 1 && table[RING * N_PROTOS + SIMPLE] == 0 &&
                  table[0] == 7);
        cr_expect_eq(capo_other_name(&o, 4, 4096, 0, 0, 1, &algo, &proto, &channels), 0);
        cr_expect(fake.calls == 1 && algo == -1, "one that needs a table is not asked without");
}

Test(other, the_newest_is_given_more_and_may_leave_out_chunks)
{
        struct capo_other o = {.abi = capo_tuner_abis[5], .plugin = &v6};
        struct capo_nccl_constants constants = {0};
        const struct capo_nvl_info nvl = {2, 3, 5};
        struct capo_tuner_info info = {
                .n_ranks = 8, .n_nodes = 2, .comm_id = 77, .nvl = &nvl, .constants = &constants};
        size_t chunk = 42;

        cr_expect_eq(capo_other_open(&o, &info), 0);
        cr_expect(fake.id == 77 && fake.ranks == 8 && fake.nodes == 3 &&
                  constants.tree_bw[0][0] == 3);
        cr_expect_eq(capo_other_chunk(&o, 4, 4096, 1, 2, 3, &chunk), 0);
        cr_expect_eq(chunk, 42);
}

Test(other, every_version_is_where_it_belongs)
{
        for (int v = 1; v <= CAPO_TUNER_ABI_NEWEST; v++) {
                const struct capo_tuner_abi *abi = capo_tuner_abis[v - 1];

                cr_expect_eq(abi->version, v);
                cr_expect(abi->own && abi->open && abi->close);
                cr_expect_neq(!abi->name, !abi->mark, "v%d: one way to answer", v);
                cr_expect_eq(!abi->mark, v < 3);
                cr_expect_eq(abi->chunk != NULL, v >= 6);
        }
        for (int v = 1; v <= CAPO_PROFILER_ABI_NEWEST; v++) {
                const struct capo_profiler_abi *abi = capo_profiler_abis[v - 1];

                cr_expect_eq(abi->version, v);
                cr_expect(abi->own && abi->init && abi->events <= v && abi->events > 0);
        }
}
