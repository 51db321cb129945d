/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.30: as v5, and chunk sizes. capo has no rows for chunks; it passes the question on to a chained tuner. */
#include "tuner/chain.h"
#include "tuner/choose.h"

static capo_nccl_result init(void **context, uint64_t comm_id, size_t n_ranks, size_t n_nodes, capo_nccl_log log,
                             struct capo_nvl_info *nvl, struct capo_nccl_constants *constants)
{
        const struct capo_tuner_info info = {.abi = 6,
                                             .comm_id = comm_id,
                                             .n_ranks = n_ranks,
                                             .n_nodes = n_nodes,
                                             .log = log,
                                             .nvl = nvl,
                                             .constants = constants};

        return capo_tuner_open(&info, (struct capo_tuner **)context);
}

static capo_nccl_result get_coll_info(void *context, int func, size_t bytes, int pipe_ops, float **table, int n_algos,
                                      int n_protos, int reg_buff, int *channels)
{
        return capo_tuner_ask(context, func, bytes, pipe_ops, (float *)table, n_algos, n_protos, reg_buff, channels);
}

static capo_nccl_result finalize(void *context)
{
        return capo_tuner_close(context);
}

static capo_nccl_result get_chunk_size(void *context, int func, size_t bytes, int algo, int proto, int channels,
                                       size_t *chunk)
{
        const struct capo_tuner *tuner = context;

        if (tuner && tuner->chain && chunk)
                capo_chain_chunk(tuner->chain, func, bytes, algo, proto, channels, chunk);
        return CAPO_NCCL_SUCCESS;
}

CAPO_EXPORT const struct capo_tuner_v6 ncclTunerPlugin_v6 = {"capo", init, get_coll_info, finalize, get_chunk_size};
