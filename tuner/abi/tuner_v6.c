/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.30: as v5, and chunk sizes (tuner/chunk.h). */
#include "tuner/abi/tuner_adapt.h"

static capo_nccl_result get_chunk_size(void *context, int func, size_t bytes, int algo, int proto,
                                       int channels, size_t *chunk)
{
        if (context && chunk)
                capo_tuner_chunk(context, func, bytes, algo, proto, channels, chunk);
        return CAPO_NCCL_SUCCESS;
}

CAPO_TUNER_INIT(6, 5)
CAPO_EXPORT struct capo_tuner_v6 ncclTunerPlugin_v6 = {
        capo_plugin_name, init_tuner_v6, capo_adapt_mark, capo_tuner_close, get_chunk_size};

/* ---- somebody else's ---- */

static capo_nccl_result their_chunk(const void *plugin, void *context, int func, size_t bytes,
                                    int algo, int proto, int channels, size_t *chunk)
{
        const struct capo_tuner_v6 *p = plugin;

        return p->get_chunk_size
                       ? p->get_chunk_size(context, func, bytes, algo, proto, channels, chunk)
                       : CAPO_NCCL_SUCCESS;
}

const struct capo_tuner_abi capo_tuner_abi_v6 = {
        6,    &ncclTunerPlugin_v6, capo_their_open_v5, capo_their_close,
        NULL, capo_their_mark,     their_chunk};
