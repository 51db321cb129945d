/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank ended first? An exit has a recorded time. For a killed process only the last time it
 * was alive is known, which is up to some 50 ms before its end, or more on a busy machine. So ends
 * less than half a second apart need other evidence: one exit status while the others were killed,
 * or that the others had waited for that rank. */
#include "capo/call_ids.h"
#include "analysis/hang/hang_judge.h"
#include "core/base/among.h"

#define SURE_NS      1000000000 /* the order of ends this far apart is certain */
#define HEARTBEAT_NS 50000000   /* the order of signs of life that are closer is chance */
#define WAITED_NS    1000000000 /* a wait this long is for a rank that does not come */

static bool ended_badly(const struct capo_hang_process *p)
{
        return p->ending == CAPO_HANG_BY_KILL || p->exit_status > 0;
}

typedef bool is_process(const struct capo_hang_job *job, const struct capo_hang_verdict *v,
                        const struct capo_hang_process *of, uint64_t first_ns);

/* The only process for which @is holds among those that ended within HANG_TOGETHER_NS of @first_ns.
 * NONE: no such process, or several. */
static uint32_t find_only(const struct capo_hang_job *job, const struct capo_hang_verdict *v,
                          is_process *is, uint64_t first_ns)
{
        const struct capo_hang_process *found = NULL;
        uint32_t n = 0;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_hang_process *p = &job->processes[i];

                if (p->end_ns <= first_ns + HANG_TOGETHER_NS && is(job, v, p, first_ns)) {
                        found = p;
                        n++;
                }
        }
        return n == 1 ? (uint32_t)(found - job->processes) : CAPO_HANG_NONE;
}

static bool is_failed_exit(const struct capo_hang_job *job, const struct capo_hang_verdict *v,
                           const struct capo_hang_process *of, uint64_t first_ns)
{
        return of->ending == CAPO_HANG_BY_EXIT && of->exit_status > 0;
}

/* The only killed one, if all others ended after its last sign of life, by exit() with an error or
 * killed during their exit. (Ending a job kills more than one process; these failed because of its
 * death.) */
static bool is_only_kill(const struct capo_hang_job *job, const struct capo_hang_verdict *v,
                         const struct capo_hang_process *of, uint64_t first_ns)
{
        return of->ending == CAPO_HANG_BY_KILL && job->n_processes > 2 &&
               ALL_OF(p, job->processes, job->n_processes,
                      p == of || (p->ending == CAPO_HANG_BY_EXIT && p->exit_status != 0 &&
                                  p->end_ns > of->end_ns));
}

/* When a whole job is cancelled, the rank that was late then is no cause. A short wait counts for a
 * rank whose exit with an error is recorded, before the end of all others. */
static bool is_awaited(const struct capo_hang_job *job, const struct capo_hang_verdict *v,
                       const struct capo_hang_process *of, uint64_t first_ns)
{
        return v->accused[of - job->processes] &&
               (v->still_ns >= WAITED_NS ||
                (is_failed_exit(job, v, of, first_ns) &&
                 ALL_OF(p, job->processes, job->n_processes, p == of || p->end_ns > of->end_ns)));
}

/* Of those that ended together, the only one that others had waited for, if it ended before them. */
static uint32_t find_awaited(const struct capo_hang_job *job, const struct capo_hang_verdict *v,
                             uint64_t first_ns)
{
        uint32_t found = find_only(job, v, is_awaited, first_ns);
        const struct capo_hang_process *f = found != CAPO_HANG_NONE ? &job->processes[found] : NULL;

        return f && f->ending == CAPO_HANG_BY_KILL &&
                               ANY_OF(p, job->processes, job->n_processes,
                                      p != f && p->end_ns < f->end_ns + HEARTBEAT_NS)
                       ? CAPO_HANG_NONE
                       : found;
}

/* Has no call of it failed? Others fail, or abort a communicator, because of an end at @first_ns. */
static bool has_not_failed(const struct capo_hang_process *p, uint64_t first_ns)
{
        return ALL_OF(c, p->calls, p->n_calls,
                      capo_hang_taken(c->result) &&
                              (c->call != CAPO_CALL_COMMABORT || c->begin_ns <= first_ns));
}

static bool is_unfailed(const struct capo_hang_job *job, const struct capo_hang_verdict *v,
                        const struct capo_hang_process *of, uint64_t first_ns)
{
        return ended_badly(of) && has_not_failed(of, first_ns) &&
               ALL_OF(p, job->processes, job->n_processes, p == of || !has_not_failed(p, first_ns));
}

/* May another process have ended before @found? @surely: its end is recorded, or it was silent for
 * two heartbeats by then. A process that is killed or leaves by _exit() records no end. */
static bool is_behind(const struct capo_hang_job *job, uint32_t found, bool surely)
{
        const struct capo_hang_process *f = &job->processes[found];
        const uint64_t silent = 2 * HEARTBEAT_NS;
        uint64_t end_ns = f->end_ns + (!surely && f->ending == CAPO_HANG_BY_KILL ? silent : 0);

        return ANY_OF(p, job->processes, job->n_processes,
                      p != f && ended_badly(p) &&
                              p->end_ns + (surely && p->ending == CAPO_HANG_BY_KILL ? silent : 0) <
                                      end_ns);
}

/* The process that ended first, and how certain that is; NONE: not known. */
static uint32_t find_first(const struct capo_hang_job *job, struct capo_hang_verdict *v,
                           enum capo_hang_sure *sure)
{
        static is_process *const evidence[] = {is_failed_exit, is_only_kill, is_unfailed};
        uint32_t first = CAPO_HANG_NONE, found;
        const struct capo_hang_process *f;
        uint64_t first_ns;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_hang_process *p = &job->processes[i];

                if ((ended_badly(p) || (v->accused[i] && p->ending != CAPO_HANG_RUNS)) &&
                    (first == CAPO_HANG_NONE || p->end_ns < job->processes[first].end_ns))
                        first = i; /* a process that ended well and that no other waited for is no
                                      cause */
        }
        f = &job->processes[first];
        first_ns = f->end_ns;
        v->together = COUNT_OF(p, job->processes, job->n_processes,
                               p->end_ns >= first_ns && p->end_ns <= first_ns + HANG_TOGETHER_NS);
        /* a process that was stopped gives no sign of life either, and is killed with the others */
        *sure = (f->ending == CAPO_HANG_BY_EXIT || !job->over) &&
                                !ANY_OF(p, job->processes, job->n_processes,
                                        p != f && p->end_ns >= first_ns &&
                                                p->end_ns < first_ns + SURE_NS)
                        ? CAPO_HANG_CERTAIN
                        : CAPO_HANG_LIKELY;
        if (v->together == 1 && ended_badly(f))
                return first;
        *sure = CAPO_HANG_LIKELY;
        found = CAPO_HANG_NONE;
        for (size_t i = 0; i < N_ELEMENTS(evidence) && found == CAPO_HANG_NONE; i++)
                found = find_only(job, v, evidence[i], first_ns);
        if (found == CAPO_HANG_NONE)
                found = find_awaited(job, v, first_ns);
        return found != CAPO_HANG_NONE && is_behind(job, found, true) ? CAPO_HANG_NONE : found;
}

/* The others waited long for one rank and were then killed. If that rank was exiting with an error,
 * which can take long, this was a failure and not a hang. */
static bool ended_by_failure(const struct capo_hang_job *job, const struct capo_hang_verdict *v)
{
        const struct capo_hang_process *failed =
                FIRST_OF(p, job->processes, job->n_processes, p->ending != CAPO_HANG_BY_KILL);

        return failed && v->accused[failed - job->processes] && failed->exit_status > 0 &&
               failed->end_ns + job->after_ns > job->now_ns &&
               COUNT_OF(p, job->processes, job->n_processes, p->ending == CAPO_HANG_BY_KILL) + 1 ==
                       job->n_processes;
}

/* Keeps the call in which the others waited for @process if the verdict names that call. If calls
 * were dropped, the last ones are unknown, so numbers are not compared. */
static void keep_call(const struct capo_hang_job *job, struct capo_hang_verdict *v,
                      uint32_t process)
{
        if (!job->dropped && v->kind != CAPO_HANG_MISMATCH && v->kind != CAPO_HANG_ORDER &&
            ANY_OF(c, v->culprits, v->n_culprits, c->process == process && !c->elsewhere))
                return;
        v->call = NULL;
        v->comm = CAPO_HANG_NONE;
        v->seq = v->n_waiting = 0;
}

/* How long no call had begun or returned when the first process ended badly. */
static uint64_t find_quiet(const struct capo_hang_job *job)
{
        uint64_t end_ns = UINT64_MAX, last_ns = 0;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                if (ended_badly(&job->processes[i]) && job->processes[i].end_ns < end_ns)
                        end_ns = job->processes[i].end_ns;
        }
        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_hang_process *p = &job->processes[i];
                uint64_t t = MOST_OF(c, p->calls, p->n_calls,
                                     c->end_ns <= end_ns && c->end_ns > c->begin_ns ? c->end_ns
                                     : c->begin_ns <= end_ns                        ? c->begin_ns
                                                                                    : 0);

                last_ns = t > last_ns ? t : last_ns;
        }
        return last_ns && end_ns != UINT64_MAX ? end_ns - last_ns : 0;
}

/* Have the processes that are left made calls for long since the last end? They go on without it, as
 * with ncclCommShrink(). */
static bool goes_on(const struct capo_hang_job *job)
{
        uint64_t end_ns =
                MOST_OF(p, job->processes, job->n_processes, ended_badly(p) ? p->end_ns : 0);

        return ANY_OF(p, job->processes, job->n_processes, p->ending == CAPO_HANG_RUNS) &&
               ALL_OF(p, job->processes, job->n_processes,
                      p->ending != CAPO_HANG_RUNS ||
                              capo_hang_active_ns(p) >= end_ns + HANG_MOMENT_NS);
}

/* NCCL EP masked a rank, and the ranks that were told (ncclEpGetAsyncError) ended on that: their
 * last call is that answer. The masked rank is the one with the fewest calls. NONE: not so. */
static uint32_t find_masked(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        uint32_t found = CAPO_HANG_NONE, least = UINT32_MAX, told = 0;
        const struct capo_hang_call *last = NULL;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_hang_process *p = &job->processes[i];
                const struct capo_hang_call *c = hang_last(p);

                if (p->ending == CAPO_HANG_RUNS || !c || c->call != CAPO_CALL_EPGETASYNCERROR ||
                    c->comm == CAPO_HANG_NONE)
                        continue;
                last = c;
                told++;
        }
        for (uint32_t i = 0; last && i < job->comms[last->comm].n_members; i++) {
                const struct capo_hang_member *m = &job->comms[last->comm].members[i];

                found = m->issued < least    ? m->process
                        : m->issued == least ? CAPO_HANG_NONE
                                             : found;
                least = m->issued < least ? m->issued : least;
        }
        if (found != CAPO_HANG_NONE) {
                v->comm = last->comm;
                v->call = NULL;
                v->n_waiting = told;
        }
        return found;
}

void hang_judge_ended(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        const struct capo_hang_process *p;
        const struct capo_hang_call *in;
        enum capo_hang_sure sure;
        uint32_t first;
        bool bad = ANY_OF(of, job->processes, job->n_processes, ended_badly(of));

        if (bad && v->still_ns >= job->after_ns && /* ranks had waited for long */
            ((v->n_culprits && v->kind != CAPO_HANG_SLOW && !v->works_on &&
              !ended_by_failure(job, v)) ||
             /* perhaps for an unknown one */
             (v->kind == CAPO_HANG_UNDECIDED && v->call && v->unseen)))
                return;
        v->n_steps = 0;
        if (bad && !job->over && goes_on(job))
                return;
        if (!bad) {
                v->works_on = false;
                hang_acquit(v);
                if (job->over)
                        v->kind = CAPO_HANG_HEALTHY;
                return;
        }
        v->quiet_ns = find_quiet(job);
        v->unseen = hang_count_unseen(job);
        first = find_masked(job, v);
        if (first != CAPO_HANG_NONE) {
                v->works_on = false;
                hang_acquit(v);
                v->kind = CAPO_HANG_ENDED;
                v->sure = CAPO_HANG_LIKELY;
                hang_accuse(v, first, CAPO_HANG_WHY_MASKED, hang_last(&job->processes[first]));
                return;
        }
        first = find_first(job, v, &sure);
        if (first == CAPO_HANG_NONE && v->works_on && !v->unseen) {
                v->together = 0;
                return; /* a job in which ranks had waited for long was ended */
        }
        v->works_on = false;
        if (first == CAPO_HANG_NONE || v->unseen) {
                hang_acquit(v);
                v->together = v->unseen ? 0 : v->together;
                v->kind = CAPO_HANG_UNDECIDED;
                v->sure = CAPO_HANG_UNSURE;
                v->call = NULL;
                v->comm = CAPO_HANG_NONE;
                return;
        }
        keep_call(job, v, first);
        hang_acquit(v);
        p = &job->processes[first];
        in = capo_hang_inside(p);
        v->kind = CAPO_HANG_ENDED;
        v->sure = sure;
        v->unordered = is_behind(job, first, false);
        v->together = 0;
        v->n_after = COUNT_OF(of, job->processes, job->n_processes,
                              of != p && of->ending != CAPO_HANG_RUNS);
        v->since_ns = p->end_ns;
        v->still_ns = job->now_ns > p->end_ns ? job->now_ns - p->end_ns : 0;
        hang_accuse(v, first,
                    p->exit_status > 0               ? CAPO_HANG_WHY_FAILED
                    : p->ending == CAPO_HANG_BY_EXIT ? CAPO_HANG_WHY_EXITED
                                                     : CAPO_HANG_WHY_GONE,
                    in ? in : hang_last(p));
}
