/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.28 and 2.29: init comes before the cost model, tells ranks per node, and may change the model's constants. */
#include "tuner/choose.h"

static capo_nccl_result init(void **context, uint64_t comm_id, size_t n_ranks, size_t n_nodes, capo_nccl_log log,
                             struct capo_nvl_info *nvl, struct capo_nccl_constants *constants)
{
        const struct capo_tuner_info info = {.abi = 5,
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
        return capo_mark_quick(context, func, bytes, pipe_ops, (float *)table, n_algos, n_protos, reg_buff, channels);
}

static capo_nccl_result finalize(void *context)
{
        return capo_tuner_close(context);
}

extern const struct capo_tuner_v5 ncclTunerPlugin_v5;
CAPO_EXPORT const struct capo_tuner_v5 ncclTunerPlugin_v5 = {capo_plugin_name, init, get_coll_info, finalize};

/* ---- somebody else's ---- */

static capo_nccl_result their_open(const void *plugin, const struct capo_tuner_info *info, void **context)
{
        const struct capo_tuner_v5 *p = plugin;

        return p->init(context, info->comm_id, info->n_ranks, info->n_nodes, info->log,
                       (struct capo_nvl_info *)info->nvl, info->constants);
}

static capo_nccl_result their_close(const void *plugin, void *context)
{
        const struct capo_tuner_v5 *p = plugin;

        return p->finalize(context);
}

static capo_nccl_result their_mark(const void *plugin, void *context, int func, size_t bytes, int pipe_ops,
                                   float *table, int n_algos, int n_protos, int reg_buff, int *channels)
{
        const struct capo_tuner_v5 *p = plugin;

        return p->get_coll_info(context, func, bytes, pipe_ops, (float **)table, n_algos, n_protos, reg_buff, channels);
}

const struct capo_tuner_abi capo_tuner_abi_v5 = {
        .version = 5, .own = &ncclTunerPlugin_v5, .open = their_open, .close = their_close, .mark = their_mark};
