/* SPDX-License-Identifier: Apache-2.0 */
/* Finds in lines of NCCL_DEBUG: calls in a different order, a call that some ranks have not made, a
 * communicator that was not created. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/calls.h"
#include "core/base/text.h"
#include "core/base/util.h"
#include "analysis/diagnose/debug_lines.h"
#include "analysis/hang/hang_load.h"

enum { BEHIND_ORDER = 16 };

/* ---- findings ---- */

/* "rank 3", or "host:pid". */
static char *process_words(const struct debug *d, uint32_t process, char *text)
{
        if (d->processes[process].rank >= 0)
                snprintf(text, DEBUG_NAME + 8, "rank %d", d->processes[process].rank);
        else
                snprintf(text, DEBUG_NAME + 8, "%s", d->processes[process].name);
        return text;
}

static void mark_last(const struct debug *d, struct capo_diagnose_finding *f, uint32_t process,
                      uint32_t comm, uint32_t seq)
{
        for (uint32_t i = 0; i < d->n_calls; i++) {
                const struct debug_call *call = &d->calls[i];
                const struct debug_comm *c = &d->comms[call->comm];

                if (c->process == process && c->number == comm &&
                    (c->rising ? call->op_count : call->nth) + 1 == seq)
                        capo_finding_mark(f, call->mark);
        }
}

/* Number of calls that the process made after the one it would wait in: if there are any, it did
 * not wait there. */
static uint32_t count_behind(const struct capo_hang_process *p, const struct capo_hang_step *s)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < p->n_calls; i++) {
                if (p->calls[i].comm == s->comm && p->calls[i].seq == s->seq)
                        n = p->n_calls - i - 1;
        }
        return n;
}

static void tell_order(const struct debug *d, const struct capo_hang_job *job,
                       const struct capo_hang_verdict *v, struct capo_diagnose_finding *f)
{
        char who[DEBUG_NAME + 8];

        f->rank = CAPO_RANK_HANG;
        f->kind = "order";
        for (uint32_t i = 0; i < v->n_steps; i++) {
                const struct capo_hang_step *s = &v->steps[i];

                if (count_behind(&job->processes[s->process], s) > BEHIND_ORDER)
                        f->rank = CAPO_RANK_NOTE; /* with so many calls after it, it got through */
                capo_finding_rank_add(f, d->processes[s->process].rank);
                mark_last(d, f, s->process, s->comm, s->seq);
                if (strlen(f->detail) < 350)
                        capo_append(f->detail, sizeof f->detail, "%s%s makes %s #%u of %s first",
                                    i ? "\n" : "", process_words(d, s->process, who),
                                    capo_call_name(s->call), s->seq, job->comms[s->comm].name);
        }
        if (capo_evidence_has("Destroy COMPLETE", d->e))
                f->rank = CAPO_RANK_NOTE;
        snprintf(f->headline, sizeof f->headline,
                 "TWO COMMUNICATORS ARE USED IN OPPOSITE ORDER by %s and %u other%s",
                 process_words(d, v->steps[0].process, who), v->n_steps - 1,
                 v->n_steps > 2 ? "s" : "");
        snprintf(f->missing, sizeof f->missing,
                 "whether the calls are in one ncclGroup, where the order does not matter: no line "
                 "shows it");
        snprintf(f->next, sizeof f->next,
                 "one order of communicators on all ranks; or wait for the first call before the "
                 "second; or NCCL 2.26 and NCCL_LAUNCH_ORDER_IMPLICIT=1");
}

static void tell_call(const struct debug *d, const struct capo_hang_job *job,
                      const struct capo_hang_verdict *v, struct capo_diagnose_finding *f)
{
        bool differs = v->kind == CAPO_HANG_MISMATCH;
        char who[DEBUG_NAME + 8];

        f->rank = differs || d->e->timed_out ? CAPO_RANK_HANG : CAPO_RANK_UNDECIDED;
        f->kind = differs ? "mismatch" : f->rank == CAPO_RANK_HANG ? "missing" : "undecided";
        f->sure = f->rank == CAPO_RANK_HANG ? "likely" : "unsure";
        for (uint32_t i = 0; i < v->n_culprits; i++) {
                uint32_t process = v->culprits[i].process;

                capo_finding_rank_add(f, d->processes[process].rank);
                if (job->processes[process].n_calls)
                        mark_last(d, f, process, v->comm,
                                  differs ? v->seq : job->comms[v->comm].members[0].issued);
        }
        for (uint32_t i = 0; i < job->comms[v->comm].n_members; i++)
                mark_last(d, f, job->comms[v->comm].members[i].process, v->comm, v->seq);
        process_words(d, v->culprits[0].process, who);
        if (differs)
                snprintf(f->headline, sizeof f->headline,
                         "%s MAKES ANOTHER CALL than the others as %s #%u of %s", who,
                         v->call ? capo_call_name(v->call->call) : "call", v->seq,
                         job->comms[v->comm].name);
        else
                snprintf(f->headline, sizeof f->headline, "%s%s HAS NOT MADE %s #%u of %s",
                         f->rank == CAPO_RANK_HANG ? "" : "IF THE JOB HANGS: ", who,
                         v->call ? capo_call_name(v->call->call) : "call", v->seq,
                         job->comms[v->comm].name);
        snprintf(f->detail, sizeof f->detail, "%u of %u ranks have made it", v->n_waiting,
                 v->n_ranks);
        snprintf(f->missing, sizeof f->missing,
                 "whether the lines of all ranks end at the same moment; stacks of %s", who);
        snprintf(f->next, sizeof f->next, "look at what %s does instead of that call", who);
}

static int judge_calls(struct debug *d)
{
        _cleanup_(capo_job_freep) struct capo_job *job = capo_job_new();
        struct capo_hang_job hang = {.now_ns = d->n_calls + 2};
        struct capo_hang_foreign to = {.job = job, .hang = &hang};
        struct capo_hang_verdict v = {0};
        struct capo_diagnose_finding *f;
        int r = job ? capo_debug_job(d, &to) : -ENOMEM;

        if (job)
                r = capo_hang_foreign_finish(&to, r);
        r = r ?: capo_hang_judge(&hang, &v);
        if (r == 0 && ((v.kind == CAPO_HANG_ORDER && v.n_steps > 1) ||
                       ((v.kind == CAPO_HANG_MISSING || v.kind == CAPO_HANG_MISMATCH) &&
                        v.n_culprits && v.comm != CAPO_HANG_NONE))) {
                f = capo_evidence_finding(d->e);
                if (!f)
                        r = -ENOMEM;
                else if (v.kind == CAPO_HANG_ORDER)
                        tell_order(d, &hang, &v, f);
                else
                        tell_call(d, &hang, &v, f);
        }
        capo_hang_verdict_finish(&v);
        capo_hang_job_finish(&hang);
        return r;
}

/* A communicator that ranks began to create, but that no rank completed. */
static int judge_creations(struct debug *d)
{
        for (uint32_t i = 0; i < d->n_comms; i++) {
                const struct debug_comm *c = &d->comms[i];
                struct capo_diagnose_finding *f;
                uint32_t n = 0, n_ended = 0;
                bool first = true;
                char ranks[128];
                int32_t list[CAPO_DIAGNOSE_RANKS];
                uint32_t n_list = 0;

                for (uint32_t k = 0; k < d->n_comms; k++) {
                        const struct debug_comm *o = &d->comms[k];

                        if (!*c->key || strcmp(o->key, c->key) != 0)
                                continue;
                        first &= k >= i;
                        n++;
                        n_ended += o->ended;
                }
                if (!first || !n || n_ended)
                        continue;
                f = capo_evidence_finding(d->e);
                if (!f)
                        return -ENOMEM;
                for (int32_t rank = 0; rank < c->n_ranks && n_list < N_ELEMENTS(list); rank++) {
                        bool there = false;

                        for (uint32_t k = 0; k < d->n_comms; k++)
                                there |= !strcmp(d->comms[k].key, c->key) &&
                                         d->comms[k].rank == rank;
                        if (!there)
                                list[n_list++] = rank;
                }
                for (uint32_t k = 0; k < d->n_comms; k++) {
                        if (!strcmp(d->comms[k].key, c->key))
                                capo_finding_mark(f, d->comms[k].mark);
                }
                f->rank = CAPO_RANK_UNDECIDED;
                f->kind = "birth";
                f->sure = "unsure";
                snprintf(
                        f->headline, sizeof f->headline,
                        "A COMMUNICATOR OF %d RANKS WAS NOT CREATED: %u began, none came to the end",
                        c->n_ranks, n);
                if (n_list)
                        snprintf(f->detail, sizeof f->detail, "no line of %s",
                                 capo_rank_list(list, n_list, ranks));
                snprintf(f->missing, sizeof f->missing, "%s",
                         n_list ? "the lines of these ranks, or that there are none"
                                : "what follows in the log, or that nothing does");
                snprintf(f->next, sizeof f->next,
                         "%sNCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,NET,P2P; then "
                         "NCCL_P2P_DISABLE=1, NCCL_CUMEM_ENABLE=0 one by one",
                         n_list ? "look at the ranks without a line; " : "");
        }
        return 0;
}

int capo_debug_judge(struct debug *d)
{
        int r = d->n_calls && !d->cut ? judge_calls(d) : 0;

        return r ?: judge_creations(d);
}
