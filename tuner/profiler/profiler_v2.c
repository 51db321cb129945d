/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.24 and 2.25: names instead of numbers; the bound of channels. */
#include "tuner/profiler/profiler_adapt.h"

static capo_nccl_result start_event(void *context, void **handle, void *event)
{
        struct capo_profiler *p = context;
        struct capo_event_v2 *d = event;
        struct capo_profiler_event e = {.type = d->type, .parent = &d->parent, .event = event};

        if (unlikely(!p))
                return CAPO_NCCL_SUCCESS;
        if (d->type == CAPO_EVENT_COLL)
                e.ran = CAPO_EVENT_RAN(d, d->coll.comm_hash, d->coll.max_channels);
        return capo_profiler_start(p, handle, &e);
}

CAPO_PROFILER_INIT(2, 1)
CAPO_EXPORT struct capo_profiler_v2 ncclProfiler_v2 = {CAPO_PROFILER_TABLE(2, start_event)};
const struct capo_profiler_abi capo_profiler_abi_v2 = {2, 2, &ncclProfiler_v2, capo_their_init_v1};
