/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.27: the communicator is reported at init; real channels; kernel time stamps. */
#include "tuner/profiler/profiler_adapt.h"

static capo_nccl_result start_event(void *context, void **handle, void *event)
{
        struct capo_profiler *p = context;
        struct capo_event_v4 *d = event;
        struct capo_profiler_event e = {.type = d->type, .parent = &d->parent, .event = event};

        if (unlikely(!p))
                return CAPO_NCCL_SUCCESS;
        if (d->type == CAPO_EVENT_COLL)
                e.ran = CAPO_EVENT_RAN_V4(d, p->comm_hash);
        if (d->type == CAPO_EVENT_KERNEL)
                e.kernel = &d->kernel;
        return capo_profiler_start(p, handle, &e);
}

static capo_nccl_result their_init(const void *plugin, const struct capo_profiler_info *info,
                                   void **context, int *mask)
{
        const struct capo_profiler_v4 *p = plugin;

        return p->init(context, mask, info->comm_name, info->comm_hash, info->n_nodes,
                       info->n_ranks, info->rank, info->log);
}

CAPO_PROFILER_INIT(4, 4)
CAPO_EXPORT struct capo_profiler_v4 ncclProfiler_v4 = {CAPO_PROFILER_TABLE(4, start_event)};
const struct capo_profiler_abi capo_profiler_abi_v4 = {4, 4, &ncclProfiler_v4, their_init};
