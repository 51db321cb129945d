/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "analysis/job/clocks.h"
#include "analysis/job/gpu_spans.h"
#include "analysis/job/log_calls.h"
#include "analysis/timeline/last_ranks.h"
#include "analysis/timeline/timeline.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"

/* The last calls of a rank that are used. */
enum { CALLS_MOST = 1 << 16 };

/* A stretch of time of one rank, in ns after the job's start. */
struct stretch {
        double begin, end;
        double waited; /* waiting time at its begin */
};

struct drawing {
        const struct capo_job *job;
        const struct capo_clocks *clocks;
        const struct capo_last_ranks *last;
        uint32_t process;
        uint32_t *comms; /* of the process being read */
        struct capo_gpu_span *span;
        uint64_t *waited; /* of that process, by span.nth */
        size_t n;
        struct stretch *stretch;
        size_t n_stretches;
        bool gpu;
};

static int take_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct drawing *d = arg;
        size_t i = d->n % CALLS_MOST;
        uint32_t comm = d->comms[r->comm];
        const struct capo_last_call *last;

        if (r->flags & CAPO_RECORD_MEMBER || capo_call_kind(r->call) == CAPO_KIND_OTHER)
                return 0;
        last = comm && capo_is_joint(r) ? capo_last_call(d->last, comm - 1, r->seq) : NULL;
        d->span[i] = capo_gpu_span_of(r, (uint32_t)i);
        d->waited[i] = d->span[i].measured ? capo_waited_ns(last, r) : 0;
        d->gpu |= d->span[i].measured;
        d->n++;
        return 0;
}

/* Put the calls one after the other; an overlapping call begins where the earlier one ends. */
static void lay_stretches(struct drawing *d)
{
        size_t n = d->n < CALLS_MOST ? d->n : CALLS_MOST;
        double until = -INFINITY;

        capo_gpu_spans(d->span, n);
        for (size_t i = 0; i < n; i++) {
                const struct capo_gpu_span *s = &d->span[i];
                uint64_t begin = d->gpu ? s->begin : s->host_begin;
                uint64_t end = d->gpu ? s->end : s->host_end;
                struct stretch to = {.begin = capo_clocks_ns(d->clocks, d->process, begin),
                                     .end = capo_clocks_ns(d->clocks, d->process, end),
                                     .waited = (double)d->waited[s->nth]};

                if ((d->gpu && !s->gpu_ns) || to.end <= until)
                        continue;
                if (to.begin < until) {
                        to.waited = fmax(0, to.waited - (until - to.begin));
                        to.begin = until;
                }
                until = to.end;
                *xadd(d->stretch, d->n_stretches) = to;
        }
}

static void add_share(float *to, const struct capo_timeline *t, double begin, double end)
{
        double part = (t->to_s - t->from_s) / t->n_parts * 1e9, from = t->from_s * 1e9;
        double at = fmax(0, (begin - from) / part), until = fmin(t->n_parts, (end - from) / part);

        while (at < until) {
                uint32_t i = (uint32_t)at;
                double next = fmin(until, i + 1.0);

                to[i] = (float)fmin(1, to[i] + (next - at));
                at = next;
        }
}

/* By rank if known; spread evenly if there are too many. */
static int by_rank(const void *a, const void *b, void *arg)
{
        const struct capo_job *job = arg;
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
        int first = job->processes[x].rank, second = job->processes[y].rank;

        return first != second ? (first > second) - (first < second) : (x > y) - (x < y);
}

static void choose_ranks(const struct capo_job *job, struct capo_timeline *t)
{
        _cleanup_free_ uint32_t *all = xcalloc(job->n_processes + 1, sizeof *all);

        for (uint32_t i = 0; i < job->n_processes; i++)
                all[i] = i;
        qsort_r(all, job->n_processes, sizeof *all, by_rank, (void *)job);
        t->n_ranks =
                job->n_processes < CAPO_TIMELINE_RANKS ? job->n_processes : CAPO_TIMELINE_RANKS;
        t->rank = xcalloc(t->n_ranks + 1, sizeof *t->rank);
        for (uint32_t i = 0; i < t->n_ranks; i++)
                t->rank[i].process = all[(uint64_t)i * job->n_processes / t->n_ranks];
}

/* All stretches first: they define the time range. */
static void make_ranks(struct drawing *d, struct capo_timeline *t)
{
        uint32_t n_ranks = t->n_ranks;
        _cleanup_free_ struct stretch **of = xcalloc(n_ranks + 1, sizeof *of);
        _cleanup_free_ size_t *n = xcalloc(n_ranks + 1, sizeof *n);
        double from = INFINITY, to = -INFINITY;

        for (uint32_t i = 0; i < n_ranks; i++) {
                struct capo_log *log = capo_job_log(d->job, t->rank[i].process);

                d->process = t->rank[i].process;
                d->n = d->n_stretches = 0;
                d->gpu = false;
                d->stretch = NULL;
                capo_comms_of(d->job, d->process, d->comms, NULL);
                capo_log_calls_each(log, take_call, d);
                capo_log_park(log);
                lay_stretches(d);
                of[i] = d->stretch;
                n[i] = d->n_stretches;
                t->gpu |= d->gpu;
                if (n[i]) {
                        from = fmin(from, of[i][0].begin);
                        to = fmax(to, of[i][n[i] - 1].end);
                }
        }
        if (!(to > from))
                t->n_ranks = 0;
        t->from_s = from / 1e9;
        t->to_s = to / 1e9;
        for (uint32_t i = 0; i < t->n_ranks; i++) {
                t->rank[i].busy = xcalloc(t->n_parts, sizeof(float));
                t->rank[i].waiting = xcalloc(t->n_parts, sizeof(float));
                for (struct stretch *s = of[i]; s < of[i] + n[i]; s++) {
                        double moves = fmin(s->end, s->begin + s->waited);

                        add_share(t->rank[i].waiting, t, s->begin, moves);
                        add_share(t->rank[i].busy, t, moves, s->end);
                }
        }
}

void capo_timeline_make(const struct capo_job *job, uint32_t parts, uint32_t cells,
                        struct capo_timeline *t)
{
        _cleanup_free_ bool *wanted = xcalloc(job->n_processes + 1, sizeof *wanted);
        struct capo_last_ranks last = {0};
        struct capo_clocks clocks = {0};
        struct drawing d = {.job = job,
                            .clocks = &clocks,
                            .last = &last,
                            .comms = xcalloc(CAPO_IDS, sizeof *d.comms),
                            .span = xcalloc(CALLS_MOST, sizeof *d.span),
                            .waited = xcalloc(CALLS_MOST, sizeof *d.waited)};

        *t = (struct capo_timeline){.n_parts = parts};
        choose_ranks(job, t);
        if (t->n_ranks && parts > cells / t->n_ranks)
                t->n_parts = cells / t->n_ranks;
        for (uint32_t i = 0; i < t->n_ranks; i++)
                wanted[t->rank[i].process] = true;
        capo_clocks_make(&clocks, job, NULL);
        capo_last_ranks_make(job, wanted, &last);
        make_ranks(&d, t);
}
