/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/util.h"
#include "profiles/job/clocks.h"
#include "profiles/job/skew.h"

#define FEW 8

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

/* Sorts @v. */
static double quantile(double *v, size_t n, double q)
{
        if (!n)
                return 0;
        qsort(v, n, sizeof *v, by_value);
        return v[(size_t)(q * (double)(n - 1) + 0.5)];
}

/* Start of member @k in row @i, by @from; NAN when it is not in, or that is not known of it. */
static double start_of(const struct capo_clocks *s, uint32_t comm, uint32_t i, uint32_t k, enum capo_skew_from from)
{
        const struct capo_job_member *member = &s->job->comms[comm].members[k];
        const struct capo_meet *m = s->meets[comm];
        const struct capo_meet_arrival *at;

        if ((uint32_t)member->rank >= m->n_ranks)
                return NAN;
        at = &m->arrivals[(size_t)i * m->n_ranks + member->rank];
        if (at->begin == CAPO_MEET_ABSENT)
                return NAN;
        if (from == CAPO_SKEW_HOST_START)
                return capo_clocks_ns(s, member->process, at->begin);
        return at->gpu_ns && capo_meet_is_barrier(&m->rows[i]) ? -(double)at->gpu_ns : NAN;
}

/* Fill starts[row * n_members + member] with the rows that all members are in. Returns how many. */
static uint32_t complete_rows(const struct capo_clocks *s, uint32_t comm, enum capo_skew_from from, double *starts)
{
        uint32_t n = s->job->comms[comm].n_members, n_rows = 0;

        for (uint32_t i = 0; i < s->meets[comm]->n_rows; i++) {
                uint32_t k = 0;

                if (s->meets[comm]->rows[i].mismatch)
                        continue;
                while (k < n && !isnan(starts[(size_t)n_rows * n + k] = start_of(s, comm, i, k, from)))
                        k++;
                n_rows += k == n;
        }
        return n_rows;
}

static bool on_one_clock(const struct capo_job *job, const struct capo_job_comm *c)
{
        for (uint32_t k = 1; k < c->n_members; k++) {
                if (job->processes[c->members[k].process].clock != job->processes[c->members[0].process].clock)
                        return false;
        }
        return true;
}

enum among { EVERYBODY, OTHERS };

/*
 * Over the calls in which skew->worst was last, the median of: how far it was behind the first; how far the last of the
 * others was.
 */
static double when_last(const struct capo_job_comm *c, const struct capo_skew *skew, const double *starts,
                        double *column, enum among among)
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
        return quantile(column, n_last, 0.5);
}

/* What the rows say; @column has room for a value per row. */
static void read_rows(const struct capo_clocks *s, struct capo_job_comm *c, struct capo_skew *skew,
                      const double *starts, double *column)
{
        uint32_t n = c->n_members;
        double waited = 0;

        for (uint32_t i = 0; i < skew->n_calls; i++) {
                const double *t = starts + (size_t)i * n;
                uint32_t last = 0;
                double first = t[0];

                for (uint32_t k = 1; k < n; k++) {
                        last = t[k] > t[last] ? k : last;
                        first = fmin(first, t[k]);
                }
                column[i] = t[last] - first;
                skew->ranks[last].last++;
                for (uint32_t k = 0; k < n; k++) {
                        skew->ranks[k].wait_ns += (t[last] - t[k]) / skew->n_calls;
                        skew->ranks[last].caused_ns += (t[last] - t[k]) / skew->n_calls / n;
                }
        }
        skew->p50_ns = quantile(column, skew->n_calls, 0.5);
        skew->p95_ns = quantile(column, skew->n_calls, 0.95);
        skew->max_ns = quantile(column, skew->n_calls, 1);
        for (uint32_t k = 0; k < n; k++) {
                skew->ranks[k].seen = skew->n_calls;
                waited += skew->ranks[k].wait_ns / n;
                if (skew->ranks[k].last > skew->ranks[skew->worst].last)
                        skew->worst = k;
                for (uint32_t i = 0; i < skew->n_calls; i++) {
                        const double *t = starts + (size_t)i * n;
                        double first = t[0];

                        for (uint32_t j = 1; j < n; j++)
                                first = fmin(first, t[j]);
                        column[i] = t[k] - first;
                }
                skew->ranks[k].late_p50_ns = quantile(column, skew->n_calls, 0.5);
        }
        skew->worst_p50_ns = when_last(c, skew, starts, column, EVERYBODY);
        skew->others_p50_ns = when_last(c, skew, starts, column, OTHERS);
        skew->wait_share = -1;
        if (skew->from != CAPO_SKEW_HOST_START && capo_job_duration_ns(s->job))
                skew->wait_share = waited * (double)c->n_calls / (double)capo_job_duration_ns(s->job);
}

static int solve_comm(struct capo_job *job, const struct capo_clocks *s, uint32_t comm)
{
        struct capo_job_comm *c = &job->comms[comm];
        const struct capo_meet *m = s->meets[comm];
        _cleanup_free_ double *starts = NULL, *column = NULL;
        struct capo_skew *skew;
        uint32_t n_rows;
        enum capo_skew_from from;

        c->no_skew = c->n_members < 2 ? CAPO_SKEW_ONE_LOG : !m || !m->n_rows ? CAPO_SKEW_NO_CALLS : CAPO_SKEW_COMPARED;
        if (c->no_skew != CAPO_SKEW_COMPARED)
                return 0;
        starts = malloc((size_t)m->n_rows * c->n_members * sizeof *starts + sizeof *starts * c->n_members);
        column = malloc(m->n_rows * sizeof *column);
        skew = calloc(1, sizeof *skew);
        if (skew)
                skew->ranks = calloc(c->n_members, sizeof *skew->ranks);
        if (!starts || !column || !skew || !skew->ranks) {
                capo_skew_free(skew);
                return -ENOMEM;
        }
        for (from = CAPO_SKEW_GPU_DURATION;; from++) { /* the best source that has a few calls on all ranks */
                n_rows = complete_rows(s, comm, from, starts);
                if (n_rows >= FEW || from == CAPO_SKEW_HOST_START)
                        break;
        }
        for (uint32_t i = 0; i < m->n_rows; i++) {
                if (!m->rows[i].mismatch)
                        continue;
                skew->mismatched++;
                if (!skew->mismatch_seq || m->rows[i].seq < skew->mismatch_seq)
                        skew->mismatch_seq = m->rows[i].seq;
        }
        if (!n_rows)
                c->no_skew = CAPO_SKEW_NO_COMMON;
        if (!n_rows && !skew->mismatched) {
                capo_skew_free(skew);
                return 0;
        }
        skew->n_calls = n_rows;
        skew->from = from;
        skew->aligned = from == CAPO_SKEW_GPU_DURATION || on_one_clock(job, c);
        if (n_rows)
                read_rows(s, c, skew, starts, column);
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
