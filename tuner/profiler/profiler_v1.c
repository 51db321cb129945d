/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.23: numbers for function, algorithm and protocol; the bound of channels. */
#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "tuner/profiler/profiler_adapt.h"

static capo_nccl_result start_event(void *context, void **handle, void *event)
{
        struct capo_profiler *p = context;
        struct capo_event_v1 *d = event;
        struct capo_profiler_event e = {.type = d->type, .parent = &d->parent, .event = event};

        if (unlikely(!p))
                return CAPO_NCCL_SUCCESS;
        if (d->type == CAPO_EVENT_COLL)
                e.ran = (struct capo_seam_ran){.comm_hash = d->coll.comm_hash,
                                               .count = d->coll.count,
                                               .call = d->coll.func < CAPO_NCCL_COLLS
                                                               ? capo_coll_call(d->coll.func)
                                                               : CAPO_CALL_NONE,
                                               .algo_proto = (uint8_t)((d->coll.algo + 1) << 4 |
                                                                       ((d->coll.proto + 1) & 15)),
                                               .channels = d->coll.max_channels};
        return capo_profiler_start(p, handle, &e);
}

CAPO_PROFILER_INIT(1, 1)
CAPO_EXPORT struct capo_profiler_v1 ncclProfiler_v1 = {CAPO_PROFILER_TABLE(1, start_event)};
const struct capo_profiler_abi capo_profiler_abi_v1 = {1, 1, &ncclProfiler_v1, capo_their_init_v1};
