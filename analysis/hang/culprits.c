/* SPDX-License-Identifier: Apache-2.0 */
/* Culprits, and the calls of a process that the judgements ask about. */
#include <errno.h>
#include <stdlib.h>

#include "analysis/hang/hang_judge.h"
#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/util.h"

int hang_accuse(struct capo_hang_verdict *v, uint32_t process, enum capo_hang_why why,
                const struct capo_hang_call *call)
{
        if (v->accused[process])
                return 0;
        if (capo_array_room(&v->culprits, v->n_culprits, sizeof *v->culprits) < 0)
                return -ENOMEM;
        v->culprits[v->n_culprits++] =
                (struct capo_hang_culprit){.process = process, .why = why, .call = call};
        v->accused[process] = true;
        return 0;
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
        const struct capo_hang_process *of = ((const struct capo_hang_job *)job)->processes;
        const struct capo_hang_culprit *x = a, *y = b;
        int order = CAPO_ORDER(x->elsewhere, y->elsewhere);

        order = order ?: CAPO_ORDER(of[x->process].rank, of[y->process].rank);
        return order ?: CAPO_ORDER(x->process, y->process);
}

void hang_sort_culprits(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        if (v->n_culprits > 1)
                qsort_r(v->culprits, v->n_culprits, sizeof *v->culprits, by_rank,
                        (void *)(uintptr_t)job);
}

const struct capo_hang_call *hang_last(const struct capo_hang_process *p)
{
        return p->n_calls ? &p->calls[p->n_calls - 1] : NULL;
}

const struct capo_hang_call *hang_running(const struct capo_hang_process *p)
{
        const struct capo_hang_call *busy = NULL;

        for (uint32_t i = 0; i < p->n_calls; i++) {
                if (p->calls[i].gpu == CAPO_HANG_GPU_RUNNING)
                        return &p->calls[i];
                if (p->calls[i].gpu == CAPO_HANG_GPU_BUSY)
                        busy = busy ? busy : &p->calls[i];
        }
        return busy;
}

const struct capo_hang_call *hang_made_as(const struct capo_hang_process *p, uint32_t comm,
                                          uint32_t seq)
{
        for (uint32_t i = 0; i < p->n_calls; i++) {
                if (p->calls[i].comm == comm && p->calls[i].seq == seq &&
                    capo_call_kind(p->calls[i].call) != CAPO_KIND_P2P)
                        return &p->calls[i];
        }
        return NULL;
}
