/* SPDX-License-Identifier: Apache-2.0 */
/* Cases without a rank that waits for another: uses the states of processes and GPUs besides the
 * calls. */

#include "analysis/hang/hang_judge.h"
#include "core/base/among.h"

/* Was a member of @comm killed, and has no other member's GPU completed a call since? @in: the call
 * that one of these is in. */
static bool lost_in(const struct capo_hang_job *job, uint32_t comm, uint32_t process,
                    const struct capo_hang_call **in)
{
        const struct capo_hang_comm *c = &job->comms[comm];
        uint32_t standing = 0;

        for (uint32_t i = 0; i < c->n_members; i++) {
                const struct capo_hang_process *p = &job->processes[c->members[i].process];
                const struct capo_hang_call *last = hang_last(p);

                if (c->members[i].process == process || p->life > CAPO_HANG_STOPPED ||
                    c->members[i].dead)
                        continue;
                if (!last || capo_hang_is_lifecycle(last) || last->gpu == CAPO_HANG_GPU_ENDED ||
                    capo_hang_active_ns(p) > job->processes[process].end_ns + HANG_MOMENT_NS)
                        return false;
                *in = last->comm == comm ? last : *in;
                standing++;
        }
        return standing > 0;
}

void hang_judge_lost(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        for (uint32_t i = 0; i < job->n_comms; i++) {
                for (uint32_t k = 0; k < job->comms[i].n_members; k++) {
                        const struct capo_hang_member *m = &job->comms[i].members[k];
                        const struct capo_hang_process *p = &job->processes[m->process];
                        const struct capo_hang_call *in = NULL;

                        /* a rank that was stuck like the others before it was killed is no cause:
                         * the hung job was ended, and killing takes time */
                        if (p->life != CAPO_HANG_KILLED || m->dead ||
                            (!job->over && job->now_ns < p->end_ns + HANG_MOMENT_NS) ||
                            !capo_hang_gone(job, m->process) || !lost_in(job, i, m->process, &in))
                                continue;
                        /* it had made the call that the others are in */
                        v->kind = in && is_collective(in) && in->seq <= m->issued
                                          ? CAPO_HANG_RUNNING
                                          : CAPO_HANG_MISSING;
                        v->sure = CAPO_HANG_LIKELY;
                        v->comm = i;
                        v->call = v->kind == CAPO_HANG_RUNNING ? in : NULL;
                        v->seq = v->call ? in->seq : m->issued + 1;
                        v->n_ranks = job->comms[i].n_members;
                        v->n_waiting = v->n_ranks - 1;
                        v->since_ns = p->end_ns;
                        hang_accuse(v, m->process, CAPO_HANG_WHY_GONE, hang_last(p));
                        return;
                }
        }
}

void hang_judge_inside(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        for (int host = 1; host >= 0 && !v->n_culprits; host--) {
                for (uint32_t i = 0; i < job->n_processes; i++) {
                        const struct capo_hang_process *p = &job->processes[i];
                        const struct capo_hang_call *c =
                                host ? capo_hang_inside(p) : hang_running(p);

                        if (!c || p->life > CAPO_HANG_STOPPED)
                                continue;
                        if (!v->n_culprits) {
                                v->call = c;
                                v->comm = c->comm;
                                v->seq = c->seq;
                                v->kind = host ? CAPO_HANG_INSIDE : CAPO_HANG_RUNNING;
                                v->sure = CAPO_HANG_LIKELY;
                        }
                        v->busy |= c->gpu == CAPO_HANG_GPU_BUSY;
                        v->n_waiting++;
                        hang_accuse(v, i,
                                    p->life == CAPO_HANG_STOPPED ? CAPO_HANG_WHY_STOPPED
                                    : host                       ? CAPO_HANG_WHY_CALL
                                                                 : CAPO_HANG_WHY_GPU,
                                    c);
                        if (c->begin_ns > v->since_ns)
                                v->since_ns = c->begin_ns;
                }
        }
        if (v->n_culprits)
                v->n_ranks = v->comm != CAPO_HANG_NONE ? job->comms[v->comm].n_members
                                                       : job->n_processes;
        if (v->n_culprits && v->comm != CAPO_HANG_NONE &&
            job->comms[v->comm].n_ranks > (int32_t)v->n_ranks) {
                v->unseen = (uint32_t)job->comms[v->comm].n_ranks -
                            v->n_ranks; /* one of these may not have entered */
                v->kind = CAPO_HANG_UNDECIDED;
                v->sure = CAPO_HANG_UNSURE;
                hang_acquit(v);
        }
}

bool hang_all_are_in(const struct capo_hang_verdict *v)
{
        return (v->kind == CAPO_HANG_RUNNING || v->kind == CAPO_HANG_INSIDE) && v->n_ranks > 1 &&
               v->n_culprits >= v->n_ranks;
}

/* May this culprit be waiting itself? If no GPU is known to have ended its last call, a rank in
 * host code may wait for that call. */
static bool may_only_wait(const struct capo_hang_job *job, const struct capo_hang_culprit *c)
{
        const struct capo_hang_call *last = hang_last(&job->processes[c->process]);

        switch (c->why) {
        case CAPO_HANG_WHY_GPU:
        case CAPO_HANG_WHY_CALL:
        case CAPO_HANG_WHY_STOPPED: return true;
        case CAPO_HANG_WHY_HOST: return last && last->gpu != CAPO_HANG_GPU_ENDED;
        default: return false;
        }
}

static void accuse_stopped(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_hang_process *p = &job->processes[i];

                if (p->life == CAPO_HANG_STOPPED)
                        hang_accuse(v, i, CAPO_HANG_WHY_STOPPED,
                                    capo_hang_inside(p) ?: hang_last(p));
        }
}

/* The threads of a stopped process also serve its network. So the other GPUs do not finish a call
 * that it has entered. */
void hang_judge_stopped(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        bool inside = v->kind == CAPO_HANG_INSIDE, missing = v->kind == CAPO_HANG_MISSING,
             known = false;
        uint32_t stopped = 0,
                 waiting = 0; /* stopped processes; those of them that count as waiting */

        for (uint32_t i = 0; i < job->n_processes; i++) {
                if (job->processes[i].life != CAPO_HANG_STOPPED)
                        continue;
                stopped++;
                known |= v->accused[i] && !inside && v->kind != CAPO_HANG_UNDECIDED;
                waiting += missing ? hang_made_as(&job->processes[i], v->comm, v->seq) != NULL
                                   : v->accused[i];
        }
        /* calls that differ, circles and ended ranks keep their verdict */
        if (job->over || !stopped ||
            !(v->kind == CAPO_HANG_HEALTHY
                      ? hang_last_calls_unknown(job)
                      : (v->n_culprits || v->kind == CAPO_HANG_UNDECIDED) &&
                                ALL_OF(c, v->culprits, v->n_culprits, may_only_wait(job, c))))
                return;
        hang_acquit(v);
        if (!known) { /* it is in the call, like those that wait */
                v->kind = inside ? CAPO_HANG_INSIDE : CAPO_HANG_RUNNING;
                v->sure = CAPO_HANG_LIKELY;
                v->n_waiting -= waiting < v->n_waiting ? waiting : v->n_waiting;
        }
        for (uint32_t i = 0; i < job->n_processes && !known; i++) { /* no process makes a call */
                uint64_t t = capo_hang_active_ns(&job->processes[i]);

                v->since_ns = t > v->since_ns ? t : v->since_ns;
        }
        accuse_stopped(job, v);
}

void hang_judge_pause(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        if (job->over || (v->kind != CAPO_HANG_HEALTHY && !v->quiet) || v->still_ns < job->after_ns)
                return;
        accuse_stopped(job, v);
        if (v->n_culprits)
                v->kind = CAPO_HANG_UNDECIDED;
}
