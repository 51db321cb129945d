/* SPDX-License-Identifier: Apache-2.0 */
/* One recorded call. The recorder fills this struct, every reader gets it back.
 *
 * Calls, types and operators carry NCCL's own numbers (enum values have never been re-ordered:
 * nccl.h 2.13 to 2.30); the ids of calls are ours: include/capo/calls.def is the list. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capo/call_kinds.h"

struct capo_record {
#define CAPO_FIELD(type, name, kept) type name;
#include "capo/record_fields.def"
};
static_assert(sizeof(struct capo_record) == 64, "one record, one cache line");

/** capo_record_gpu_begin() - when a call began on the GPU, in ns (of a record out of a log) What
 * the events around it tell: within some microseconds, too early while no event has found its
 * stream idle for seconds. Return: false where that is not known: not timed by events, or by an
 * older capo. */
static inline bool capo_record_gpu_begin(const struct capo_record *r, uint64_t *ns)
{
        if (r->clock != CAPO_CLOCK_EVENT || r->flags & CAPO_RECORD_MEMBER || !r->group)
                return false;
        *ns = r->t_begin + (r->group - 1) * UINT64_C(100);
        return true;
}

/** capo_record_waited() - how long the kernel of a call waited for the other ranks before it moved
 * anything, in ns By the GPU's clock; longer than 4.29 s is that. The rest of gpu_ns it moved data,
 * and waited for the others to have theirs. Return: false where that is not known: NCCL's kernel
 * did not tell its phases (CAPO_CLOCK_KERNEL, symmetric kernels, NCCL 2.31). */
static inline bool capo_record_waited(const struct capo_record *r, uint64_t *ns)
{
        if (r->clock != CAPO_CLOCK_KERNEL || r->flags & CAPO_RECORD_MEMBER || !r->group)
                return false;
        *ns = r->group - 1;
        return true;
}
