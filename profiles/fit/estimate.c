/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks to cells: what a candidate takes at a size, and how sure that is. */
#include <math.h>

#include "profiles/fit/priv.h"
#include "profiles/job/spread.h"

#define EXTEND_STEPS 3 /* doublings beyond the measured sizes, at most; and at most two of its own steps */

/* ln of a candidate's time over NCCL's own at a point; over 1 us where that was not measured. */
static double relative(const struct capo_fit_series *s, const struct capo_fit_cell *cells, int p, int c,
                       bool over_default)
{
        const struct capo_fit_cell *row = &cells[p * s->n_candidates];

        return log(row[c].us) - (over_default ? log(row[0].us) : 0);
}

/*
 * A candidate that was measured at other sizes, but not here: between two of them, or a step beyond the last, and less
 * sure for each doubling to the nearest. Its ratio to NCCL's own choice is carried, which changes slower than its time.
 * Only for deciding; what is printed as best, and what judges the decisions, is what was measured.
 */
static void interpolate(const struct capo_fit_series *s, int skip, struct capo_fit_cell *cells)
{
        int m = s->n_candidates;

        for (int c = 1; c < m; c++) {
                for (int p = 0, lo = -1, hi = -1, step = -1; p < s->n_points; p++) {
                        struct capo_fit_cell *cell = &cells[p * m + c];
                        const struct capo_fit_cell *near;
                        double x = log2((double)s->points[p].bytes), xa, xb, y, away;
                        bool over;

                        if (cell->n_blocks) {
                                step = lo;
                                lo = p;
                                continue;
                        }
                        if (p == skip)
                                continue;
                        if (hi < p) {
                                for (hi = p + 1; hi < s->n_points && !cells[hi * m + c].n_blocks;)
                                        hi++;
                        }
                        over = cells[p * m].n_blocks && (lo < 0 || cells[lo * m].n_blocks) &&
                               (hi >= s->n_points || cells[hi * m].n_blocks);
                        if (lo >= 0 && hi < s->n_points) {
                                xa = log2((double)s->points[lo].bytes);
                                xb = log2((double)s->points[hi].bytes);
                                if (xb - xa > 6)
                                        continue;
                                y = relative(s, cells, lo, c, over);
                                y += (relative(s, cells, hi, c, over) - y) * (x - xa) / (xb - xa);
                                away = fmin(x - xa, xb - x) / 2;
                                near = x - xa < xb - x ? &cells[lo * m + c] : &cells[hi * m + c];
                        } else {
                                int end = lo >= 0 ? lo : hi, next = lo >= 0 ? step : -1;

                                for (int k = end + 1; lo < 0 && next < 0 && end < s->n_points && k < s->n_points; k++)
                                        next = cells[k * m + c].n_blocks ? k : -1;
                                if (!over || end >= s->n_points || next < 0)
                                        continue;
                                xa = log2((double)s->points[end].bytes);
                                away = fabs(x - xa);
                                if (away > fmin(EXTEND_STEPS, fabs(log2((double)s->points[next].bytes) - xa)))
                                        continue;
                                y = relative(s, cells, end, c, true);
                                near = &cells[end * m + c];
                        }
                        cell->us = exp(y + (over ? log(cells[p * m].us) : 0));
                        cell->se = near->se + 0.01 * away;
                        cell->lo = cell->us * exp(-1.96 * cell->se);
                        cell->hi = cell->us * exp(1.96 * cell->se);
                }
        }
}

void capo_fit_estimate(const struct capo_fit_series *s, struct capo_fit_part part, struct capo_fit_cell *cells)
{
        size_t n_cells = (size_t)s->n_points * (size_t)s->n_candidates;

        for (size_t i = 0; i < n_cells; i++) {
                bool same = s->cells[i].is_default;

                cells[i] = (struct capo_fit_cell){.us = NAN, .lo = NAN, .hi = NAN, .is_default = same};
        }
        for (int i = 0; i < s->n_blocks; i++) {
                const struct capo_fit_block *b = &s->blocks[i];
                bool same = s->cells[b->point * s->n_candidates + b->candidate].is_default;

                if (b->fold == part.without_fold || (part.only_fold >= 0 && b->fold != part.only_fold) ||
                    b->point == part.without_point)
                        continue;
                /* a candidate that is NCCL's own choice is measured by its samples too, and the other way round */
                for (int c = 0; c < s->n_candidates; c++) {
                        struct capo_fit_cell *cell = &cells[b->point * s->n_candidates + c];
                        bool pooled = (b->candidate == 0 || same) && (c == 0 || cell->is_default);

                        if (c != b->candidate && !pooled)
                                continue;
                        if (isnan(cell->us))
                                cell->us = 0;
                        cell->us += b->value; /* sums, until all are in */
                        cell->se += b->se * b->se;
                        cell->n_blocks++;
                        cell->n_samples += b->n;
                }
        }
        for (size_t i = 0; i < n_cells; i++) {
                struct capo_fit_cell *c = &cells[i];
                double center, q = 1.96;

                if (!c->n_blocks)
                        continue;
                center = c->us / c->n_blocks;
                c->se = sqrt(s->noise * s->noise / c->n_blocks + c->se / c->n_blocks / c->n_blocks);
                c->us = exp(center);
                c->lo = exp(center - q * c->se);
                c->hi = exp(center + q * c->se);
        }
        if (part.only_fold < 0)
                interpolate(s, part.without_point, cells);
}

double capo_fit_quantile(const struct capo_fit_series *s)
{
        double freedom = 0;
        int compared = s->n_candidates - 1 < 1 ? 1 : s->n_candidates - 1;

        for (int i = 1; i < s->n_blocks; i++)
                freedom += s->blocks[i].point == s->blocks[i - 1].point &&
                           s->blocks[i].candidate == s->blocks[i - 1].candidate;
        for (int i = 0; s->one_run && i < s->n_blocks; i++)
                freedom = fmax(freedom, s->blocks[i].n - 1.0);
        return capo_quantile_t(0.05 / compared, fmax(freedom, 3));
}
