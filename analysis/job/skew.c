/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/order.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"
#include "analysis/job/skew.h"
#include "analysis/job/skew_follow.h"
#include "analysis/job/skew_parts.h"
#include "analysis/job/skew_starts.h"

static uint32_t rows_by(const struct capo_clocks *s, uint32_t comm, enum capo_skew_from from,
                        double *scratch)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < s->meets[comm]->n_rows; i++)
                n += skew_row_starts(s, comm, i, from, scratch);
        return n;
}

enum among { EVERYBODY, OTHERS };

/*
 * Over the calls in which skew->worst was last, the median of one of: its delay behind the first
 * rank; the delay of the last of the others.
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

/* The median start of all members but @except; of two in the middle the earlier. */
static double middle_of(const double *t, uint32_t n, uint32_t except, double *scratch)
{
        uint32_t m = 0;

        for (uint32_t k = 0; k < n; k++) {
                if (k != except)
                        scratch[m++] = t[k];
        }
        return capo_middle(scratch, m);
}

/* Find the call in which each rank was furthest behind the median of all. The first call of a
 * communicator is skipped, because ranks always start a job one after the other. */
static void find_holes(struct capo_skew *skew, const struct skew_laid *l)
{
        for (uint32_t i = 0; i < l->n_rows; i++) {
                const double *t = l->start + (size_t)i * l->n;
                double middle;

                if (l->call[i].row->seq < 2)
                        continue;
                middle = middle_of(t, l->n, l->n, l->middle);
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
#define TURN_LESS 0.25 /* of the waiting per call behind the turn: as much may be before it */

struct turn {
        uint32_t seq, row;
        double worth, waited;
};

static int by_seq(const void *a, const void *b)
{
        const struct turn *x = a, *y = b;

        return CAPO_ORDER(x->seq, y->seq);
}

/*
 * From which call on skew->worst was last in most calls. Weigh calls in which it was last against
 * the others, so that the weights balance at half way between its chance and certainty; the turn is
 * where the sum behind it is largest. If the result is not clear, or the others waited for it before,
 * too, it is 0: from the beginning.
 */
static void find_turn(const struct capo_job *job, const struct capo_job_comm *c,
                      struct capo_skew *skew, const struct skew_laid *l, const struct capo_meet *m)
{
        _cleanup_free_ struct turn *turn = xmalloc((l->n_rows + 1) * sizeof *turn);
        double level = (1 + 1.0 / l->n) / 2, sum = 0, best = 0, waited[2] = {0};
        uint32_t from = l->n_rows;
        const struct capo_job_member *worst =
                &c->members[skew->worst]; /* sorted by rank; members that left a log */
        const struct capo_meet_row *row;

        for (uint32_t i = 0; i < l->n_rows; i++) {
                bool last = l->call[i].last == skew->worst;

                turn[i] = (struct turn){l->call[i].row->seq, i, last - level,
                                        last ? l->call[i].waited : 0};
        }
        qsort(turn, l->n_rows, sizeof *turn, by_seq);
        for (uint32_t i = l->n_rows; i-- > 0;) {
                sum += turn[i].worth;
                if (sum > best) {
                        best = sum;
                        from = i;
                }
        }
        if (from < TURN_FEW || from + TURN_FEW > l->n_rows)
                return;
        for (uint32_t i = 0; i < l->n_rows; i++)
                waited[i >= from] += turn[i].waited;
        if (waited[0] / from > TURN_LESS * waited[1] / (l->n_rows - from))
                return;
        row = l->call[turn[from].row].row;
        skew->worst_from_seq = row->seq;
        skew->worst_from_ns =
                job->processes[worst->process].header.t0_real_ns +
                m->arrivals[(size_t)(row - m->rows) * m->n_ranks + (size_t)worst->rank].begin;
}

/* Median, percentiles and per-rank figures of the calls compared. */
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
        skew_charge_ranks(s->job, c, skew, l, m);
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
                for (uint32_t i = 0; i < l->n_rows; i++)
                        column[i] =
                                starts[(size_t)i * n + l->call[i].last] - starts[(size_t)i * n + k];
                skew->ranks[k].wait_p50_ns = skew_quantile(column, l->n_rows, 0.5);
                waited += skew->ranks[k].caused_ns / n;
        }
        skew->worst_p50_ns = when_last(c, skew, starts, column, EVERYBODY);
        skew->others_p50_ns = when_last(c, skew, starts, column, OTHERS);
        skew->wait_share = -1;
        if (skew->from != CAPO_SKEW_HOST_START && capo_job_duration_ns(s->job)) {
                skew->wait_share = waited / (double)capo_job_duration_ns(s->job);
                skew->wait_pm =
                        fmin(1, skew->waited_pm_ns / n / (double)capo_job_duration_ns(s->job));
        }
}

/*
 * Are the calls of skew->worst late by host time too? A call is, if its host start is at least half
 * as late as its GPU start; the calls that are must hold half of the waiting that it caused. Host
 * times of other ranks do not count: on a busy machine each of them is late now and then.
 */
static bool is_late_on_host(const struct capo_clocks *s, uint32_t comm,
                            const struct capo_skew *skew, const struct skew_laid *l)
{
        double *host = l->start + (size_t)l->n_rows * l->n; /* there is one more row than calls */
        double all = 0, hosts = 0;
        uint32_t k = skew->worst;

        for (uint32_t i = 0; i < l->n_rows; i++) {
                const double *gpu = l->start + (size_t)i * l->n;

                if (l->call[i].last != k ||
                    !skew_row_starts(s, comm, l->call[i].nth, CAPO_SKEW_HOST_START, host))
                        continue;
                all += l->call[i].waited;
                if (host[k] - middle_of(host, l->n, k, l->middle) >=
                    (gpu[k] - middle_of(gpu, l->n, k, l->middle)) / 2)
                        hosts += l->call[i].waited;
        }
        return hosts >= all / 2;
}

/*
 * A freeze of seconds is in one call, which is hardly ever timed on the GPU; the last rank may have
 * timed it, after its pause. But the others' waiting in it is GPU time and is known: add it to the
 * row of that call, on top of the shortest time that such a call takes.
 */
static void infer_row(struct capo_job *job, uint32_t comm, const struct capo_meet_row *call,
                      double spread, double waited)
{
        for (uint32_t i = 0; i < job->n_rows; i++) {
                struct capo_job_row *row = &job->rows[i];
                const struct capo_hist *timed = &row->time[CAPO_CLOCK_EVENT];

                if (row->comm != comm || row->call != call->call || row->bytes != call->bytes ||
                    !timed->count)
                        continue;
                if (spread > (double)timed->max_ns) {
                        row->inferred_calls += job->comms[comm].n_members;
                        row->inferred_ns +=
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
        free(l->charge);
        free(l->middle);
        free(l->differ);
}

static void solve_comm(struct capo_job *job, const struct capo_clocks *s, uint32_t comm)
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
                return;
        l.start = xmalloc(((size_t)m->n_rows + 2) * c->n_members * sizeof *l.start);
        l.call = xmalloc(m->n_rows * sizeof *l.call);
        l.column = xmalloc(m->n_rows * sizeof *l.column);
        l.untimed = xcalloc(c->n_members + 1, sizeof *l.untimed);
        l.charge = xcalloc(c->n_members + 1, sizeof *l.charge);
        l.middle = xmalloc(c->n_members * sizeof *l.middle);
        l.differ = xcalloc(c->n_members + 1, sizeof *l.differ);
        skew = xcalloc(1, sizeof *skew);
        skew->ranks = xcalloc(c->n_members, sizeof *skew->ranks);
        for (from = CAPO_SKEW_GPU_DURATION; from != CAPO_SKEW_HOST_START;
             from++) { /* use the best source that at least a few calls have */
                if (rows_by(s, comm, from, l.start) >= SKEW_FEW)
                        break;
        }
        skew_lay_out(s, comm, from, &l);
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
                return;
        }
        skew->n_calls = l.n_rows;
        for (uint32_t i = 0; i < l.n_rows; i++) {
                skew->n_host += l.call[i].by_host;
                skew->n_kernel +=
                        from == CAPO_SKEW_GPU_DURATION && !l.call[i].by_host &&
                        skew_row_tells(s, comm, l.call[i].nth, CAPO_SKEW_KERNEL_WAIT, l.column);
        }
        skew->from = from;
        skew->aligned = from == CAPO_SKEW_GPU_DURATION || capo_comm_has_one_clock(job, comm);
        if (l.n_rows) {
                read_rows(s, c, skew, &l, m);
                skew->host_late = is_late_on_host(s, comm, skew, &l);
        }
        for (uint32_t i = 0; i < l.n_rows; i++) {
                if (l.call[i].by_host && capo_meet_is_long(m, l.call[i].row->seq) &&
                    !capo_meet_is_timed(m, l.call[i].row, c->members[l.call[i].last].rank))
                        infer_row(job, comm, l.call[i].row, l.call[i].spread, l.call[i].waited);
        }
        c->skew = skew;
}

void capo_skew_solve(struct capo_job *job, struct capo_meet *const *meets)
{
        _cleanup_(capo_clocks_finish) struct capo_clocks clocks;

        capo_clocks_make(&clocks, job, meets);
        for (uint32_t i = 0; i < job->n_comms; i++)
                solve_comm(job, &clocks, i);
        capo_skew_follow(job);
}
