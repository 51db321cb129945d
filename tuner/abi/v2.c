/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.21: a context, and still no cost table. */
#include "tuner/choose.h"

static capo_nccl_result init(size_t n_ranks, size_t n_nodes, capo_nccl_log log, void **context)
{
        const struct capo_tuner_info info = {.abi = 2, .n_ranks = n_ranks, .n_nodes = n_nodes, .log = log};

        return capo_tuner_open(&info, (struct capo_tuner **)context);
}

static capo_nccl_result get_coll_info(void *context, int func, size_t bytes, int collnet, int nvls, int pipe_ops,
                                      int *algo, int *proto, int *channels)
{
        return capo_tuner_ask_direct(context, func, bytes, collnet, nvls, pipe_ops, algo, proto, channels);
}

static capo_nccl_result destroy(void *context)
{
        return capo_tuner_close(context);
}

CAPO_EXPORT const struct capo_tuner_v2 ncclTunerPlugin_v2 = {"capo", init, get_coll_info, destroy};
