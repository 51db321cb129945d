/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.28: a 64-bit type. */
#include "tuner/profiler/profiler_adapt.h"

capo_nccl_result capo_profiler_start_v5(void *context, void **handle, void *event)
{
        struct capo_profiler *p = context;
        struct capo_event_v5 *d = event;
        struct capo_profiler_event e = {.type = d->type, .parent = &d->parent, .event = event};

        if (unlikely(!p))
                return CAPO_NCCL_SUCCESS;
        if (d->type == CAPO_EVENT_COLL)
                e.ran = CAPO_EVENT_RAN_V4(d, p->comm_hash);
        if (d->type == CAPO_EVENT_CE_COLL)
                e.ran = CAPO_EVENT_COPIED(d, p->comm_hash);
        if (d->type == CAPO_EVENT_KERNEL)
                e.kernel = &d->kernel;
        return capo_profiler_start(p, handle, &e);
}

CAPO_PROFILER_INIT(5, 5)
CAPO_EXPORT struct capo_profiler_v5 ncclProfiler_v5 = {
        CAPO_PROFILER_TABLE(5, capo_profiler_start_v5)};
const struct capo_profiler_abi capo_profiler_abi_v5 = {5, 5, &ncclProfiler_v5, capo_their_init_v5};
