/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL 2.31 on: symmetric collectives say which kernel ran, which is none of the cost table; a
 * kernel's phases; and the tag of the call that an event is of, also for a chained profiler. */
#include "core/base/calls.h"
#include "tuner/profiler/profiler_adapt.h"

/* Where an algorithm would stand NCCL writes a symmetric kernel's name again, or nothing. */
static struct capo_seam_ran read_event(const struct capo_event_v7 *d, uint64_t comm_hash)
{
        struct capo_seam_ran ran = {.comm_hash = comm_hash,
                                    .count = d->coll.count,
                                    .call = capo_event_call(d->coll.func),
                                    .channels = d->coll.n_channels};

        if (d->coll.is_symmetric)
                ran.algo_proto = (uint8_t)capo_symk_find(d->coll.kernel_variant);
        else if (d->coll.algo && d->coll.proto)
                ran.algo_proto = capo_event_algo_proto(d->coll.algo, d->coll.proto);
        return ran;
}

static capo_nccl_result start_event(void *context, void **handle, void *event)
{
        struct capo_event_v7 *d = event;
        struct capo_profiler *p = context;
        struct capo_profiler_event e = {.type = d->type, .parent = &d->parent, .event = event};

        if (unlikely(!p))
                return CAPO_NCCL_SUCCESS;
        if (d->type == CAPO_EVENT_COLL) {
                e.ran = read_event(d, p->comm_hash);
                e.ran.tag = d->coll.tag;
        }
        if (d->type == CAPO_EVENT_CE_COLL) {
                e.ran = CAPO_EVENT_COPIED(d, p->comm_hash);
                e.ran.tag = d->ce.tag;
        }
        if (d->type == CAPO_EVENT_KERNEL)
                e.kernel = &d->kernel;
        if (d->type == CAPO_EVENT_KERNEL_PHASE)
                e.phase = &d->phase;
        e.ran.tagged = true;
        return capo_profiler_start(p, handle, &e);
}

CAPO_PROFILER_INIT(7, 5)
CAPO_EXPORT struct capo_profiler_v7 ncclProfiler_v7 = {CAPO_PROFILER_TABLE(7, start_event)};
const struct capo_profiler_abi capo_profiler_abi_v7 = {7, 5, &ncclProfiler_v7, capo_their_init_v5};
