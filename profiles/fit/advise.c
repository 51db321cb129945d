/* SPDX-License-Identifier: Apache-2.0 */
/* The model adds up the buckets of a step one after another. A job that overlaps them with its
 * backward pass gains less from fewer, larger buckets, because the last one starts later. So a best
 * size is only named if it saves at least 3 % of the step's communication, and more than the 95 %
 * intervals of the times used. The smallest size within 1 % of the best is chosen. */
#include <math.h>

#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "analysis/job/training_steps.h"
#include "profiles/fit/advise.h"

#define LEAST_GAIN 0.03 /* of the step's communication */

static void add_point(struct capo_curve *c, double bytes, double us, double pm)
{
        xarray_room(&c->bytes, (size_t)c->n, sizeof *c->bytes);
        xarray_room(&c->us, (size_t)c->n, sizeof *c->us);
        xarray_room(&c->pm, (size_t)c->n, sizeof *c->pm);
        c->pm[c->n] = pm;
        c->bytes[c->n] = bytes;
        c->us[c->n++] = us;
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
                if (c->n && c->bytes[c->n - 1] ==
                                    (double)r->bytes) { /* the same size ran with two algorithms */
                        c->pm[c->n - 1] = us < c->us[c->n - 1] ? pm : c->pm[c->n - 1];
                        c->us[c->n - 1] = fmin(c->us[c->n - 1], us);
                } else
                        add_point(c, (double)r->bytes, us, pm);
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

double capo_curve_at(const struct capo_curve *c, double bytes)
{
        size_t i = 1;

        if (bytes <= c->bytes[0])
                return c->us[0];
        if (bytes >= c->bytes[c->n - 1])
                return c->us[c->n - 1] * bytes / c->bytes[c->n - 1];
        while (c->bytes[i] < bytes)
                i++;
        return exp(log(c->us[i - 1]) + log(c->us[i] / c->us[i - 1]) * log(bytes / c->bytes[i - 1]) /
                                               log(c->bytes[i] / c->bytes[i - 1]));
}

/* The larger uncertainty of the two neighbouring points. */
static double doubt_at(const struct capo_curve *c, double bytes)
{
        size_t i = 0;

        while (i + 1 < c->n && c->bytes[i] < bytes)
                i++;
        return bytes == c->bytes[i] || i == 0 || bytes > c->bytes[i] ? c->pm[i]
                                                                     : fmax(c->pm[i - 1], c->pm[i]);
}

int capo_advise(const struct capo_job *job, uint32_t comm, const struct capo_curve *curve,
                uint64_t steps, struct capo_advice *a)
{
        static const uint64_t caps[CAPO_ADVICE_BUCKETS] = {1,  2,   5,   10,  25,  50,
                                                           64, 100, 128, 200, 400, 800};
        double bytes = 0, ns = 0, best, doubt = 0;
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
                a->now_seconds += (double)r->count * capo_curve_at(curve, (double)r->bytes) / 1e6;
                doubt += (double)r->count * capo_curve_at(curve, (double)r->bytes) / 1e6 *
                         doubt_at(curve, (double)r->bytes);
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
                b->seconds = (double)b->n * capo_curve_at(curve, (double)b->bucket) / 1e6;
                b->beyond = (double)b->bucket > 1.01 * curve->bytes[curve->n - 1] ||
                            (double)b->bucket < 0.99 * curve->bytes[0];
                b->doubt_seconds = hypot(doubt, b->seconds * doubt_at(curve, (double)b->bucket));
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
