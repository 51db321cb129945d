/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.29 on: the events that capo looks at are those of v5. */
#include "tuner/profiler/profiler.h"

static capo_nccl_result init(void **context, uint64_t comm_id, int *mask, const char *comm_name, int n_nodes,
                             int n_ranks, int rank, capo_nccl_log log)
{
        const struct capo_profiler_info info = {.abi = 6,
                                                .comm_name = comm_name,
                                                .comm_hash = comm_id,
                                                .n_nodes = n_nodes,
                                                .n_ranks = n_ranks,
                                                .rank = rank,
                                                .log = log};

        return capo_profiler_open(&info, (struct capo_profiler **)context, mask);
}

extern const struct capo_profiler_v6 ncclProfiler_v6;
CAPO_EXPORT const struct capo_profiler_v6 ncclProfiler_v6 = {
        capo_plugin_name, init, capo_profiler_start_v5, capo_profiler_stop, capo_profiler_state, capo_profiler_finish};

static capo_nccl_result their_init(const void *plugin, const struct capo_profiler_info *info, void **context, int *mask)
{
        const struct capo_profiler_v6 *p = plugin;

        return p->init(context, info->comm_hash, mask, info->comm_name, info->n_nodes, info->n_ranks, info->rank,
                       info->log);
}

const struct capo_profiler_abi capo_profiler_abi_v6 = {6, 5, &ncclProfiler_v6, their_init};
