/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.29 on: the events of v5, and collectives by copy engines. */
#include "tuner/profiler/profiler_adapt.h"

CAPO_PROFILER_INIT(6, 5)
CAPO_EXPORT struct capo_profiler_v6 ncclProfiler_v6 = {
        CAPO_PROFILER_TABLE(6, capo_profiler_start_v5)};
const struct capo_profiler_abi capo_profiler_abi_v6 = {6, 5, &ncclProfiler_v6, capo_their_init_v5};
