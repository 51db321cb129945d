/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>

#include "capo/algorithms.h"
#include "core/base/nccl_release.h"
#include "tuner/other.h"
#include "tuner/plugin_versions.h"

const struct capo_tuner_abi *const capo_tuner_abis[CAPO_TUNER_ABI_NEWEST] = {
#define CAPO_TUNER_ABI(version, first, last) [version - 1] = &capo_tuner_abi_v##version,
#include "capo/plugin_abis.def"
};

const struct capo_profiler_abi *const capo_profiler_abis[CAPO_PROFILER_ABI_NEWEST] = {
#define CAPO_PROFILER_ABI(version, first, last) [version - 1] = &capo_profiler_abi_v##version,
#include "capo/plugin_abis.def"
};

enum capo_plugin_found capo_other_find(void *library, int abi, struct capo_other *out)
{
        enum capo_plugin_found found = CAPO_PLUGIN_NONE;

        for (int v = abi; v > 0; v--) {
                char symbol[32];
                const void *object;

                if (!capo_tuner_abi_asked(capo_tuner_abi_since(abi), v))
                        continue;
                snprintf(symbol, sizeof symbol, "ncclTunerPlugin_v%d", v);
                object = dlsym(library, symbol);
                if (!object)
                        continue;
                if (object == capo_tuner_abis[v - 1]->own ||
                    capo_plugin_is_ours(*(const char *const *)object)) {
                        found = CAPO_PLUGIN_OURSELVES;
                        continue;
                }
                *out = (struct capo_other){capo_tuner_abis[v - 1], object, NULL};
                return CAPO_PLUGIN_FOUND;
        }
        return found;
}

capo_nccl_result capo_other_open(struct capo_other *o, const struct capo_tuner_info *info)
{
        return o->abi ? o->abi->open(o->plugin, info, &o->context) : CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_other_close(struct capo_other *o)
{
        return o->abi ? o->abi->close(o->plugin, o->context) : CAPO_NCCL_SUCCESS;
}

static bool cell_is_available(const float *table, int n_algos, int n_protos, int algo, int proto)
{
        return algo >= 0 && proto >= 0 && algo < n_algos && proto < n_protos &&
               table[algo * n_protos + proto] >= 0;
}

capo_nccl_result capo_other_mark(struct capo_other *o, int func, size_t bytes, int pipe_ops,
                                 float *table, int n_algos, int n_protos, int reg_buff,
                                 int *channels)
{
        const int simple = CAPO_PROTO_SIMPLE - 1;
        int algo = -1, proto = -1;
        capo_nccl_result r;

        if (!o->abi)
                return CAPO_NCCL_SUCCESS;
        if (o->abi->mark)
                return o->abi->mark(o->plugin, o->context, func, bytes, pipe_ops, table, n_algos,
                                    n_protos, reg_buff, channels);
        r = o->abi->name(
                o->plugin, o->context, func, bytes,
                cell_is_available(table, n_algos, n_protos, CAPO_ALGO_COLLNET_CHAIN - 1, simple),
                cell_is_available(table, n_algos, n_protos, CAPO_ALGO_NVLS - 1, simple) ||
                        cell_is_available(table, n_algos, n_protos, CAPO_ALGO_NVLS_TREE - 1,
                                          simple),
                pipe_ops, &algo, &proto, channels);
        if (cell_is_available(table, n_algos, n_protos, algo, proto))
                table[algo * n_protos + proto] = 0.0f;
        return r;
}

capo_nccl_result capo_other_name(struct capo_other *o, int func, size_t bytes, int collnet,
                                 int nvls, int pipe_ops, int *algo, int *proto, int *channels)
{
        if (!o->abi || !o->abi->name)
                return CAPO_NCCL_SUCCESS;
        return o->abi->name(o->plugin, o->context, func, bytes, collnet, nvls, pipe_ops, algo,
                            proto, channels);
}

capo_nccl_result capo_other_chunk(struct capo_other *o, int func, size_t bytes, int algo, int proto,
                                  int channels, size_t *chunk)
{
        if (!o->abi || !o->abi->chunk)
                return CAPO_NCCL_SUCCESS;
        return o->abi->chunk(o->plugin, o->context, func, bytes, algo, proto, channels, chunk);
}
