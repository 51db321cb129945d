/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.28, 2.29: init is before the cost model, tells local ranks, may change constants. */
#include "tuner/abi/tuner_adapt.h"

CAPO_TUNER_INIT(5, 5)
CAPO_EXPORT struct capo_tuner_v5 ncclTunerPlugin_v5 = {capo_plugin_name, init_tuner_v5,
                                                       capo_adapt_mark, capo_tuner_close};

const struct capo_tuner_abi capo_tuner_abi_v5 = {
        5, &ncclTunerPlugin_v5, capo_their_open_v5, capo_their_close, NULL, capo_their_mark, NULL};
