/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.22 and 2.23: the cost table. Whether buffers are registered is not reported. */
#include "tuner/abi/tuner_adapt.h"

static capo_nccl_result get_coll_info(void *context, int func, size_t bytes, int pipe_ops,
                                      float **table, int n_algos, int n_protos, int *channels)
{
        return capo_mark_quick(context, func, bytes, pipe_ops, (float *)table, n_algos, n_protos,
                               -1, channels);
}

CAPO_TUNER_INIT(3, 2)
CAPO_EXPORT struct capo_tuner_v3 ncclTunerPlugin_v3 = {capo_plugin_name, init_tuner_v3,
                                                       get_coll_info, capo_tuner_close};

/* ---- somebody else's ---- */

static capo_nccl_result their_mark(const void *plugin, void *context, int func, size_t bytes,
                                   int pipe_ops, float *table, int n_algos, int n_protos,
                                   int reg_buff, int *channels)
{
        const struct capo_tuner_v3 *p = plugin;

        return p->get_coll_info(context, func, bytes, pipe_ops, (float **)table, n_algos, n_protos,
                                channels);
}

const struct capo_tuner_abi capo_tuner_abi_v3 = {
        3, &ncclTunerPlugin_v3, capo_their_open_v2, capo_their_close, NULL, their_mark, NULL};
