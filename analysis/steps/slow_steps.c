/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds which rank delayed the slowest steps. The collectives of each step are compared on all
 * ranks, as in analysis/job/skew.h. If all ranks timed a call on the GPU, the one with the shortest
 * time came last. Otherwise, if all ranks share a clock, the one whose host made the call last did.
 * The last rank is charged with the waiting of the others: by GPU time in each call; by host time
 * only once per step, because a host that is behind stays behind from call to call.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job/clocks.h"
#include "analysis/job/log_calls.h"
#include "analysis/steps/job_steps.h"
#include "analysis/steps/steps_job_parts.h"
#include "capo/record.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"

/* Limits per step: calls compared, ranks compared. */
enum { CALLS_SEEN = 256, RANKS_SEEN = 64 };
#define MUCH_LONGER 1.2  /* times the median: a slow step */
#define STANDS_OUT  0.5  /* share of all waiting in the step */
#define MATTERS     0.25 /* share of the time by which the step is longer than others */

/* A call of a slow step, with the times of each rank. */
struct seen_call {
        uint32_t step, comm, seq;
        double begin[RANKS_SEEN], gpu[RANKS_SEEN]; /* begin: NAN: not seen; gpu: 0: not timed */
};

struct seen {
        struct seen_call *call; /* sorted by communicator and number */
        uint32_t n;
        uint32_t process[RANKS_SEEN], n_ranks;
        const uint32_t *comms; /* of the log being read */
        uint32_t rank;
        const struct capo_clocks *clocks;
};

static int by_length(const void *a, const void *b)
{
        const struct capo_slow_step *x = a, *y = b;

        return CAPO_ORDER(y->ns, x->ns) ?: CAPO_ORDER(x->number, y->number);
}

static void pick_slowest(const struct capo_clocks *clocks, struct capo_job_steps *s)
{
        for (uint32_t i = 0; i < s->steps.n; i++) {
                struct capo_slow_step slow = {
                        .number = i, .ns = s->steps.step[i].ns, .process = UINT32_MAX};

                if ((double)slow.ns < MUCH_LONGER * s->steps.p50_ns)
                        continue;
                if (s->n_slow == CAPO_SLOW_STEPS && slow.ns <= s->slow[s->n_slow - 1].ns)
                        continue;
                slow.at_s = capo_clocks_ns(clocks, s->process, s->steps.step[i].t_ns) / 1e9;
                s->n_slow += s->n_slow < CAPO_SLOW_STEPS;
                s->slow[s->n_slow - 1] = slow;
                qsort(s->slow, s->n_slow, sizeof s->slow[0], by_length);
        }
}

static int by_number(const void *a, const void *b)
{
        const struct seen_call *x = a, *y = b;

        return CAPO_ORDER(x->comm, y->comm) ?: CAPO_ORDER(x->seq, y->seq);
}

/* Pick collectives of the slow steps, at most CALLS_SEEN per step. */
static void pick_calls(const struct step_log *log, const struct capo_job_steps *s,
                       struct seen *seen)
{
        seen->call = xcalloc((size_t)s->n_slow * CALLS_SEEN + 1, sizeof *seen->call);
        for (uint32_t k = 0; k < s->n_slow; k++) {
                const struct capo_step *step = &s->steps.step[s->slow[k].number];
                uint32_t each = step->n / CALLS_SEEN + 1;

                for (uint32_t i = 0; i < step->n && step->first + i < log->n; i += each) {
                        const struct capo_step_call *c = &log->call[step->first + i];
                        struct seen_call *to = &seen->call[seen->n];

                        if (!capo_call_is_collective(c->call) || !c->comm || !c->seq)
                                continue;
                        *to = (struct seen_call){.step = k, .comm = c->comm, .seq = c->seq};
                        for (uint32_t r = 0; r < RANKS_SEEN; r++)
                                to->begin[r] = NAN;
                        seen->n++;
                }
        }
        if (seen->n)
                qsort(seen->call, seen->n, sizeof *seen->call, by_number);
}

static int see_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct seen *s = arg;
        struct seen_call key = {.comm = s->comms[r->comm], .seq = r->seq}, *c;

        if (!key.comm || !capo_call_is_collective(r->call) || r->flags & CAPO_RECORD_GROUP)
                return 0;
        c = bsearch(&key, s->call, s->n, sizeof *s->call, by_number);
        if (!c)
                return 0;
        c->begin[s->rank] = capo_clocks_ns(s->clocks, s->process[s->rank], r->t_begin);
        c->gpu[s->rank] = r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL
                                  ? (double)r->gpu_ns
                                  : 0;
        return 0;
}

static void see_rank(const struct capo_job *job, struct seen *s)
{
        struct capo_log *log = capo_job_log(job, s->process[s->rank]);
        _cleanup_free_ uint32_t *comms = xcalloc(65536, sizeof *comms);

        if (!log)
                return;
        step_log_comms(job, s->process[s->rank], comms);
        s->comms = comms;
        capo_log_calls_each(log, see_call, s);
        capo_log_park(log);
}

/* Which rank came last in the call, and how long each other rank waited, by GPU times or host
 * times. False: not known. */
static bool judge_call(const struct capo_job *job, const struct seen *s, const struct seen_call *c,
                       uint32_t *last, double *waited, bool *by_gpu)
{
        const struct capo_job_comm *comm = &job->comms[c->comm - 1];
        double start[RANKS_SEEN], latest = -INFINITY;
        bool gpu = true, host = true;
        uint32_t n = 0, clock = UINT32_MAX;

        for (uint32_t i = 0; i < s->n_ranks; i++) {
                uint32_t own = job->processes[s->process[i]].clock;

                if (isnan(c->begin[i]))
                        continue;
                n++;
                gpu &= c->gpu[i] > 0;
                host &= clock == UINT32_MAX || clock == own;
                clock = own;
        }
        if (n < 2 || (comm->n_ranks <= RANKS_SEEN && n < comm->n_members) || (!gpu && !host))
                return false;
        for (uint32_t i = 0; i < s->n_ranks; i++) {
                start[i] = isnan(c->begin[i]) ? NAN : gpu ? -c->gpu[i] : c->begin[i];
                if (start[i] > latest) {
                        latest = start[i];
                        *last = i;
                }
        }
        *by_gpu = gpu;
        *waited = 0;
        for (uint32_t i = 0; i < s->n_ranks; i++)
                *waited += isnan(start[i]) ? 0 : (latest - start[i]) / (n - 1);
        return true;
}

/* Waiting in overlapping calls is counted several times, so the sum is capped at the step. */
static void judge_step(const struct capo_job *job, const struct seen *s, uint32_t k,
                       double usual_ns, struct capo_slow_step *slow)
{
        double on_gpu[RANKS_SEEN] = {0}, on_host[RANKS_SEEN] = {0}, all = 0, largest = 0, waited;
        uint32_t most = 0, last = 0;
        bool by_gpu;

        for (uint32_t i = 0; i < s->n; i++) {
                if (s->call[i].step != k ||
                    !judge_call(job, s, &s->call[i], &last, &waited, &by_gpu))
                        continue;
                slow->calls++;
                if (by_gpu)
                        on_gpu[last] += waited;
                else
                        on_host[last] = fmax(on_host[last], waited);
        }
        slow->known = slow->calls > 0;
        for (uint32_t i = 0; i < s->n_ranks; i++) {
                double charged = on_gpu[i] + on_host[i];

                all += charged;
                most = charged > largest ? i : most;
                largest = fmax(largest, charged);
        }
        if (largest <= STANDS_OUT * all || largest < MATTERS * ((double)slow->ns - usual_ns))
                return;
        slow->process = s->process[most];
        slow->held_ns = fmin(largest, (double)slow->ns);
}

void job_slow_steps(const struct capo_job *job, const struct step_log *log,
                    struct capo_job_steps *s)
{
        struct capo_clocks clocks;
        struct seen seen = {.clocks = &clocks};

        capo_clocks_make(&clocks, job, NULL);
        pick_slowest(&clocks, s);
        if (s->n_slow)
                pick_calls(log, s, &seen);
        seen.n_ranks = job->n_processes < RANKS_SEEN ? job->n_processes : RANKS_SEEN;
        for (uint32_t i = 0; i < seen.n_ranks; i++)
                seen.process[i] = (uint32_t)((uint64_t)i * job->n_processes / seen.n_ranks);
        for (seen.rank = 0; seen.n && seen.rank < seen.n_ranks; seen.rank++)
                see_rank(job, &seen);
        for (uint32_t k = 0; k < s->n_slow; k++)
                judge_step(job, &seen, k, s->steps.p50_ns, &s->slow[k]);
        free(seen.call);
        capo_clocks_finish(&clocks);
}
