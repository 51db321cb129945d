/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How good are the decisions where they were not made? Where runs repeat, one run of each candidate is left out in
 * turn, the rest is fitted, and its decisions are timed by the run left out. Where none repeat, one size is left out in
 * turn, and the rows that its neighbours give are timed there.
 *
 * "Best" is the shortest time that the left-out part itself measured, so a perfect decision still shows a little
 * regret: the noise of the best of several.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "profiles/fit/priv.h"

enum { MAX_PARTS = 64 };

struct tally {
        double sum, sum_default;
        unsigned n_default;
};

/* One decision, @c at point @p, timed by @truth. */
static void judge(struct capo_fit_series *s, const struct capo_fit_cell *truth, int p, int c, struct tally *t)
{
        const struct capo_fit_cell *row = &truth[p * s->n_candidates];
        double best = NAN, regret;
        int full = s->points[p].best;

        if (full < 0 || !row[full].n_blocks)
                return;
        best = row[full].us;
        if (!row[c].n_blocks) {
                s->regret.n_unmeasured++;
                return;
        }
        regret = row[c].us / best - 1;
        s->regret.n++;
        t->sum += regret;
        s->regret.worst = fmax(s->regret.worst, regret);
        if (row[0].n_blocks) {
                double worse = log(row[c].us) - log(row[0].us);

                t->n_default++;
                t->sum_default += row[0].us / best - 1;
                if (c != 0 && !row[c].is_default &&
                    worse > capo_fit_quantile(s) * sqrt(row[c].se * row[c].se + row[0].se * row[0].se))
                        s->regret.n_worse++;
        }
}

static int row_choice(const struct capo_fit_row *rows, int n, uint64_t bytes)
{
        for (int i = 0; i < n; i++) {
                if (bytes <= rows[i].upto)
                        return rows[i].chosen;
        }
        return 0;
}

int capo_fit_check(struct capo_fit_series *s, const struct capo_fit_options *o)
{
        size_t n_cells = (size_t)s->n_points * (size_t)s->n_candidates;
        _cleanup_free_ struct capo_fit_cell *cells = malloc(n_cells * sizeof *cells);
        _cleanup_free_ struct capo_fit_cell *truth = malloc(n_cells * sizeof *truth);
        _cleanup_free_ struct capo_fit_point *points = malloc((size_t)s->n_points * sizeof *points);
        _cleanup_free_ struct capo_fit_row *rows = malloc((2 * (size_t)s->n_points + 4) * sizeof *rows);
        struct tally t = {0};
        int folds = 0, step;

        if (!cells || !truth || !points || !rows)
                return -ENOMEM;
        /* Runs repeat when every candidate that has a second run is more than an exception: half of the blocks. */
        for (int i = 0, again = 0; i < s->n_blocks; i++) {
                if (s->blocks[i].fold > 0)
                        again++;
                if (again * 3 >= s->n_blocks && s->blocks[i].fold + 1 > folds)
                        folds = s->blocks[i].fold + 1;
        }
        for (int i = 0; folds && i < s->n_blocks; i++)
                folds = s->blocks[i].fold + 1 > folds ? s->blocks[i].fold + 1 : folds;
        s->regret = (struct capo_fit_regret){.by_run = folds > 1, .mean = NAN, .mean_default = NAN};
        if (folds > 1) {
                for (int f = 0; f < folds && f < MAX_PARTS; f++) {
                        capo_fit_estimate(s, (struct capo_fit_part){f, -1, -1}, cells);
                        capo_fit_estimate(s, (struct capo_fit_part){-1, f, -1}, truth);
                        memcpy(points, s->points, (size_t)s->n_points * sizeof *points);
                        if (capo_fit_decide(s, o, cells, -1, points) < 0)
                                return -ENOMEM;
                        for (int p = 0; p < s->n_points; p++)
                                judge(s, truth, p, points[p].chosen, &t);
                }
        } else {
                step = (s->n_points + MAX_PARTS - 1) / MAX_PARTS;
                for (int p = 0; s->n_points > 1 && p < s->n_points; p += step) {
                        int n;

                        capo_fit_estimate(s, (struct capo_fit_part){-1, -1, p}, cells);
                        memcpy(points, s->points, (size_t)s->n_points * sizeof *points);
                        if (capo_fit_decide(s, o, cells, p, points) < 0)
                                return -ENOMEM;
                        n = capo_fit_rows(s, o, cells, p, points, rows);
                        judge(s, s->cells, p, row_choice(rows, n, s->points[p].bytes), &t);
                }
        }
        if (s->regret.n)
                s->regret.mean = t.sum / s->regret.n;
        if (t.n_default)
                s->regret.mean_default = t.sum_default / t.n_default;
        return 0;
}
