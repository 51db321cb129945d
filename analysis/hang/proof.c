/* SPDX-License-Identifier: Apache-2.0 */
/* "Nothing hangs" is a claim about every rank of every communicator. It is made if each of them is
 * known and calls go on, or if all ranks ended by exit(0). Otherwise the verdict is undecided and
 * says what is missing. If all calls have ended and no new one comes for long, ranks may wait for
 * each other outside of NCCL, or compute: calls cannot tell. */
#include "analysis/hang/hang_judge.h"
#include "core/base/among.h"

uint32_t hang_count_unseen(const struct capo_hang_job *job)
{
        uint32_t most = job->n_processes, unseen = 0;

        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_hang_comm *c = &job->comms[i];

                most = c->n_members > most ? c->n_members : most;
                if (c->uid && c->n_ranks > 0 && (uint32_t)c->n_ranks > c->n_members + unseen)
                        unseen = (uint32_t)c->n_ranks - c->n_members;
        }
        if (job->n_ranks > 0 && (uint32_t)job->n_ranks > most + unseen)
                unseen = (uint32_t)job->n_ranks - most;
        return unseen;
}

/* Is the last call of @p on communicator @comm known to have ended on the GPU? A later one on its
 * stream proves it too. */
static bool last_call_ended(const struct capo_hang_process *p, uint32_t comm)
{
        const struct capo_hang_call *last = LAST_OF(
                c, p->calls, p->n_calls,
                c->comm == comm && (is_collective(c) || is_p2p(c)) && capo_hang_taken(c->result));

        return last && (last->captured /* reported as a graph */ ||
                        ANY_OF(c, last, p->calls + p->n_calls - last,
                               c->stream == last->stream && c->gpu == CAPO_HANG_GPU_ENDED));
}

bool hang_last_calls_unknown(const struct capo_hang_job *job)
{
        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_hang_comm *comm = &job->comms[i];

                for (uint32_t k = 0; k < comm->n_members; k++) {
                        const struct capo_hang_member *m = &comm->members[k];
                        const struct capo_hang_process *p = &job->processes[m->process];

                        if (p->life <= CAPO_HANG_STOPPED && !m->dead && !m->idle &&
                            (m->issued ||
                             ANY_OF(c, p->calls, p->n_calls,
                                    c->comm == i && (is_collective(c) || is_p2p(c)))) &&
                            !last_call_ended(p, i))
                                return true;
                }
        }
        return false;
}

static bool has_captured(const struct capo_hang_process *p)
{
        return ANY_OF(c, p->calls, p->n_calls, c->captured);
}

bool hang_prove_healthy(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        bool stale = ANY_OF(p, job->processes, job->n_processes, p->stale), unknown;

        v->gpu_unknown = !job->over && hang_last_calls_unknown(job);
        v->graphs_unknown =
                !job->over && ANY_OF(p, job->processes, job->n_processes, has_captured(p));
        if (v->kind == CAPO_HANG_SLOW && job->cut) { /* the time of the state is not known */
                v->kind = CAPO_HANG_UNDECIDED;
                v->sure = CAPO_HANG_UNSURE;
                hang_acquit(v);
        }
        if (v->kind != CAPO_HANG_HEALTHY)
                return false;
        v->unseen = hang_count_unseen(job);
        unknown = !job->over && v->still_ns >= job->after_ns &&
                  (v->gpu_unknown || v->p2p_unknown || v->graphs_unknown || job->partial);
        v->quiet = !job->over && !v->unseen && !stale && !unknown && job->n_processes &&
                   v->since_ns && v->still_ns >= job->after_ns;
        if (v->unseen || stale || !job->n_processes || unknown || v->quiet)
                v->kind = CAPO_HANG_UNDECIDED;
        return unknown;
}

/* The first call that failed since shortly before nothing moved; evidence for any verdict. */
static void find_first_failure(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        v->failed = CAPO_HANG_NONE;
        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_hang_process *p = &job->processes[i];

                for (uint32_t k = 0; k < p->n_calls; k++) {
                        const struct capo_hang_call *c = &p->calls[k];

                        if (!capo_hang_taken(c->result) &&
                            capo_hang_failed_ns(c) + job->after_ns >= v->since_ns &&
                            (!v->failure ||
                             capo_hang_failed_ns(c) < capo_hang_failed_ns(v->failure))) {
                                v->failed = i;
                                v->failure = c;
                        }
                }
        }
}

void hang_doubt(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        find_first_failure(job, v);
        v->queued = v->kind != CAPO_HANG_SLOW && hang_may_be_queued(job, v);
        /* does it say of a rank that it has not come, and that rank's last calls are not known? */
        v->lost = v->kind != CAPO_HANG_SLOW && v->kind != CAPO_HANG_INSIDE &&
                  v->kind != CAPO_HANG_ENDED &&
                  ANY_OF(c, v->culprits, v->n_culprits,
                         job->processes[c->process].lost &&
                                 (c->why == CAPO_HANG_WHY_HOST || c->why == CAPO_HANG_WHY_CALL ||
                                  c->why == CAPO_HANG_WHY_OTHER_CALLS ||
                                  v->kind == CAPO_HANG_MISMATCH || v->kind == CAPO_HANG_ORDER));
        if (v->queued || v->lost) {
                v->kind = CAPO_HANG_UNDECIDED;
                v->sure = CAPO_HANG_UNSURE;
                v->works_on = false;
                v->n_steps = 0;
                hang_acquit(v);
        }
        if (v->sure == CAPO_HANG_CERTAIN &&
            (job->counted || job->dropped ||
             (v->failed != CAPO_HANG_NONE && !v->accused[v->failed]) ||
             /* in host code it may be waiting in the launch of a graph */
             ANY_OF(c, v->culprits, v->n_culprits,
                    c->works_on || (c->why == CAPO_HANG_WHY_HOST &&
                                    has_captured(&job->processes[c->process])))))
                v->sure = CAPO_HANG_LIKELY;
}
