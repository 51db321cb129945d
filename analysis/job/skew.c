/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/order.h"
#include "core/base/util.h"
#include "analysis/job/skew.h"
#include "analysis/job/skew_parts.h"
#include "analysis/job/spread.h"
#include "analysis/job/stops.h"

static uint32_t rows_by(const struct capo_clocks *s, uint32_t comm, enum capo_skew_from from,
                        double *scratch)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < s->meets[comm]->n_rows; i++)
                n += skew_row_starts(s, comm, i, from, scratch);
        return n;
}

static bool on_one_clock(const struct capo_job *job, const struct capo_job_comm *c)
{
        for (uint32_t k = 1; k < c->n_members; k++) {
                if (job->processes[c->members[k].process].clock !=
                    job->processes[c->members[0].process].clock)
                        return false;
        }
        return true;
}

enum among { EVERYBODY, OTHERS };

/*
 * Over the calls in which skew->worst was last, the median of: how far it was behind the first; how
 * far the last of the others was.
 */
static double when_last(const struct capo_job_comm *c, const struct capo_skew *skew,
                        const double *starts, double *column, enum among among)
{
        uint32_t n = c->n_members, n_last = 0;

        for (uint32_t i = 0; i < skew->n_calls; i++) {
                const double *t = starts + (size_t)i * n;
                double first = INFINITY, last = -INFINITY;
                bool is_last = true;

                for (uint32_t k = 0; k < n; k++) {
                        is_last &= t[k] <= t[skew->worst];
                        if (k == skew->worst && among == OTHERS)
                                continue;
                        first = fmin(first, t[k]);
                        last = fmax(last, t[k]);
                }
                if (is_last)
                        column[n_last++] = last - first;
        }
        return skew_quantile(column, n_last, 0.5);
}

enum { SAMPLE_FEW = 30 };

/* Of @n values: their sum, the sum of their squares. */
static double variance_of(double n, double sum, double sq)
{
        return fmax(0, sq - sum * sum / n) / (n - 1);
}

/*
 * Half of the interval of what one rank caused in @all calls, of which @n were drawn: @sum of it
 * and
 * @sq, its square. The few late calls of a small draw say little of those that it missed. There the
 * variance is no less than with two more, one as late as the @longest that can have been missed
 * and one on time, and the interval reaches what the host's starts say of the other calls:
 * @untimed, NAN where that is not known.
 */
static double half_interval(double n, double all, double sum, double sq, double longest,
                            double untimed)
{
        double variance, pm;

        if (n < 1 || all <= n)
                return 0;
        variance = n < 2 ? 0 : variance_of(n, sum, sq);
        if (n >= 2 && n < SAMPLE_FEW && longest > 0)
                variance =
                        fmax(variance, variance_of(n + 2, sum + longest, sq + longest * longest));
        pm = n < 2 ? 0 : capo_quantile_t(0.05, n - 1) * all * sqrt(variance / n * (1 - n / all));
        return n < SAMPLE_FEW && !isnan(untimed) ? fmax(pm, fabs(sum / n * (all - n) - untimed))
                                                 : pm;
}

/* How far what the host's starts say of member @k, in the calls that have no GPU times, may be from
 * what the GPUs would say: by the calls that have both. */
static double host_error(const struct skew_laid *l, uint32_t k)
{
        double n = l->n_both, by_host = l->n_by_host, sum = l->differ[2 * k];

        if (n < 2)
                return 0;
        return fabs(sum / n) * by_host +
               2 * sqrt(variance_of(n, sum, l->differ[2 * k + 1]) * by_host);
}

/* Is it the largest communicator of that member's process? Who waits for a process that does not
 * run is not known, so the waiting is charged once. */
static bool is_widest(const struct capo_job *job, const struct capo_job_comm *c, uint32_t process)
{
        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_job_comm *other = &job->comms[i];

                for (uint32_t k = 0; k < other->n_members; k++) {
                        if (other->members[k].process == process &&
                            (other->n_members > c->n_members ||
                             (other->n_members == c->n_members && other < c)))
                                return false;
                }
        }
        return true;
}

/* What the rows tell of the waiting for member @k in that time. */
static double told_of_stop(const struct capo_job *job, const struct capo_job_comm *c, uint32_t k,
                           const struct skew_laid *l, const struct capo_meet *m,
                           const struct capo_stop *s)
{
        const struct capo_job_member *member = &c->members[k];
        double told = 0;

        for (uint32_t i = 0; i < l->n_rows; i++) {
                const struct capo_meet_arrival *at =
                        &m->arrivals[(size_t)(l->call[i].row - m->rows) * m->n_ranks +
                                     (size_t)member->rank];
                double begin = (double)job->processes[member->process].header.t0_real_ns +
                               (double)at->begin;

                if (l->call[i].last == k && begin > s->from - 1e9 && begin < s->to + 1e9)
                        told += l->call[i].waited;
        }
        return told;
}

/* The others' waiting for a process that did not run, as far as no call that is laid out tells it.
 */
static void charge_stops(const struct capo_job *job, const struct capo_job_comm *c,
                         struct capo_skew *skew, const struct skew_laid *l,
                         const struct capo_meet *m, double *own)
{
        struct capo_stop stop[CAPO_STOPS_MOST];

        for (uint32_t k = 0; k < l->n; k++) {
                uint32_t process = c->members[k].process,
                         n = capo_stops_of(&job->processes[process], stop, CAPO_STOPS_MOST);

                for (uint32_t i = 0; i < n && is_widest(job, c, process); i++) {
                        double waited = capo_stop_waiting(job, c, k, &stop[i]);
                        double rest = waited - told_of_stop(job, c, k, l, m, &stop[i]);

                        if (waited > 0)
                                skew->ranks[k].stopped_ns += stop[i].to - stop[i].from;
                        if (waited > 0 && rest > 0) {
                                own[k] += rest;
                                skew->long_ns += rest;
                        }
                }
        }
}

/*
 * The waiting that each rank caused, for the whole job. Calls behind a long silence and those timed
 * for what they are (the first of a kind is like no other) stand for themselves; the others are an
 * even sample of all others, so their mean stands for those, with the interval of a mean of a
 * finite population.
 */
static void charge_ranks(const struct capo_job *job, const struct capo_job_comm *c,
                         struct capo_skew *skew, const struct skew_laid *l,
                         const struct capo_meet *m)
{
        double most = (double)capo_job_duration_ns(job) * (l->n - 1), charged = 0;
        double most_missed = (double)m->most_missed_ns * (l->n - 1);
        double *sum = l->charges, *sq = sum + l->n, *own = sq + l->n, *longest = own + l->n, n = 0,
               all;
        bool any_whole = false;

        for (uint32_t i = 0; i < l->n_rows; i++)
                any_whole |= l->call[i].whole;
        for (uint32_t i = 0; i < l->n_rows; i++) {
                uint32_t last = l->call[i].last;
                bool behind_gap = capo_meet_is_long(m, l->call[i].row->seq);

                longest[last] =
                        fmax(longest[last],
                             behind_gap ? fmin(l->call[i].waited, most_missed) : l->call[i].waited);
                if ((skew->from != CAPO_SKEW_HOST_START && l->call[i].row->chosen) || behind_gap) {
                        own[last] += l->call[i].waited;
                        skew->long_ns += behind_gap ? l->call[i].waited : 0;
                        skew->n_own++;
                } else if (l->call[i].whole || !any_whole) {
                        n++;
                        sum[last] += l->call[i].waited;
                        sq[last] += l->call[i].waited * l->call[i].waited;
                }
        }
        charge_stops(job, c, skew, l, m, own);
        all = c->n_calls > l->n_rows ? (double)(c->n_calls - skew->n_own)
                                     : (double)(l->n_rows - skew->n_own);
        for (uint32_t k = 0; k < l->n; k++) {
                struct capo_skew_rank *rank = &skew->ranks[k];

                rank->caused_ns = own[k] + (n > 0 ? sum[k] * (all / n) : 0);
                if (all > n)
                        rank->caused_pm_ns = half_interval(
                                n, all, sum[k], sq[k], longest[k],
                                l->n_untimed >= 0.9 * (all - n) ? l->untimed[k] : NAN);
                rank->caused_pm_ns += host_error(l, k);
                charged += rank->caused_ns;
                if (rank->caused_ns > skew->ranks[skew->worst].caused_ns)
                        skew->worst = k;
        }
        for (uint32_t k = 0; k < l->n && charged > most; k++) {
                skew->ranks[k].caused_ns *= most / charged;
                skew->ranks[k].caused_pm_ns *= most / charged;
        }
}

/* The median start of all members but @except; of an even number the earlier one. */
static double middle_of(const double *t, uint32_t n, uint32_t except, double *scratch)
{
        uint32_t m = 0;

        for (uint32_t k = 0; k < n; k++) {
                if (k != except)
                        scratch[m++] = t[k];
        }
        return capo_middle(scratch, m);
}

/* The call that each rank kept the others waiting in longest: behind the median of all. That ranks
 * come to their first call one after the other is how jobs begin. */
static void find_holes(struct capo_skew *skew, const struct skew_laid *l)
{
        for (uint32_t i = 0; i < l->n_rows; i++) {
                const double *t = l->start + (size_t)i * l->n;
                double middle;

                if (l->call[i].row->seq < 2)
                        continue;
                middle = middle_of(t, l->n, l->n, l->charges);
                for (uint32_t k = 0; k < l->n; k++) {
                        struct capo_skew_rank *rank = &skew->ranks[k];

                        if (t[k] - middle <= rank->hole_ns)
                                continue;
                        rank->hole_ns = t[k] - middle;
                        rank->hole_seq = l->call[i].row->seq;
                        rank->hole_call = l->call[i].row->call;
                }
        }
}

enum { TURN_FEW = 8 };

struct turn {
        uint32_t seq, row;
        double worth;
};

static int by_seq(const void *a, const void *b)
{
        const struct turn *x = a, *y = b;

        return CAPO_ORDER(x->seq, y->seq);
}

/*
 * From which call on skew->worst was last in most: the one behind which calls in which it was last
 * outweigh the others most, where it takes half way from its chance to all of them to weigh
 * nothing. What is not clear of that is from the beginning.
 */
static void find_turn(const struct capo_job *job, const struct capo_job_comm *c,
                      struct capo_skew *skew, const struct skew_laid *l, const struct capo_meet *m)
{
        _cleanup_free_ struct turn *turn = malloc((l->n_rows + 1) * sizeof *turn);
        double level = (1 + 1.0 / l->n) / 2, sum = 0, best = 0;
        uint32_t from = l->n_rows;
        const struct capo_job_member *worst =
                &c->members[skew->worst]; /* by rank; of those that left a log */
        const struct capo_meet_row *row;

        for (uint32_t i = 0; turn && i < l->n_rows; i++)
                turn[i] = (struct turn){l->call[i].row->seq, i,
                                        (l->call[i].last == skew->worst) - level};
        if (turn)
                qsort(turn, l->n_rows, sizeof *turn, by_seq);
        for (uint32_t i = l->n_rows; turn && i-- > 0;) {
                sum += turn[i].worth;
                if (sum > best) {
                        best = sum;
                        from = i;
                }
        }
        if (!turn || from < TURN_FEW || from + TURN_FEW > l->n_rows)
                return;
        row = l->call[turn[from].row].row;
        skew->worst_from_seq = row->seq;
        skew->worst_from_ns =
                job->processes[worst->process].header.t0_real_ns +
                m->arrivals[(size_t)(row - m->rows) * m->n_ranks + (size_t)worst->rank].begin;
}

/* What the rows say. */
static void read_rows(const struct capo_clocks *s, struct capo_job_comm *c, struct capo_skew *skew,
                      const struct skew_laid *l, const struct capo_meet *m)
{
        uint32_t n = l->n, n_even = 0;
        const double *starts = l->start;
        double waited = 0, *column = l->column;

        for (uint32_t i = 0; i < l->n_rows; i++) {
                const double *t = starts + (size_t)i * n;

                skew->max_ns = fmax(skew->max_ns, l->call[i].spread);
                skew->ranks[l->call[i].last].last++;
                for (uint32_t k = 0; k < n; k++)
                        skew->ranks[k].wait_ns += (t[l->call[i].last] - t[k]) / l->n_rows;
                if (!l->call[i].row->extra)
                        column[n_even++] = l->call[i].spread;
        }
        skew->p50_ns = skew_quantile(column, n_even, 0.5);
        skew->p95_ns = skew_quantile(column, n_even, 0.95);
        charge_ranks(s->job, c, skew, l, m);
        find_holes(skew, l);
        find_turn(s->job, c, skew, l, m);
        for (uint32_t i = 0; i < l->n_rows; i++) {
                if (l->call[i].last == skew->worst)
                        skew->worst_max_ns = fmax(skew->worst_max_ns, l->call[i].spread);
        }
        for (uint32_t k = 0; k < n; k++) {
                skew->ranks[k].seen = l->n_rows;
                for (uint32_t i = 0; i < l->n_rows; i++) {
                        const double *t = starts + (size_t)i * n;

                        column[i] = t[k] - t[l->call[i].last] + l->call[i].spread;
                }
                skew->ranks[k].late_p50_ns = skew_quantile(column, l->n_rows, 0.5);
                waited += skew->ranks[k].caused_ns / n;
        }
        skew->worst_p50_ns = when_last(c, skew, starts, column, EVERYBODY);
        skew->others_p50_ns = when_last(c, skew, starts, column, OTHERS);
        skew->wait_share = -1;
        if (skew->from != CAPO_SKEW_HOST_START && capo_job_duration_ns(s->job))
                skew->wait_share = waited / (double)capo_job_duration_ns(s->job);
}

/*
 * Do the calls of skew->worst come late on its host, too? A call does where that is half of how
 * late its GPU is; so must half of the waiting that it caused. What the host says of others does
 * not count: on a busy machine each of them is late now and then.
 */
static bool is_late_on_host(const struct capo_clocks *s, uint32_t comm,
                            const struct capo_skew *skew, const struct skew_laid *l)
{
        double *host = l->start + (size_t)l->n_rows * l->n; /* there is one row more than calls */
        double all = 0, hosts = 0;
        uint32_t k = skew->worst;

        for (uint32_t i = 0; i < l->n_rows; i++) {
                const double *gpu = l->start + (size_t)i * l->n;

                if (l->call[i].last != k ||
                    !skew_row_starts(s, comm, l->call[i].nth, CAPO_SKEW_HOST_START, host))
                        continue;
                all += l->call[i].waited;
                if (host[k] - middle_of(host, l->n, k, l->charges) >=
                    (gpu[k] - middle_of(gpu, l->n, k, l->charges)) / 2)
                        hosts += l->call[i].waited;
        }
        return hosts >= all / 2;
}

/*
 * A rank that stood still for seconds is in one call, which hardly ever is one of those timed on
 * the GPU; but what the others waited in it is time on their GPUs, and known: the row of that call
 * is told, beside the shortest that such a call takes.
 */
static void tell_row(struct capo_job *job, uint32_t comm, const struct capo_meet_row *call,
                     double spread, double waited)
{
        for (uint32_t i = 0; i < job->n_rows; i++) {
                struct capo_job_row *row = &job->rows[i];
                const struct capo_hist *timed = &row->time[CAPO_CLOCK_EVENT];

                if (row->comm != comm || row->call != call->call || row->bytes != call->bytes ||
                    !timed->count)
                        continue;
                if (spread > (double)timed->max_ns) {
                        row->told_calls += job->comms[comm].n_members;
                        row->told_ns +=
                                waited + (double)job->comms[comm].n_members * (double)timed->min_ns;
                }
                return;
        }
}

static void laid_finish(struct skew_laid *l)
{
        free(l->start);
        free(l->call);
        free(l->column);
        free(l->untimed);
        free(l->charges);
        free(l->differ);
}

static int solve_comm(struct capo_job *job, const struct capo_clocks *s, uint32_t comm)
{
        struct capo_job_comm *c = &job->comms[comm];
        const struct capo_meet *m = s->meets[comm];
        _cleanup_(laid_finish) struct skew_laid l = {.n = c->n_members};
        struct capo_skew *skew;
        enum capo_skew_from from;

        c->no_skew = c->n_members < 2                        ? CAPO_SKEW_ONE_LOG
                     : !m && c->no_skew == CAPO_SKEW_NO_ROOM ? CAPO_SKEW_NO_ROOM
                     : !m || !m->n_rows                      ? CAPO_SKEW_NO_CALLS
                                                             : CAPO_SKEW_COMPARED;
        if (c->no_skew != CAPO_SKEW_COMPARED)
                return 0;
        l.start = malloc(((size_t)m->n_rows + 2) * c->n_members * sizeof *l.start);
        l.call = malloc(m->n_rows * sizeof *l.call);
        l.column = malloc(m->n_rows * sizeof *l.column);
        l.untimed = calloc(c->n_members, sizeof *l.untimed);
        l.charges = calloc(4 * (size_t)c->n_members, sizeof *l.charges);
        l.differ = calloc(2 * (size_t)c->n_members, sizeof *l.differ);
        skew = calloc(1, sizeof *skew);
        if (skew)
                skew->ranks = calloc(c->n_members, sizeof *skew->ranks);
        if (!l.start || !l.call || !l.column || !l.untimed || !l.charges || !l.differ || !skew ||
            !skew->ranks) {
                capo_skew_free(skew);
                return -ENOMEM;
        }
        for (from = CAPO_SKEW_GPU_DURATION; from != CAPO_SKEW_HOST_START;
             from++) { /* the best that a few calls have */
                if (rows_by(s, comm, from, l.start) >= SKEW_FEW)
                        break;
        }
        if (skew_lay_out(s, comm, from, &l) < 0) {
                capo_skew_free(skew);
                return -ENOMEM;
        }
        for (uint32_t i = 0; i < m->n_rows; i++) {
                if (!m->rows[i].mismatch)
                        continue;
                skew->mismatched++;
                if (!skew->mismatch_seq || m->rows[i].seq < skew->mismatch_seq)
                        skew->mismatch_seq = m->rows[i].seq;
        }
        if (!l.n_rows)
                c->no_skew = CAPO_SKEW_NO_COMMON;
        if (!l.n_rows && !skew->mismatched) {
                capo_skew_free(skew);
                return 0;
        }
        skew->n_calls = l.n_rows;
        for (uint32_t i = 0; i < l.n_rows; i++) {
                skew->n_host += l.call[i].by_host;
                skew->n_kernel +=
                        from == CAPO_SKEW_GPU_DURATION && !l.call[i].by_host &&
                        skew_row_tells(s, comm, l.call[i].nth, CAPO_SKEW_KERNEL_WAIT, l.column);
        }
        skew->from = from;
        skew->aligned = from == CAPO_SKEW_GPU_DURATION || on_one_clock(job, c);
        if (l.n_rows) {
                read_rows(s, c, skew, &l, m);
                skew->host_late = is_late_on_host(s, comm, skew, &l);
        }
        for (uint32_t i = 0; i < l.n_rows; i++) {
                if (l.call[i].by_host && capo_meet_is_long(m, l.call[i].row->seq) &&
                    !capo_meet_is_timed(m, l.call[i].row))
                        tell_row(job, comm, l.call[i].row, l.call[i].spread, l.call[i].waited);
        }
        c->skew = skew;
        return 0;
}

int capo_skew_solve(struct capo_job *job, struct capo_meet *const *meets)
{
        _cleanup_(capo_clocks_finish) struct capo_clocks clocks;
        int r = capo_clocks_make(&clocks, job, meets);

        for (uint32_t i = 0; r == 0 && i < job->n_comms; i++)
                r = solve_comm(job, &clocks, i);
        return r;
}
