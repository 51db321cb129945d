/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From blocks to cells: the time of a candidate at a size, with its uncertainty. The unit is the
 * run: its in-place and out-of-place halves do not repeat each other. From three runs on, the
 * median is used, so that one slow run has no effect. If a cell's own runs differ by more than its
 * neighbourhood's noise, its own scatter is used.
 */
#include <math.h>
#include <stdlib.h>

#include "core/base/util.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_private.h"
#include "analysis/job/spread.h"

/* @level: part of the noise between runs that more runs do not average out. @own: NCCL's own choice.
 */
static void cell_of(const struct capo_fit_point *q, int turns, double level,
                    const struct capo_fit_run *runs, int n, bool own, double *v,
                    struct capo_fit_cell *cell)
{
        double mean = 0, squares = 0, within = 0, pooled;

        if (n == 0)
                return;
        cell->anchored = true;
        cell->n_runs = (uint32_t)n;
        for (int k = 0; k < n; k++) {
                v[k] = runs[k].value;
                mean += v[k] / n;
                within += runs[k].variance / n / n;
                cell->n_samples += runs[k].n_samples;
                cell->n_blocks += runs[k].n_blocks;
                cell->anchored &= runs[k].anchored;
        }
        for (int k = 0; k < n; k++)
                squares += (v[k] - mean) * (v[k] - mean);
        pooled = q->noise * q->noise / n + within + level * level * (n - 1) / n / 2;
        if (n < 3 && turns != CAPO_FIT_IN_TURN)
                pooled += CAPO_FIT_UNSEEN * CAPO_FIT_UNSEEN / n;
        cell->se_within = sqrt(within);
        cell->se = sqrt(pooled);
        cell->disagree = n > 1 && !capo_fit_runs_agree(squares, n - 1, pooled * n);
        if (cell->disagree && n == 2 &&
            own) { /* slow runs occur, fast ones do not: use the faster */
                mean = fmin(v[0], v[1]);
                cell->se = sqrt(pooled * n);
        } else if (cell->disagree) {
                mean = n > 2 ? capo_median(v, (size_t)n) : mean;
                cell->se = sqrt(squares / (n - 1) / n * (n > 2 ? M_PI_2 : 1)); /* of a median */
        }
        cell->us = exp(mean);
        cell->lo = exp(mean - q->cell_quantile * cell->se);
        cell->hi = exp(mean + q->cell_quantile * cell->se);
}

void capo_fit_estimate(const struct capo_fit_series *s, struct capo_fit_part part,
                       struct capo_fit_cell *cells)
{
        _cleanup_free_ struct capo_fit_run *runs =
                xmalloc(((size_t)s->n_blocks + 1) * sizeof *runs);
        _cleanup_free_ double *v = xmalloc(((size_t)s->n_blocks + 1) * sizeof *v);

        for (int p = 0; p < s->n_points; p++) {
                for (int c = 0; c < s->n_candidates; c++) {
                        struct capo_fit_cell *cell = &cells[p * s->n_candidates + c];

                        *cell = (struct capo_fit_cell){
                                .us = NAN,
                                .lo = NAN,
                                .hi = NAN,
                                .place_gap = capo_fit_cell_of(s, p, c)->place_gap,
                                .is_default = capo_fit_cell_of(s, p, c)->is_default};
                        cell_of(&s->points[p], s->turns, s->level, runs,
                                capo_fit_runs(s, part, p, c, runs), c == 0 || cell->is_default, v,
                                cell);
                }
        }
}
