/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.21: a context, and still no cost table. */
#include "tuner/abi/tuner_adapt.h"

static capo_nccl_result get_coll_info(void *context, int func, size_t bytes, int collnet, int nvls,
                                      int pipe_ops, int *algo, int *proto, int *channels)
{
        return capo_name_quick(context, func, bytes, collnet, nvls, pipe_ops, algo, proto,
                               channels);
}

CAPO_TUNER_INIT(2, 2)
CAPO_EXPORT struct capo_tuner_v2 ncclTunerPlugin_v2 = {capo_plugin_name, init_tuner_v2,
                                                       get_coll_info, capo_tuner_close};

/* ---- somebody else's ---- */

static capo_nccl_result their_name(const void *plugin, void *context, int func, size_t bytes,
                                   int collnet, int nvls, int pipe_ops, int *algo, int *proto,
                                   int *channels)
{
        const struct capo_tuner_v2 *p = plugin;

        return p->get_coll_info(context, func, bytes, collnet, nvls, pipe_ops, algo, proto,
                                channels);
}

const struct capo_tuner_abi capo_tuner_abi_v2 = {
        2, &ncclTunerPlugin_v2, capo_their_open_v2, capo_their_close, their_name, NULL, NULL};
