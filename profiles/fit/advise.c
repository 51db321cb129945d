/* SPDX-License-Identifier: Apache-2.0 */
/* The model adds up the buckets of a step one after another. A job that overlaps them with its
 * backward pass gains less from fewer, larger buckets, because the last one starts later. So a best
 * size is only named if it saves at least 3 % of the step's communication, and more than the 95 %
 * intervals of the times used. The smallest size within 1 % of the best is chosen. */
#include <math.h>

#include "capo/call_ids.h"
#include "core/base/xalloc.h"
#include "analysis/job/training_steps.h"
#include "profiles/fit/advise.h"

#define LEAST_GAIN 0.03 /* of the step's communication */

static void add_point(struct capo_curve *c, double bytes, double us, double pm)
{
        *xadd(c->at, c->n) = (struct capo_curve_point){bytes, us, pm};
}

#define QUARTER 0.25 /* quantile used as the time of a size */

/* Uncertainty of that quantile, from the number of calls below it. Ranks time the same calls, so a
 * call counts once. */
static double doubt_of(const struct capo_job_row *r, const struct capo_hist *h, double us)
{
        double drawn = (double)h->count * (double)r->count / (double)r->calls;
        double part = 1.96 * sqrt(QUARTER * (1 - QUARTER) / fmax(drawn, 1));

        if (drawn < 2)
                return 1; /* one call says nothing about variation */
        return (capo_hist_quantile(h, fmin(1, QUARTER + part)) -
                capo_hist_quantile(h, fmax(0, QUARTER - part))) /
               2e3 / us;
}

int capo_curve_of_job(const struct capo_job *job, uint32_t comm, struct capo_curve *c)
{
        *c = (struct capo_curve){0};
        for (uint32_t i = 0; i < job->n_rows;
             i++) { /* rows are sorted by communicator, call, bytes */
                const struct capo_job_row *r = &job->rows[i];
                enum capo_clock clock = capo_job_row_clock(r);
                double us, pm;

                if (!capo_training_row(r, comm) || (r->flags & CAPO_RECORD_MEMBER) ||
                    clock < CAPO_CLOCK_EVENT)
                        continue;
                us = capo_hist_quantile(&r->time[clock], QUARTER) / 1e3;
                if (!(us > 0))
                        continue;
                pm = doubt_of(r, &r->time[clock], us);
                if (!c->n || c->at[c->n - 1].bytes != (double)r->bytes)
                        add_point(c, (double)r->bytes, us, pm);
                else if (us < c->at[c->n - 1].us) /* the same size ran with two algorithms */
                        c->at[c->n - 1] = (struct capo_curve_point){(double)r->bytes, us, pm};
        }
        return c->n < 2 ? -ENODATA : 0;
}

int capo_curve_of_fit(const struct capo_fit *fit, uint32_t n_ranks, struct capo_curve *c)
{
        *c = (struct capo_curve){0};
        for (int i = 0; i < fit->n_series && c->n == 0; i++) {
                const struct capo_fit_series *s = &fit->series[i];

                if (s->call != CAPO_CALL_ALLREDUCE || (uint32_t)s->like.n_ranks != n_ranks)
                        continue;
                for (int p = 0; p < s->n_points; p++) {
                        const struct capo_fit_cell *cell = capo_fit_cell_of(
                                s, p, s->points[p].chosen > 0 ? s->points[p].chosen : 0);

                        if (!isnan(cell->us))
                                add_point(c, (double)s->points[p].bytes, cell->us,
                                          isfinite(cell->hi - cell->lo)
                                                  ? (cell->hi - cell->lo) / 2 / cell->us
                                                  : 0);
                }
        }
        return c->n < 2 ? -ENODATA : 0;
}

/* The time of @bytes, and half its 95 % interval as a fraction, the larger one of the neighbouring points. */
static double time_at(const struct capo_curve *c, double bytes, double *pm)
{
        const struct capo_curve_point *p = c->at, *end = p + c->n - 1, *q = p + 1;

        *pm = p->pm;
        if (bytes <= p->bytes)
                return p->us;
        *pm = end->pm;
        if (bytes >= end->bytes)
                return end->us * bytes / end->bytes;
        for (; q->bytes < bytes; q++)
                ;
        p = q - 1;
        *pm = bytes == q->bytes ? q->pm : fmax(p->pm, q->pm);
        return exp(log(p->us) +
                   log(q->us / p->us) * log(bytes / p->bytes) / log(q->bytes / p->bytes));
}

int capo_advise(const struct capo_job *job, uint32_t comm, const struct capo_curve *curve,
                uint64_t steps, struct capo_advice *a)
{
        static const uint64_t caps[CAPO_ADVICE_BUCKETS] = {1,  2,   5,   10,  25,  50,
                                                           64, 100, 128, 200, 400, 800};
        double bytes = 0, ns = 0, best, doubt = 0, us, pm;
        uint64_t calls = 0;

        *a = (struct capo_advice){.comm = job->comms[comm].name,
                                  .n_ranks = (uint32_t)job->comms[comm].n_ranks,
                                  .best = -1};
        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *r = &job->rows[i];

                if (!capo_training_row(r, comm))
                        continue;
                bytes += (double)r->bytes * (double)r->count;
                calls += r->count;
                a->largest = r->bytes > a->largest ? r->bytes : a->largest;
                a->smallest = !a->smallest || r->bytes < a->smallest ? r->bytes : a->smallest;
                us = time_at(curve, (double)r->bytes, &pm);
                a->now_seconds += (double)r->count * us / 1e6;
                doubt += (double)r->count * us / 1e6 * pm;
                if (capo_job_row_clock(r) >= CAPO_CLOCK_EVENT)
                        ns += capo_job_row_total_ns(r) / (double)r->calls * (double)r->count;
        }
        a->steps_found = steps == 0;
        a->steps = steps;
        if (!steps) {
                int e = capo_training_steps(job, comm, &a->steps);

                if (e < 0)
                        return e;
        }
        if (calls == 0 || a->steps < 2)
                return -ENODATA;
        a->calls = (calls + a->steps / 2) / a->steps;
        a->step_bytes = (uint64_t)(bytes / (double)a->steps);
        a->now_seconds /= (double)a->steps;
        a->recorded_seconds = ns / 1e9 / (double)a->steps;
        doubt /= (double)a->steps;
        for (size_t i = 0; i < CAPO_ADVICE_BUCKETS; i++) {
                struct capo_advice_bucket *b = &a->bucket[a->n_buckets];

                b->cap = caps[i] << 20;
                b->n = (a->step_bytes + b->cap - 1) / b->cap;
                if (b->n == 0)
                        break;
                b->bucket = a->step_bytes / b->n;
                b->seconds = (double)b->n * time_at(curve, (double)b->bucket, &pm) / 1e6;
                b->beyond = (double)b->bucket > 1.01 * curve->at[curve->n - 1].bytes ||
                            (double)b->bucket < 0.99 * curve->at[0].bytes;
                b->doubt_seconds = hypot(doubt, b->seconds * pm);
                a->n_buckets++;
                if (b->n == 1)
                        break; /* larger buckets change nothing */
        }
        a->within = LEAST_GAIN;
        best = a->now_seconds;
        for (size_t i = 0; i < a->n_buckets; i++) {
                const struct capo_advice_bucket *b = &a->bucket[i];
                double gain = a->now_seconds - b->seconds;

                if (gain <= LEAST_GAIN * a->now_seconds)
                        continue;
                if (gain <= b->doubt_seconds) {
                        a->within = fmax(a->within, b->doubt_seconds / a->now_seconds);
                } else if (b->seconds < best * (a->best < 0 ? 1 : 0.99)) {
                        best = b->seconds;
                        a->best = (int)i;
                }
        }
        return 0;
}
