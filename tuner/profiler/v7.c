/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL 2.31 on: symmetric collectives say so. Their kernel is none of the cost table, so what ran is not told as if it were:
 * the recorder has no name for it yet. The call's tag says which call an event is of; it goes on to a chained profiler as it
 * came.
 */
#include "tuner/profiler/adapt.h"

static capo_nccl_result init(void **context, uint64_t comm_id, int *mask, const char *comm_name, int n_nodes,
                             int n_ranks, int rank, capo_nccl_log log)
{
        return capo_adapt_profiler(7, context, comm_id, mask, comm_name, n_nodes, n_ranks, rank, log);
}

static capo_nccl_result start_event(void *context, void **handle, void *event)
{
        struct capo_event_v7 *d = event;
        struct capo_profiler *p = context;
        struct capo_profiler_event e = {.type = d->type, .parent = &d->parent, .event = event};

        if (unlikely(!p) || d->type != CAPO_EVENT_COLL)
                return capo_profiler_start_v5(context, handle, event);
        if (unlikely(d->coll.is_symmetric || !d->coll.algo || !d->coll.proto))
                e.ran = (struct capo_seam_ran){.comm_hash = p->comm_hash,
                                               .count = d->coll.count,
                                               .call = capo_event_call(d->coll.func),
                                               .channels = d->coll.n_channels};
        else
                e.ran = CAPO_EVENT_RAN(d, p->comm_hash, d->coll.n_channels);
        e.ran.tagged = true;
        e.ran.tag = d->coll.tag;
        return capo_profiler_start(p, handle, &e);
}

extern const struct capo_profiler_v7 ncclProfiler_v7;
CAPO_EXPORT const struct capo_profiler_v7 ncclProfiler_v7 = {
        capo_plugin_name, init, start_event, capo_profiler_stop, capo_profiler_state, capo_profiler_finish};

const struct capo_profiler_abi capo_profiler_abi_v7 = {7, 5, &ncclProfiler_v7, capo_their_init_v5};
