/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.24 to 2.27: as v3, and registered buffers. */
#include "tuner/abi/tuner_adapt.h"

CAPO_TUNER_INIT(4, 2)
CAPO_EXPORT struct capo_tuner_v4 ncclTunerPlugin_v4 = {capo_plugin_name, init_tuner_v4,
                                                       capo_adapt_mark, capo_tuner_close};

const struct capo_tuner_abi capo_tuner_abi_v4 = {
        4, &ncclTunerPlugin_v4, capo_their_open_v2, capo_their_close, NULL, capo_their_mark, NULL};
