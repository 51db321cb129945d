/* SPDX-License-Identifier: Apache-2.0 */
/* The profiler's tag of a call (ncclCollConfig_t.userProfilerTag, NCCL 2.31): NCCL's events bear it
 * unchanged, and by it they are joined with the call they are of (seam.c). What the application
 * gave stays; a call that capo itself turns into its Config twin gets one of its own. */
#pragma once

#include "shim/record/recorder.h"

#define CAPO_TAG_OURS \
        (UINT64_C(0x4341) << 48) /* with the thread and the place in its ring behind it */
#define CAPO_TAG_NCCLS \
        (UINT64_C(1) << 63) /* values with this bit are NCCL's own (its profiler_v7.h) */

/** capo_tag_give() - the tag of the call under way, which is being turned into its Config twin It
 * goes into userProfilerTag: the application's where it gave one, else one of ours, never 0. It is
 * forgotten when the call ends. */
static inline uint64_t capo_tag_give(struct capo_tls *t)
{
        if (!t->tag)
                t->tag = CAPO_TAG_OURS | (uint64_t)(uint16_t)t->thread << 32 | (uint32_t)t->head;
        return t->tag;
}

/* Can an event with @event be of a call with @call? NCCL's own tags say no more than none. */
static inline bool capo_tag_fits(uint64_t event, uint64_t call)
{
        return event & CAPO_TAG_NCCLS ? !call : event == call;
}
