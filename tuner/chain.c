/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the other tuner. One process-wide object, one context per communicator, and a switch on the version where a
 * call is made: versions differ in what is passed, never in what it means.
 */
#include <pthread.h>
#include <stdlib.h>

#include "capo/msg.h"
#include "tuner/chain.h"
#include "tuner/tuner_env.h"

/* The smallest grain of any protocol: LL stores 8 bytes of data in a 16-byte line, and NCCL rounds in such steps per
 * thread (device.h, ncclProtoGrainSize). Below 1920 only LL and Simple can work. */
static const size_t grain[CAPO_NCCL_PROTOS] = {
#define CAPO_PROTO(id, name, word, grain) grain,
#include "capo/protocols.def"
#undef CAPO_PROTO
};

struct capo_chain {
        const void *plugin;
        int abi;
        void *context;
};

static const char *const symbols[] = {"ncclTunerPlugin_v6", "ncclTunerPlugin_v5", "ncclTunerPlugin_v4",
                                      "ncclTunerPlugin_v3", "ncclTunerPlugin_v2", NULL};
static const void *const own[] = {&ncclTunerPlugin_v6, &ncclTunerPlugin_v5, &ncclTunerPlugin_v4, &ncclTunerPlugin_v3,
                                  &ncclTunerPlugin_v2};
static const char *const symbols_v1[] = {"ncclTunerPlugin_v1", NULL};
static const void *const own_v1[] = {&ncclTunerPlugin_v1};

/* Which object to use: found once, for the version of the first question; one process has one NCCL. */
static struct {
        pthread_mutex_t lock;
        int for_abi; /* 0: not looked for yet */
        const void *plugin;
        int abi;
} other = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void find(int abi)
{
        int first = abi < 2 ? 0 : 6 - abi, which = 0;

        other.for_abi = abi;
        other.plugin = abi < 2 ? capo_plugin_find("tuner", capo_tuner_env()->chain_tuner, symbols_v1, own_v1, &which)
                               : capo_plugin_find("tuner", capo_tuner_env()->chain_tuner, symbols + first, own + first,
                                                  &which);
        other.abi = abi < 2 ? 1 : abi - which;
        if (other.plugin)
                capo_debug("chained tuner %s, interface v%d", *(const char *const *)other.plugin, other.abi);
}

capo_nccl_result capo_chain_open(const struct capo_tuner_info *info, struct capo_chain **out)
{
        struct capo_chain *c;
        capo_nccl_result result = CAPO_NCCL_SUCCESS;

        *out = NULL;
        pthread_mutex_lock(&other.lock);
        if (other.for_abi != info->abi)
                find(info->abi);
        c = other.plugin ? malloc(sizeof *c) : NULL;
        if (c)
                *c = (struct capo_chain){other.plugin, other.abi, NULL};
        else if (other.plugin)
                result = CAPO_NCCL_SYSTEM_ERROR;
        pthread_mutex_unlock(&other.lock);
        if (!c)
                return result;
        switch (c->abi) {
        case 1:
                result = ((const struct capo_tuner_v1 *)c->plugin)->init(info->n_ranks, info->n_nodes, info->log);
                break;
        case 2:
        case 3:
        case 4: /* one signature */
                result = ((const struct capo_tuner_v4 *)c->plugin)
                                 ->init(info->n_ranks, info->n_nodes, info->log, &c->context);
                break;
        default:
                result = ((const struct capo_tuner_v5 *)c->plugin)
                                 ->init(&c->context, info->comm_id, info->n_ranks, info->n_nodes, info->log,
                                        (struct capo_nvl_info *)info->nvl, info->constants);
        }
        if (result) {
                capo_error("the chained tuner %s refuses this communicator (ncclResult_t %d)",
                           *(const char *const *)c->plugin, result);
                free(c);
                return result;
        }
        *out = c;
        return CAPO_NCCL_SUCCESS;
}

void capo_chain_close(struct capo_chain *c)
{
        if (!c)
                return;
        if (c->abi == 1)
                ((const struct capo_tuner_v1 *)c->plugin)->destroy();
        else /* the last of the first four members in every version */
                ((const struct capo_tuner_v2 *)c->plugin)->destroy(c->context);
        free(c);
}

static bool available(const float *table, int n_algos, int n_protos, int algo, int proto)
{
        return algo >= 0 && proto >= 0 && algo < n_algos && proto < n_protos && table[algo * n_protos + proto] >= 0;
}

void capo_chain_ask(struct capo_chain *c, int func, size_t bytes, int pipe_ops, float *table, int n_algos, int n_protos,
                    int reg_buff, int *channels)
{
        const int simple = CAPO_PROTO_SIMPLE - 1;
        int algo = -1, proto = -1;

        switch (c->abi) {
        case 2:
                ((const struct capo_tuner_v2 *)c->plugin)
                        ->get_coll_info(c->context, func, bytes,
                                        available(table, n_algos, n_protos, CAPO_ALGO_COLLNET_CHAIN - 1, simple),
                                        available(table, n_algos, n_protos, CAPO_ALGO_NVLS - 1, simple) ||
                                                available(table, n_algos, n_protos, CAPO_ALGO_NVLS_TREE - 1, simple),
                                        pipe_ops, &algo, &proto, channels);
                if (available(table, n_algos, n_protos, algo, proto))
                        table[algo * n_protos + proto] = 0.0f;
                break;
        case 3:
                ((const struct capo_tuner_v3 *)c->plugin)
                        ->get_coll_info(c->context, func, bytes, pipe_ops, (float **)table, n_algos, n_protos,
                                        channels);
                break;
        default: /* v4, v5 and v6 have one signature, at the same place */
                ((const struct capo_tuner_v4 *)c->plugin)
                        ->get_coll_info(c->context, func, bytes, pipe_ops, (float **)table, n_algos, n_protos, reg_buff,
                                        channels);
        }
}

void capo_chain_ask_direct(struct capo_chain *c, int func, size_t bytes, int collnet, int nvls, int pipe_ops, int *algo,
                           int *proto, int *channels)
{
        if (c->abi == 1)
                ((const struct capo_tuner_v1 *)c->plugin)
                        ->get_coll_info(func, bytes, collnet, nvls, pipe_ops, algo, proto, channels);
        else
                ((const struct capo_tuner_v2 *)c->plugin)
                        ->get_coll_info(c->context, func, bytes, collnet, nvls, pipe_ops, algo, proto, channels);
}

void capo_chain_chunk(struct capo_chain *c, int func, size_t bytes, int algo, int proto, int channels, size_t *chunk)
{
        const struct capo_tuner_v6 *plugin = c->plugin;
        size_t answer = *chunk;

        if (c->abi < 6 || !plugin->get_chunk_size ||
            plugin->get_chunk_size(c->context, func, bytes, algo, proto, channels, &answer))
                return;
        if ((unsigned)proto < CAPO_NCCL_PROTOS && answer >= grain[proto])
                *chunk = answer;
}
