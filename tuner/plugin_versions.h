/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of NCCL's tuner and profiler interface, from their list. */
#pragma once

#include "tuner/plugin.h"

enum {
        CAPO_TUNER_ABI_NEWEST = 0
#define CAPO_TUNER_ABI(version, first, last) +1
#include "capo/plugin_abis.def"
        ,
        CAPO_PROFILER_ABI_NEWEST = 0
#define CAPO_PROFILER_ABI(version, first, last) +1
#include "capo/plugin_abis.def"
};

/* By version minus one. */
extern const struct capo_tuner_abi *const capo_tuner_abis[CAPO_TUNER_ABI_NEWEST];
extern const struct capo_profiler_abi *const capo_profiler_abis[CAPO_PROFILER_ABI_NEWEST];

#define CAPO_TUNER_ABI(version, first, last) \
        extern const struct capo_tuner_abi capo_tuner_abi_v##version;
#include "capo/plugin_abis.def"
#define CAPO_PROFILER_ABI(version, first, last) \
        extern const struct capo_profiler_abi capo_profiler_abi_v##version;
#include "capo/plugin_abis.def"
