/* SPDX-License-Identifier: Apache-2.0 */
/* Culprits, and the calls of a process, or of one of its ranks, that the judgements ask about. */
#pragma once

#include "analysis/hang/hang_verdict.h"
#include "core/base/calls.h"

/** is_p2p(), is_collective() - a send or receive; a call with a number that all ranks make. */
static inline bool is_p2p(const struct capo_hang_call *c)
{
        return capo_call_kind(c->call) == CAPO_KIND_P2P;
}

static inline bool is_collective(const struct capo_hang_call *c)
{
        return c->seq && capo_call_is_collective(c->call);
}

/** hang_accuse() - add a culprit unless it is one already; @v->accused must have room for @process. */
void hang_accuse(struct capo_hang_verdict *v, uint32_t process, enum capo_hang_why why,
                 const struct capo_hang_call *call);

/** hang_accuse_rank() - the same for one rank of a process that has several; @rank: in the job, -1:
 * the process's. hang_member_rank() - that of a member; -1 if its process has one rank there. */
void hang_accuse_rank(struct capo_hang_verdict *v, uint32_t process, int32_t rank,
                      enum capo_hang_why why, const struct capo_hang_call *call);
int32_t hang_member_rank(const struct capo_hang_job *job, uint32_t comm, uint32_t member);

/** hang_acquit() - remove all culprits. */
void hang_acquit(struct capo_hang_verdict *v);

/** hang_sort_culprits() - by rank; culprits of other calls than the verdict's come last. */
void hang_sort_culprits(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_is_of() - is @call of member @member of @comm, or of the thread that calls for it?
 * CAPO_HANG_NONE as @member: of the process, always. */
bool hang_is_of(const struct capo_hang_process *p, const struct capo_hang_call *call, uint32_t comm,
                uint32_t member);

/** hang_last_of() - the last call of @p; hang_running_of() - its first call that its GPU was seen
 * executing, or may be executing. NULL: none. @comm and @member as above. */
const struct capo_hang_call *hang_last_of(const struct capo_hang_process *p, uint32_t comm,
                                          uint32_t member);
const struct capo_hang_call *hang_running_of(const struct capo_hang_process *p, uint32_t comm,
                                             uint32_t member);

/** hang_last(), hang_running() - the same of the whole process. */
static inline const struct capo_hang_call *hang_last(const struct capo_hang_process *p)
{
        return hang_last_of(p, CAPO_HANG_NONE, CAPO_HANG_NONE);
}
static inline const struct capo_hang_call *hang_running(const struct capo_hang_process *p)
{
        return hang_running_of(p, CAPO_HANG_NONE, CAPO_HANG_NONE);
}

/** hang_made_as() - the collective that @p made as number @seq of @comm; NULL: not among its last
 * calls. */
const struct capo_hang_call *hang_made_as(const struct capo_hang_process *p, uint32_t comm,
                                          uint32_t seq);

/** hang_made_by_all() - the same by member of @comm. free() it. */
const struct capo_hang_call **hang_made_by_all(const struct capo_hang_job *job, uint32_t comm,
                                               uint32_t seq);
