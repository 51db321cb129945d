/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.26: as v2, without the traffic. */
#include "tuner/profiler/profiler.h"

static capo_nccl_result init(void **context, int *mask)
{
        const struct capo_profiler_info info = {.abi = 3, .n_nodes = -1, .n_ranks = -1, .rank = -1};

        return capo_profiler_open(&info, (struct capo_profiler **)context, mask);
}

static capo_nccl_result start_event(void *context, void **handle, void *event)
{
        struct capo_profiler *p = context;
        struct capo_event_v3 *d = event;
        struct capo_profiler_event e = {.type = d->type, .parent = &d->parent, .event = event};

        if (unlikely(!p))
                return CAPO_NCCL_SUCCESS;
        if (d->type == CAPO_EVENT_COLL)
                e.ran = (struct capo_seam_ran){.comm_hash = d->coll.comm_hash,
                                               .count = d->coll.count,
                                               .call = capo_event_call(d->coll.func),
                                               .algo_proto = capo_event_algo_proto(d->coll.algo, d->coll.proto),
                                               .channels = d->coll.max_channels};
        return capo_profiler_start(p, handle, &e);
}

extern const struct capo_profiler_v3 ncclProfiler_v3;
CAPO_EXPORT const struct capo_profiler_v3 ncclProfiler_v3 = {
        capo_plugin_name, init, start_event, capo_profiler_stop, capo_profiler_state, capo_profiler_finish};

static capo_nccl_result their_init(const void *plugin, const struct capo_profiler_info *info, void **context, int *mask)
{
        const struct capo_profiler_v3 *p = plugin;

        return p->init(context, mask);
}

const struct capo_profiler_abi capo_profiler_abi_v3 = {3, 3, &ncclProfiler_v3, their_init};
