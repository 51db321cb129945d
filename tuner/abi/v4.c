/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.24 to 2.27: as v3, and registered buffers. */
#include "tuner/choose.h"

static capo_nccl_result init(size_t n_ranks, size_t n_nodes, capo_nccl_log log, void **context)
{
        const struct capo_tuner_info info = {.abi = 4, .n_ranks = n_ranks, .n_nodes = n_nodes, .log = log};

        return capo_tuner_open(&info, (struct capo_tuner **)context);
}

static capo_nccl_result get_coll_info(void *context, int func, size_t bytes, int pipe_ops, float **table, int n_algos,
                                      int n_protos, int reg_buff, int *channels)
{
        return capo_tuner_ask(context, func, bytes, pipe_ops, (float *)table, n_algos, n_protos, reg_buff, channels);
}

static capo_nccl_result destroy(void *context)
{
        return capo_tuner_close(context);
}

CAPO_EXPORT const struct capo_tuner_v4 ncclTunerPlugin_v4 = {"capo", init, get_coll_info, destroy};
