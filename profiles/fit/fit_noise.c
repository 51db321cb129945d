/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much runs differ, size by size. A time has two layers of noise: within a run (the error of a
 * block's median) and between runs (another day, other buffers, other channels). The second is
 * estimated by Cochran's analysis of variance (the method-of-moments estimator of the
 * random-effects model: Cochran 1954; Hedges and Olkin 1985, chapter 9): the variance of the runs
 * of a cell around their mean, less what their own errors explain,
 *
 *      tau^2 = max(0, (sum of squares - sum of (n - 1) mean se^2) / sum of (n - 1))
 *
 * over all cells within two doublings of the size, because small sizes are often ten times as noisy
 * as large ones.
 *
 * How far to trust it depends on how many runs were repeated at this size (the freedom d), not on
 * how many sizes a run has: what makes a run slow makes it slow at many sizes. Two intervals hold
 * with 95 %: Student's t with d degrees of freedom times what was measured, and t with
 * FLOOR_FREEDOM times at least FLOOR, what public measurements show; the narrower one is taken.
 * Where NCCL's own choice was not repeated only the second is left.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/order.h"
#include "core/base/util.h"
#include "profiles/fit/fit_private.h"
#include "analysis/job/spread.h"

#define FLOOR                                                                                      \
        0.04 /* four of five public series repeat better than this: docs/fit.md, "How runs differ" \
              */
#define FLOOR_FREEDOM 3   /* the fifth does not: wide tails */
#define WINDOW        2.0 /* doublings */

struct sums {
        double squares, within;
        int freedom;
};

/* The same of all points before one; differences of these are taken. */
struct before {
        long double squares, within;
        int64_t freedom;
};

/* The first block of candidate @c at point @p that is of run @fold or a later one. */
static int first_block(const struct capo_fit_series *s, int p, int c, int fold)
{
        int from = s->points[p].first_block, end = s->points[p].end_block;

        while (from < end) { /* they come by candidate, then by run */
                int mid = from + (end - from) / 2;
                const struct capo_fit_block *b = &s->blocks[mid];

                if (b->candidate < c || (b->candidate == c && b->fold < fold))
                        from = mid + 1;
                else
                        end = mid;
        }
        return from;
}

/* The runs of candidate @c alone are added to the @n that are there; those of candidate @first come
 * by run. */
static int add_runs(const struct capo_fit_series *s, struct capo_fit_part part, int p, int c,
                    int *first, int n, struct capo_fit_run *runs)
{
        for (int i = first_block(s, p, c, part.only_fold);
             i < s->points[p].end_block && s->blocks[i].candidate == c; i++) {
                const struct capo_fit_block *b = &s->blocks[i];
                int k = n - 1;

                if (part.only_fold >= 0 && b->fold != part.only_fold)
                        break;
                if (b->fold == part.without_fold)
                        continue;
                *first = *first < 0 ? c : *first;
                if (k >= 0 && runs[k].run != b->run && c == *first)
                        k = -1;
                while (k >= 0 && runs[k].run != b->run)
                        k--;
                if (k < 0) {
                        k = n++;
                        runs[k] = (struct capo_fit_run){.run = b->run, .anchored = true};
                }
                runs[k].value += b->value; /* a sum until all are in */
                runs[k].variance += b->se * b->se;
                runs[k].n_samples += b->n;
                runs[k].n_blocks++;
                runs[k].anchored &= b->anchor;
        }
        return n;
}

int capo_fit_runs(const struct capo_fit_series *s, struct capo_fit_part part, int p, int c,
                  struct capo_fit_run *runs)
{
        const struct capo_fit_cell *row = &s->cells[p * s->n_candidates];
        bool pooled = c == 0 || row[c].is_default;
        int n = 0, first = -1;

        if (p == part.without_point)
                return 0;
        for (int k = pooled ? 0 : c; k < (pooled ? s->n_candidates : c + 1); k++) {
                if (k == c || k == 0 || row[k].is_default)
                        n = add_runs(s, part, p, k, &first, n, runs);
        }
        for (int k = 0; k < n; k++) {
                runs[k].value /= runs[k].n_blocks;
                runs[k].variance /= (double)runs[k].n_blocks * runs[k].n_blocks;
        }
        return n;
}

static void add_cell(const struct capo_fit_run *runs, int n, struct sums *sum)
{
        double mean = 0, within = 0, squares = 0;

        for (int k = 0; k < n; k++) {
                mean += runs[k].value / n;
                within += runs[k].variance / n;
        }
        for (int k = 0; k < n; k++)
                squares += (runs[k].value - mean) * (runs[k].value - mean);
        if (n < 2)
                return;
        sum->squares += squares;
        sum->within += within * (n - 1);
        sum->freedom += n - 1;
}

static struct sums of_point(struct capo_fit_series *s, int p, struct capo_fit_run *runs)
{
        struct sums sum = {0};

        s->points[p].default_runs = 0;
        for (int c = 0; c < s->n_candidates; c++) {
                int n;

                if (c > 0 && capo_fit_cell_of(s, p, c)->is_default)
                        continue;
                n = capo_fit_runs(s, CAPO_FIT_ALL, p, c, runs);
                if (c == 0)
                        s->points[p].default_runs = n;
                s->candidates[c].n_runs = n > s->candidates[c].n_runs ? n : s->candidates[c].n_runs;
                if (c > 0 || n == 0 || !runs[0].anchored) /* anchored: made equal, run by run */
                        add_cell(runs, n, &sum);
        }
        return sum;
}

/* From which point on, or up to which, are points within the window of @p? */
static int window_edge(const struct capo_fit_series *s, int p, int from, bool end)
{
        double x = log2((double)s->points[p].bytes) + (end ? WINDOW + 1e-9 : -WINDOW - 1e-9);

        while (from < s->n_points && (end ? log2((double)s->points[from].bytes) <= x
                                          : log2((double)s->points[from].bytes) < x))
                from++;
        return from;
}

/* @lo, @hi: as they were for the point before. */
static void set_noise(struct capo_fit_series *s, int p, const struct sums *all,
                      const struct before *before, int *lo, int *hi, int compared)
{
        struct capo_fit_point *q = &s->points[p];
        double alpha = 0.05 / compared, measured = 0,
               floor_t = capo_quantile_t(alpha, FLOOR_FREEDOM);
        long double squares, within;
        int64_t near;
        int freedom = q->default_runs >= 2 || !s->has_default ? all[p].freedom : 0;

        *lo = window_edge(s, p, *lo, false);
        *hi = window_edge(s, p, *hi, true);
        squares = before[*hi].squares - before[*lo].squares;
        within = before[*hi].within - before[*lo].within;
        near = before[*hi].freedom - before[*lo].freedom;
        if (near)
                measured = sqrt(fmax(0, (double)(squares - within)) / (double)near);
        q->noise = fmax(FLOOR, measured);
        q->quantile = floor_t;
        q->repeats = freedom;
        if (freedom && capo_quantile_t(alpha, freedom) * measured < q->quantile * q->noise) {
                q->noise = fmax(measured, 0.0005);
                q->quantile = capo_quantile_t(alpha, freedom);
        }
}

int capo_fit_noise(struct capo_fit_series *s)
{
        _cleanup_free_ struct capo_fit_run *runs = calloc((size_t)s->n_blocks + 1, sizeof *runs);
        _cleanup_free_ struct sums *all = calloc((size_t)s->n_points + 1, sizeof *all);
        _cleanup_free_ struct before *before = calloc((size_t)s->n_points + 1, sizeof *before);
        _cleanup_free_ double *v = malloc(((size_t)s->n_points + 1) * sizeof *v);
        int b = 0, others = s->n_candidates - 1, lo = 0, hi = 0;

        if (!runs || !all || !before || !v)
                return -ENOMEM;
        for (int p = 0; p < s->n_points; p++) {
                s->points[p].first_block = b;
                while (b < s->n_blocks && s->blocks[b].point == p)
                        b++;
                s->points[p].end_block = b;
        }
        s->one_run = true;
        for (int p = 0; p < s->n_points; p++) {
                all[p] = of_point(s, p, runs);
                before[p + 1] = (struct before){before[p].squares + all[p].squares,
                                                before[p].within + all[p].within,
                                                before[p].freedom + all[p].freedom};
        }
        for (int p = 0; p < s->n_points; p++) {
                set_noise(s, p, all, before, &lo, &hi, others < 1 ? 1 : others);
                s->one_run &= s->points[p].repeats == 0;
                v[p] = s->points[p].noise;
        }
        qsort(v, (size_t)s->n_points, sizeof *v, capo_order_double);
        s->noise = v[s->n_points / 2];
        return 0;
}
