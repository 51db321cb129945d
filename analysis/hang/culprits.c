/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/hang/culprits.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"

void hang_accuse_rank(struct capo_hang_verdict *v, uint32_t process, int32_t rank,
                      enum capo_hang_why why, const struct capo_hang_call *call)
{
        if (v->accused[process] &&
            ANY_OF(c, v->culprits, v->n_culprits,
                   c->process == process && (rank < 0 || c->rank < 0 || c->rank == rank)))
                return;
        *xadd(v->culprits, v->n_culprits) = (struct capo_hang_culprit){
                .process = process, .rank = rank, .why = why, .call = call};
        v->accused[process] = true;
}

void hang_accuse(struct capo_hang_verdict *v, uint32_t process, enum capo_hang_why why,
                 const struct capo_hang_call *call)
{
        hang_accuse_rank(v, process, -1, why, call);
}

int32_t hang_member_rank(const struct capo_hang_job *job, uint32_t comm, uint32_t member)
{
        const struct capo_hang_comm *c = comm != CAPO_HANG_NONE ? &job->comms[comm] : NULL;

        return c && c->several && member != CAPO_HANG_NONE &&
                               COUNT_OF(m, c->members, c->n_members,
                                        m->process == c->members[member].process) > 1
                       ? c->members[member].job_rank
                       : -1;
}

void hang_acquit(struct capo_hang_verdict *v)
{
        for (uint32_t i = 0; i < v->n_culprits; i++)
                v->accused[v->culprits[i].process] = false;
        v->n_culprits = 0;
        free(steal(&v->culprits));
}

static int by_rank(const void *a, const void *b, void *job)
{
        const struct capo_hang_culprit *x = a, *y = b;
        int order = CAPO_ORDER(x->elsewhere, y->elsewhere);

        order = order ?: CAPO_ORDER(capo_hang_culprit_rank(job, x), capo_hang_culprit_rank(job, y));
        return order ?: CAPO_ORDER(x->process, y->process);
}

void hang_sort_culprits(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        if (v->n_culprits > 1)
                qsort_r(v->culprits, v->n_culprits, sizeof *v->culprits, by_rank,
                        (void *)(uintptr_t)job);
}

bool hang_is_of(const struct capo_hang_process *p, const struct capo_hang_call *call, uint32_t comm,
                uint32_t member)
{
        return member == CAPO_HANG_NONE ||
               (call->comm == comm ? call->member == member
                                   : ANY_OF(c, p->calls, p->n_calls,
                                            c->comm == comm && c->member == member &&
                                                    c->thread == call->thread));
}

const struct capo_hang_call *hang_last_of(const struct capo_hang_process *p, uint32_t comm,
                                          uint32_t member)
{
        return LAST_OF(c, p->calls, p->n_calls, hang_is_of(p, c, comm, member));
}

const struct capo_hang_call *hang_running_of(const struct capo_hang_process *p, uint32_t comm,
                                             uint32_t member)
{
        const struct capo_hang_call *runs =
                FIRST_OF(c, p->calls, p->n_calls,
                         c->gpu == CAPO_HANG_GPU_RUNNING && hang_is_of(p, c, comm, member));

        return runs
                       ?: FIRST_OF(c, p->calls, p->n_calls,
                                   c->gpu == CAPO_HANG_GPU_BUSY && hang_is_of(p, c, comm, member));
}

const struct capo_hang_call *hang_made_as(const struct capo_hang_process *p, uint32_t comm,
                                          uint32_t seq)
{
        return FIRST_OF(c, p->calls, p->n_calls,
                        c->comm == comm && c->seq == seq &&
                                capo_call_kind(c->call) != CAPO_KIND_P2P);
}

const struct capo_hang_call **hang_made_by_all(const struct capo_hang_job *job, uint32_t comm,
                                               uint32_t seq)
{
        const struct capo_hang_comm *c = &job->comms[comm];
        const struct capo_hang_call **made = xcalloc(c->n_members + 1, sizeof(*made));

        for (uint32_t i = 0; i < c->n_members; i++)
                made[i] = hang_made_as(&job->processes[c->members[i].process], comm, seq);
        return made;
}
