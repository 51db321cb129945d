/* SPDX-License-Identifier: Apache-2.0 */
/* How long nothing has moved. A process may have several threads with their own communicators: a
 * thread's activity says nothing about a call that another thread owes. So for a rank that others
 * wait for on a communicator, only threads that have made calls there count. */
#include "analysis/hang/hang_judge.h"
#include "core/base/among.h"

#define SLOWER 4 /* times as long as the mean may a call take, before it is held for stuck */

bool hang_uses(const struct capo_hang_process *p, uint32_t comm, uint16_t thread)
{
        return ANY_OF(c, p->calls, p->n_calls, c->comm == comm && c->thread == thread);
}

bool hang_knows_threads(const struct capo_hang_process *p, uint32_t comm)
{
        return comm != CAPO_HANG_NONE && ANY_OF(c, p->calls, p->n_calls, c->comm == comm);
}

/* When the threads of @p that make calls on @comm last began or ended any call. If no such thread
 * is known, all threads count. */
static uint64_t moved_ns(const struct capo_hang_process *p, uint32_t comm)
{
        uint16_t seen[8];
        uint32_t n_seen = 0;
        uint64_t t = 0;

        if (!hang_knows_threads(p, comm))
                return capo_hang_active_ns(p);
        for (uint32_t i = p->n_calls; i-- > 0;) {
                const struct capo_hang_call *c = &p->calls[i];
                uint64_t at = c->end_ns > c->begin_ns ? c->end_ns : c->begin_ns;

                if (at <= t || ANY_OF(of, seen, n_seen, *of == c->thread))
                        continue; /* or a call on another communicator */
                if (hang_uses(p, comm, c->thread))
                        t = at;
                else if (n_seen < N_ELEMENTS(seen))
                        seen[n_seen++] = c->thread;
        }
        return t;
}

/* The communicator in which the others wait for culprit @c, or in which it is stuck itself. */
static uint32_t comm_of_culprit(const struct capo_hang_verdict *v,
                                const struct capo_hang_culprit *c)
{
        const struct capo_hang_step *step =
                FIRST_OF(s, v->steps, v->n_steps, s->process == c->process);

        if (step)
                return step->comm;
        if (c->elsewhere)
                return c->comm;
        if ((v->kind == CAPO_HANG_INSIDE || v->kind == CAPO_HANG_RUNNING) && c->call)
                return c->call->comm;
        return v->comm;
}

/* Calls that a stop held up have the time after it to end. @since_ns: when the last call moved.
 * Return: the end of a stop that covers most of the time from @since_ns on; else @since_ns. */
static uint64_t resumed_since(const struct capo_hang_job *job, uint64_t since_ns)
{
        uint64_t t = since_ns;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_hang_process *p = &job->processes[i];
                uint64_t from = p->paused_ns > since_ns ? p->paused_ns : since_ns;

                if (p->resumed_ns > from && p->resumed_ns - from > (p->resumed_ns - since_ns) / 2 &&
                    p->resumed_ns > t)
                        t = p->resumed_ns;
        }
        return t;
}

/* When the GPU of @p was last seen to end a call of @comm, or one on a stream that the last ones of @comm
 * are on. 0: it was not. */
static uint64_t ended_ns(const struct capo_hang_process *p, uint32_t comm)
{
        const struct capo_hang_call *last = LAST_OF(c, p->calls, p->n_calls, c->comm == comm);

        return MOST_OF(e, p->ended, p->n_ended,
                       e->comm == comm || (last && last->stream == e->stream) ? e->at_ns : 0);
}

void hang_set_still(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        uint64_t active = 0;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_hang_process *p = &job->processes[i];
                uint64_t called = capo_hang_active_ns(p),
                         ended = MOST_OF(e, p->ended, p->n_ended, e->at_ns);

                active = called > active ? called : active;
                active = ended > active ? ended : active;
        }
        v->waits_ns = v->since_ns;
        for (struct capo_hang_culprit *c = v->culprits; c < PAST_OF(v->culprits, v->n_culprits);
             c++) {
                const struct capo_hang_process *p = &job->processes[c->process];
                uint32_t comm = comm_of_culprit(v, c);
                uint64_t t = moved_ns(p, comm), ended = ended_ns(p, comm);

                c->works_on = capo_hang_active_ns(p) >= t + HANG_MOMENT_NS;
                t = ended > t ? ended : t;
                v->since_ns = t > v->since_ns ? t : v->since_ns;
        }
        if (!v->since_ns)
                v->since_ns = active;
        if ((v->kind == CAPO_HANG_RUNNING || v->kind == CAPO_HANG_INSIDE) && !job->over) {
                v->since_ns = resumed_since(job, v->since_ns);
                v->waits_ns = resumed_since(job, v->waits_ns);
        }
        v->still_ns = job->now_ns > v->since_ns ? job->now_ns - v->since_ns : 0;
}

/* Can the GPU be busy at @now_ns with calls between the last that was seen to end and the next that is
 * timed? A host can be far ahead of its GPU, and waits for the queue in no call that capo records. */
static bool may_go_on(const struct capo_hang_process *p, uint32_t comm, uint64_t now_ns)
{
        const struct capo_hang_ended *e =
                FIRST_OF(of, p->ended, p->n_ended, of->comm == comm && of->at_ns);
        double left = e ? (double)e->next_seq - (double)e->seq : 0;

        return left > 1 && (double)e->at_ns + SLOWER * left * (double)e->each_ns > (double)now_ns;
}

bool hang_may_be_queued(const struct capo_hang_job *job, const struct capo_hang_verdict *v)
{
        return ANY_OF(
                c, v->culprits, v->n_culprits,
                (c->why == CAPO_HANG_WHY_HOST || c->why == CAPO_HANG_WHY_GPU) &&
                        may_go_on(&job->processes[c->process], comm_of_culprit(v, c), job->now_ns));
}

bool hang_waits_on_worker(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        bool found = false;

        if (job->cut || job->counted || !v->waits_ns || v->waits_ns + job->after_ns > job->now_ns)
                return false;
        for (struct capo_hang_culprit *c = v->culprits; c < PAST_OF(v->culprits, v->n_culprits);
             c++) {
                if ((c->why == CAPO_HANG_WHY_HOST || c->why == CAPO_HANG_WHY_CALL ||
                     c->why == CAPO_HANG_WHY_GPU) &&
                    moved_ns(&job->processes[c->process], comm_of_culprit(v, c)) + job->after_ns >
                            job->now_ns) {
                        c->why = CAPO_HANG_WHY_OTHER_CALLS;
                        found = true;
                }
        }
        if (!found)
                return false;
        v->kind = CAPO_HANG_UNDECIDED;
        v->sure = CAPO_HANG_UNSURE;
        v->works_on = true;
        v->since_ns = v->waits_ns;
        v->still_ns = job->now_ns - v->since_ns;
        return true;
}
