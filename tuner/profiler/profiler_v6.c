/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.29 on: the events of v5, and collectives by copy engines. */
#include "tuner/profiler/profiler_adapt.h"

static capo_nccl_result init_profiler_v6(void **context, uint64_t comm_id, int *mask,
                                         const char *comm_name, int n_nodes, int n_ranks, int rank,
                                         capo_nccl_log log)
{
        return capo_adapt_profiler(6, context, comm_id, mask, comm_name, n_nodes, n_ranks, rank,
                                   log);
}

extern struct capo_profiler_v6 ncclProfiler_v6;
CAPO_EXPORT struct capo_profiler_v6 ncclProfiler_v6 = {
        capo_plugin_name,   init_profiler_v6,    capo_profiler_start_v5,
        capo_profiler_stop, capo_profiler_state, capo_profiler_finish};

const struct capo_profiler_abi capo_profiler_abi_v6 = {6, 5, &ncclProfiler_v6, capo_their_init_v5};
