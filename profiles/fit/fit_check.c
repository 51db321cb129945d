/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-validation of the decisions. If runs repeat, one run of each candidate is left out at a
 * time, the rest is fitted, and its decisions are timed by the run left out. If none repeat, one
 * size is left out at a time, and the rows from its neighbours are timed there.
 *
 * "Best" is the shortest time in the part left out, so even a perfect decision shows a small loss:
 * the noise of the best of several.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_private.h"

enum { MAX_PARTS = 64, MAX_FOLDS = 12 };

struct tally {
        struct capo_fit_series *s;
        double sum, sum_default;
        unsigned n_default;
        bool *scored; /* by point */
};

/* Score one decision, @c at point @p, with the times in @truth. */
static void score_decision(struct tally *t, const struct capo_fit_cell *truth, int p, int c)
{
        struct capo_fit_series *s = t->s;
        const struct capo_fit_cell *row = &truth[p * s->n_candidates];
        int full = s->points[p].best;
        double best, worse;

        if (full < 0 || !row[full].n_blocks || !row[c].n_blocks)
                return;
        best = row[full].us;
        t->scored[p] = true;
        s->regret.n++;
        t->sum += row[c].us / best - 1;
        s->regret.worst = fmax(s->regret.worst, row[c].us / best - 1);
        if (!row[0].n_blocks)
                return;
        worse = c == 0 || row[c].is_default ? 0 : row[c].us / row[0].us - 1;
        t->n_default++;
        t->sum_default += row[0].us / best - 1;
        if (isnan(s->regret.worst_default) || worse > s->regret.worst_default)
                s->regret.worst_default = worse;
        if (log1p(worse) > s->points[p].quantile * hypot(row[c].se, row[0].se))
                s->regret.n_worse++;
}

static int row_choice(const struct capo_fit_row *rows, int n, uint64_t bytes)
{
        for (int i = 0; i < n; i++) {
                if (bytes <= rows[i].upto)
                        return rows[i].chosen;
        }
        return 0;
}

/* Runs count as repeated if at least a third of the blocks belong to second or later runs. */
static int folds_of(const struct capo_fit_series *s)
{
        int again = 0, most = 0;

        for (int i = 0; i < s->n_blocks; i++) {
                again += s->blocks[i].fold > 0;
                most = s->blocks[i].fold + 1 > most ? s->blocks[i].fold + 1 : most;
        }
        return again * 3 >= s->n_blocks ? most : 0;
}

void capo_fit_check(struct capo_fit_series *s, const struct capo_fit_options *o)
{
        size_t n_cells = (size_t)s->n_points * (size_t)s->n_candidates;
        _cleanup_free_ struct capo_fit_cell *cells = xmalloc(n_cells * sizeof *cells);
        _cleanup_free_ struct capo_fit_cell *truth = xmalloc(n_cells * sizeof *truth);
        _cleanup_free_ struct capo_fit_point *points =
                xmalloc((size_t)s->n_points * sizeof *points);
        _cleanup_free_ struct capo_fit_row *rows =
                xmalloc((2 * (size_t)s->n_points + 4) * sizeof *rows);
        _cleanup_free_ bool *scored = xcalloc((size_t)s->n_points, sizeof *scored);
        struct tally t = {.s = s, .scored = scored};
        int folds = folds_of(s), step = folds > 1 ? 1 : (s->n_points + MAX_PARTS - 1) / MAX_PARTS;

        s->regret = (struct capo_fit_regret){
                .by_run = folds > 1, .mean = NAN, .mean_default = NAN, .worst_default = NAN};
        memcpy(points, s->points, (size_t)s->n_points * sizeof *points);
        for (int f = 0; folds > 1 && f < folds && f < MAX_FOLDS; f++) {
                capo_fit_estimate(s, (struct capo_fit_part){f, -1, -1}, cells);
                capo_fit_estimate(s, (struct capo_fit_part){-1, f, -1}, truth);
                capo_fit_decide(s, o, cells, -1, points);
                for (int p = 0; p < s->n_points; p++)
                        score_decision(&t, truth, p, points[p].chosen);
        }
        for (int p = 0; folds <= 1 && s->n_points > 1 && p < s->n_points; p += step) {
                capo_fit_estimate(s, (struct capo_fit_part){-1, -1, p}, cells);
                capo_fit_decide(s, o, cells, p, points);
                score_decision(&t, s->cells, p,
                               row_choice(rows, capo_fit_rows(s, cells, p, points, rows),
                                          s->points[p].bytes));
        }
        for (int p = 0; p < s->n_points; p++)
                s->regret.n_scored += scored[p];
        s->regret.n_unscored = (unsigned)s->n_points - s->regret.n_scored;
        if (s->regret.n)
                s->regret.mean = t.sum / s->regret.n;
        if (t.n_default)
                s->regret.mean_default = t.sum_default / t.n_default;
}
