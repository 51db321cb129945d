/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "analysis/job/clocks.h"
#include "analysis/job/log_calls.h"
#include "analysis/job/stops.h"
#include "analysis/steps/job_steps.h"
#include "analysis/job/gpu_spans.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"

/* The calls of one process that can be in steps, sorted by time. */
struct step_log {
        struct capo_step_call *call; /* comm: 1 + index in job->comms, 0: none */
        uint32_t n;
        struct capo_gpu_span *span; /* sorted by begin; NULL: not requested */
        uint32_t n_spans;
        bool captured; /* some calls were captured into a CUDA graph; they are left out */
};

struct reader {
        struct step_log *to;
        const uint32_t *comms;
        uint32_t most;
        bool spans, measured;
        uint64_t n, n_spans; /* number seen so far */
};

/* Fill @comms, 65,536 items: id in the process -> 1 + index in job->comms. */
static void number_comms(const struct capo_job *job, uint32_t process, uint32_t *comms)
{
        uint32_t n;
        const struct capo_job_use *use = capo_job_uses(job, process, &n);

        for (; n--; use++)
                comms[job->comms[use->comm].members[use->member].id] = use->comm + 1;
}

/* Place for the next item of a ring of @most. */
static void *next_place(void *list, uint64_t *n, uint32_t most, size_t size)
{
        uint64_t at = (*n)++;
        char **items = list;

        if (at < most)
                xarray_room(list, at, size);
        return *items + at % most * size;
}

static int take_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct reader *rd = arg;
        struct capo_step_call *to;

        if (capo_call_kind(r->call) == CAPO_KIND_OTHER)
                return 0;
        rd->to->captured |= r->flags & CAPO_RECORD_CAPTURED;
        if (r->flags & CAPO_RECORD_CAPTURED)
                return 0;
        if (rd->spans && !(r->flags & CAPO_RECORD_MEMBER)) {
                uint32_t nth = (uint32_t)(rd->n_spans % rd->most);
                struct capo_gpu_span *span =
                        next_place(&rd->to->span, &rd->n_spans, rd->most, sizeof *span);

                *span = capo_gpu_span_of(r, nth);
                rd->measured |= span->measured;
        }
        if (r->flags & CAPO_RECORD_GROUP)
                return 0;
        to = next_place(&rd->to->call, &rd->n, rd->most, sizeof *to);
        *to = (struct capo_step_call){.t_ns = r->t_begin,
                                      .bytes = r->bytes,
                                      .comm = rd->comms[r->comm],
                                      .seq = r->seq,
                                      .peer = r->peer,
                                      .call = r->call,
                                      .rule = r->rule};
        return 0;
}

CAPO_ORDERED(by_time, struct capo_step_call, CAPO_ORDER(a->t_ns, b->t_ns),
             CAPO_ORDER(a->seq, b->seq));

/* The last @most calls of a process. @most: a power of two. @spans: also when
 * they were on the GPU. A log that can no longer be read has no calls. */
static void read_step_log(const struct capo_job *job, uint32_t process, uint32_t most, bool spans,
                          struct step_log *out)
{
        struct capo_log *log = capo_job_log(job, process);
        _cleanup_free_ uint32_t *comms = xcalloc(65536, sizeof *comms);
        struct reader rd = {.to = out, .comms = comms, .most = most, .spans = spans};

        *out = (struct step_log){0};
        if (!log)
                return;
        number_comms(job, process, comms);
        capo_log_calls_each(log, take_call, &rd);
        capo_log_park(log);
        out->n = rd.n < most ? (uint32_t)rd.n : most;
        out->n_spans = rd.n_spans < most ? (uint32_t)rd.n_spans : most;
        if (FIRST_OF(c, out->call, out->n, c > out->call && by_time(c - 1, c) > 0))
                qsort(out->call, out->n, sizeof *out->call, by_time);
        if (rd.measured) /* without any, spans say nothing */
                capo_gpu_spans(out->span, out->n_spans);
        else
                out->n_spans = 0;
}

static void free_step_log(struct step_log *l)
{
        free(l->call);
        free(l->span);
        *l = (struct step_log){0};
}

/* Steps are timed by host calls. A host that runs ahead of its GPU makes the calls of many steps,
 * or of many buckets of one step, in a burst. The repeats are then as long as it takes to enqueue
 * them, which is no step time. A real step lasts at least as long as one of its calls on the GPU,
 * except for a few steps at the start of a job. */
static int compare_place(const void *key, const void *step)
{
        const uint64_t t = *(const uint64_t *)key;
        const struct capo_step *s = step;

        return t < s->t_ns ? -1 : t >= s->t_ns + s->ns;
}

/* The median GPU time of the shortest calls of a step, over the job; 0: not known. */
static double shortest_on_gpu(const struct capo_job *job, const struct capo_steps *s)
{
        double least_ns = 0;

        for (uint32_t i = 0; i < s->n_parts; i++) {
                for (uint32_t k = 0; k < job->n_rows; k++) {
                        const struct capo_job_row *r = &job->rows[k];
                        double ns = capo_hist_quantile(&r->time[CAPO_CLOCK_EVENT], 0.5);

                        if (r->comm + 1 == s->part[i].comm && r->call == s->part[i].call &&
                            r->bytes == s->part[i].bytes && ns > 0 &&
                            (least_ns == 0 || ns < least_ns))
                                least_ns = ns;
                }
        }
        return least_ns;
}

/* Did the host make the calls so far ahead of the GPU that host times do not
 * show the steps? Decided by calls timed on the GPU; if there are none in the log, by the time of
 * the shortest call of a step in the whole job. */
static bool steps_ran_ahead(const struct capo_job *job, const struct step_log *log,
                            const struct capo_steps *s)
{
        uint32_t timed = 0, longer = 0;

        for (uint32_t i = 0; i < log->n_spans && s->n; i++) {
                const struct capo_gpu_span *g = &log->span[i];
                const struct capo_step *in = g->measured ? bsearch(&g->host_begin, s->step, s->n,
                                                                   sizeof *s->step, compare_place)
                                                         : NULL;

                timed += in != NULL;
                longer += in && g->gpu_ns > in->ns;
        }
        return timed ? 2 * longer > timed : s->n_plain && s->p50_ns < shortest_on_gpu(job, s);
}

/* Finds which rank delayed the slowest steps. The collectives of each step are compared on all
 * ranks, as in analysis/job/skew.h. If all ranks timed a call on the GPU, the one with the shortest
 * time came last. Otherwise, if all ranks share a clock, the one whose host made the call last did.
 * The last rank is charged with the waiting of the others: by GPU time in each call; by host time
 * only once per step, because a host that is behind stays behind from call to call. */
/* Limits per step: calls compared, ranks compared. */
enum { CALLS_SEEN = 256, RANKS_SEEN = 64 };
#define MUCH_LONGER 1.2  /* times the median: a slow step */
#define STANDS_OUT  0.5  /* share of all waiting in the step */
#define MATTERS     0.25 /* share of the time by which the step is longer than others */

/* A call of a slow step, with the times of each rank. The step begins and ends when its own rank makes
 * the first call of it and of the next one: if that rank is late to such a call, the delay lies
 * before it. */
struct seen_call {
        enum { WITHIN, FIRST, NEXT } is;
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

CAPO_ORDERED(by_length, struct capo_slow_step, CAPO_ORDER(b->ns, a->ns),
             CAPO_ORDER(a->number, b->number));

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

CAPO_ORDERED(by_number, struct seen_call, CAPO_ORDER(a->comm, b->comm), CAPO_ORDER(a->seq, b->seq));

/* Pick collectives of the slow steps, at most CALLS_SEEN per step. */
static void pick_calls(const struct step_log *log, const struct capo_job_steps *s,
                       struct seen *seen)
{
        seen->call = xcalloc((size_t)s->n_slow * (CALLS_SEEN + 2) + 1, sizeof *seen->call);
        for (uint32_t k = 0; k < s->n_slow; k++) {
                const struct capo_step *step = &s->steps.step[s->slow[k].number];
                uint32_t each = step->n / CALLS_SEEN + 1;

                for (uint32_t i = 0; i <= step->n && step->first + i < log->n;
                     i = i < step->n && i + each > step->n ? step->n : i + each) {
                        const struct capo_step_call *c = &log->call[step->first + i];
                        struct seen_call *to = &seen->call[seen->n];

                        if (!capo_call_is_collective(c->call) || !c->comm || !c->seq)
                                continue;
                        *to = (struct seen_call){.step = k, .comm = c->comm, .seq = c->seq};
                        to->is = !i ? FIRST : i == step->n ? NEXT : WITHIN;
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
        while (c && c > s->call && !by_number(c - 1, &key))
                c--;
        for (; c && c < s->call + s->n && !by_number(c, &key); c++) { /* of two steps, maybe */
                c->begin[s->rank] = capo_clocks_ns(s->clocks, s->process[s->rank], r->t_begin);
                c->gpu[s->rank] = r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL
                                          ? (double)r->gpu_ns
                                          : 0;
        }
        return 0;
}

static void see_rank(const struct capo_job *job, struct seen *s)
{
        struct capo_log *log = capo_job_log(job, s->process[s->rank]);
        _cleanup_free_ uint32_t *comms = xcalloc(65536, sizeof *comms);

        if (!log)
                return;
        number_comms(job, s->process[s->rank], comms);
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

/* Is the waiting for rank @last part of the step? @own: the process of the step. */
static bool is_in_step(const struct capo_job *job, const struct seen *s, const struct seen_call *c,
                       uint32_t last, uint32_t own)
{
        bool before = c->is != WITHIN && s->process[last] == own; /* and its host was last */

        for (uint32_t k = 0; k < s->n_ranks && before; k++)
                before = isnan(c->begin[k]) ||
                         (c->begin[k] <= c->begin[last] &&
                          job->processes[s->process[k]].clock == job->processes[own].clock);
        return c->is == NEXT ? before : !before;
}

/* A rank that did not run for most of the time by which the step is longer, while the others waited:
 * these come late to the next calls, too. */
static void judge_stops(const struct capo_job *job, const struct capo_job_comm *c, double from,
                        double usual_ns, struct capo_slow_step *slow)
{
        double most = ((double)slow->ns - usual_ns) / 2, both;
        struct capo_stop stop[CAPO_STOPS_MOST];

        for (uint32_t k = 0; k < c->n_members; k++) {
                uint32_t process = c->members[k].process,
                         n = capo_stops_of(&job->processes[process], stop, CAPO_STOPS_MOST);

                while (n-- > 0) {
                        both = fmin(stop[n].to, from + (double)slow->ns) - fmax(stop[n].from, from);
                        if (both <= most || !(capo_stop_waiting(job, c, k, &stop[n]) > 0))
                                continue;
                        most = slow->held_ns = both;
                        slow->process = process;
                }
        }
}

/* Waiting in overlapping calls is counted several times, so the sum is capped at the step. */
static void judge_step(const struct capo_job *job, const struct seen *s, uint32_t k,
                       const struct capo_job_steps *of, struct capo_slow_step *slow)
{
        const struct capo_step *step = &of->steps.step[slow->number];
        double from = (double)job->processes[of->process].header.t0_real_ns + (double)step->t_ns,
               usual_ns = of->steps.p50_ns;
        double on_gpu[RANKS_SEEN] = {0}, on_host[RANKS_SEEN] = {0}, all = 0, largest = 0, waited;
        uint32_t most = 0, last = 0, comm = 0;
        bool by_gpu;

        for (uint32_t i = 0; i < s->n; i++) {
                if (s->call[i].step != k ||
                    !judge_call(job, s, &s->call[i], &last, &waited, &by_gpu) ||
                    !is_in_step(job, s, &s->call[i], last, of->process))
                        continue;
                slow->calls++;
                comm = s->call[i].comm;
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
        if (largest > STANDS_OUT * all && largest >= MATTERS * ((double)slow->ns - usual_ns)) {
                slow->process = s->process[most];
                slow->held_ns = fmin(largest, (double)slow->ns);
        }
        if (slow->known)
                judge_stops(job, &job->comms[comm - 1], from, usual_ns, slow);
}

/* Fill s->slow. @log: of s->process. */
static void job_slow_steps(const struct capo_job *job, const struct step_log *log,
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
                judge_step(job, &seen, k, s, &s->slow[k]);
        free(seen.call);
        capo_clocks_finish(&clocks);
}

/* Limits: calls of the main rank; calls of each other rank; number of other ranks. */
enum { CALLS_MOST = 1 << 18, OTHERS_MOST = 1 << 15, ASKED = 4 };
#define ALIKE   0.02 /* two ranks agree if their steps differ by no more */
#define COVERED 0.8  /* of the job's time: then figures of the job are taken for its steps */

/* Mean duration of a step over all that were seen. */
static double step_ns(const struct capo_steps *s)
{
        uint64_t ns = 0;

        for (uint32_t i = 0; i < s->n; i++)
                ns += s->step[i].ns;
        return s->n ? (double)ns / s->n : 0;
}

/* Choose the rank whose log is read in full: the first one that more than half of the examined
 * ranks agree with. It is @out->process.
 * Return: 0; -errno. */
static void ask_ranks(const struct capo_job *job, struct capo_job_steps *out)
{
        uint32_t process[ASKED], n = job->n_processes < ASKED ? job->n_processes : ASKED;
        double ns[ASKED] = {0}, steps[ASKED] = {0};
        enum capo_steps_known known[ASKED] = {0};
        uint32_t best = 0;

        out->process = 0;
        for (uint32_t i = 0; i < n; i++) {
                struct capo_steps s;
                struct step_log log;

                process[i] = (uint32_t)((uint64_t)i * (job->n_processes - 1) / (n > 1 ? n - 1 : 1));
                read_step_log(job, process[i], OTHERS_MOST, false, &log);
                capo_steps_find(log.call, log.n, &s);
                known[i] = s.known;
                ns[i] = s.known ? step_ns(&s) : 0;
                steps[i] = s.n;
                capo_steps_finish(&s);
                free_step_log(&log);
        }
        out->asked = n;
        for (uint32_t i = 0; i < n; i++) {
                uint32_t agree = 0;

                for (uint32_t k = 0; k < n; k++)
                        agree += ns[i] > 0 && ns[k] > 0 &&
                                 fabs(ns[k] / ns[i] - 1) <= ALIKE + 2 / fmin(steps[i], steps[k]);
                if (agree > out->agree || (agree == out->agree && known[i] > known[best])) {
                        out->agree = agree;
                        out->process = process[i];
                        best = i;
                }
        }
}

/* How often one rank made the calls of a part in the whole job; 0: not known. */
static uint64_t count_part(const struct capo_job *job, const struct capo_step_part *p)
{
        uint64_t count = 0;

        if (!capo_call_is_collective(p->call) || p->comm == CAPO_NO_COMM)
                return 0;
        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *r = &job->rows[i];

                if (r->comm == p->comm && r->call == p->call &&
                    (p->varies || r->bytes == p->bytes) && !(r->flags & CAPO_RECORD_CAPTURED))
                        count += r->count;
        }
        return count;
}

/* Evaluations contain some of the calls too, so the part with the fewest calls gives the number of
 * steps. */
static void count_steps(const struct capo_job *job, struct capo_job_steps *s)
{
        uint64_t least = 0;

        for (uint32_t i = 0; i < s->steps.n_parts; i++) {
                uint64_t steps = count_part(job, &s->steps.part[i]) / s->steps.part[i].count;

                least = steps && (!least || steps < least) ? steps : least;
        }
        if (least > s->steps.n)
                s->total = least;
        else
                s->total = least || s->whole ? s->steps.n : 0;
}

/* Share of plain steps with at least one call on the GPU. */
static double share_on_gpu(const struct capo_steps *s, const struct step_log *log)
{
        uint64_t until = 0, all = 0, on = 0;
        uint32_t at = 0;
        bool timed = false;

        for (uint32_t i = 0; i < log->n_spans; i++)
                timed |= log->span[i].measured;
        for (uint32_t i = 0; timed && i < s->n; i++) {
                uint64_t begin = s->step[i].t_ns, end = begin + s->step[i].ns;

                if (!s->step[i].plain || begin < log->span[0].begin ||
                    end > log->span[log->n_spans - 1].end)
                        continue; /* or it is not among the calls with a span */
                all += end - begin;
                for (; at < log->n_spans && log->span[at].begin < end; at++) {
                        const struct capo_gpu_span *g = &log->span[at];
                        uint64_t from = g->begin > until ? g->begin : until;
                        uint64_t to = g->end < end ? g->end : end;

                        from = from < begin ? begin : from;
                        on += g->gpu_ns && to > from ? to - from : 0;
                        until = g->gpu_ns && g->end > until ? g->end : until;
                }
        }
        return timed && all ? fmin(1, (double)on / (double)all) : -1;
}

/* Waiting for late ranks is known only for the whole job. It is used for the steps if they cover
 * nearly all of it. */
static double share_waiting(const struct capo_job *job, const struct capo_job_steps *s)
{
        double duration = (double)capo_job_duration_ns(job), sum = 0;
        double stepping = (double)s->total * step_ns(&s->steps); /* 0: number of steps not known */

        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_skew *k = job->comms[i].skew;

                if (k && k->wait_share < 0)
                        return -1;
                sum += k ? k->wait_share : 0;
        }
        return stepping >= COVERED * duration ? fmin(1, sum * duration / stepping) : -1;
}

/* Does the log have every call of the process? */
static bool is_whole(const struct capo_job_process *p)
{
        return p->n_records >= p->end.calls && p->n_records <= CALLS_MOST;
}

static void find_rank_steps(const struct capo_job *job, struct step_log *log,
                            struct capo_job_steps *s)
{
        read_step_log(job, s->process, CALLS_MOST, true, log);
        capo_steps_find(log->call, log->n, &s->steps);
        if (s->steps.known != CAPO_STEPS_NONE && steps_ran_ahead(job, log, &s->steps)) {
                capo_steps_finish(&s->steps);
                s->ran_ahead = true;
                snprintf(s->steps.why, sizeof s->steps.why,
                         "calls were made ahead of the GPU, faster than it runs them");
                return;
        }
        if (s->steps.known == CAPO_STEPS_NONE && log->captured)
                snprintf(s->steps.why, sizeof s->steps.why,
                         "calls are in CUDA graphs, and nobody sees when these run");
        else if (s->steps.known == CAPO_STEPS_NONE && !log->n)
                snprintf(s->steps.why, sizeof s->steps.why, "the logs keep no single calls");
        else if (s->steps.known == CAPO_STEPS_NONE && !is_whole(&job->processes[s->process]))
                snprintf(s->steps.why + strlen(s->steps.why),
                         sizeof s->steps.why - strlen(s->steps.why),
                         " in the last %u that the log has", log->n);
        if (s->steps.known == CAPO_STEPS_FOUND && 2 * s->agree <= s->asked) {
                s->steps.known = CAPO_STEPS_UNCERTAIN;
                snprintf(s->steps.why, sizeof s->steps.why,
                         "of %u ranks looked at, %u have steps of this length", s->asked, s->agree);
        }
        for (uint32_t i = 0; i < s->steps.n_parts;
             i++) /* from job->comms numbers plus 1 to indices */
                s->steps.part[i].comm =
                        s->steps.part[i].comm ? s->steps.part[i].comm - 1 : CAPO_NO_COMM;
}

void capo_job_steps(const struct capo_job *job, struct capo_job_steps *s)
{
        struct step_log log = {0};

        *s = (struct capo_job_steps){.nccl_share = -1, .wait_share = -1};
        if (!job->n_processes)
                return;
        ask_ranks(job, s);
        find_rank_steps(job, &log, s);
        if (s->steps.known != CAPO_STEPS_NONE) {
                s->whole = is_whole(&job->processes[s->process]);
                count_steps(job, s);
                s->nccl_share = share_on_gpu(&s->steps, &log);
                s->wait_share = share_waiting(job, s);
                job_slow_steps(job, &log, s);
                s->calls = log.call;
                log.call = NULL;
        }
        free_step_log(&log);
}

void capo_job_steps_finish(struct capo_job_steps *s)
{
        capo_steps_finish(&s->steps);
        free(s->calls);
        *s = (struct capo_job_steps){0};
}
