/* SPDX-License-Identifier: Apache-2.0 */
/* Cells to decisions: which candidate is worth a rule at which size. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "profiles/fit/priv.h"

#define SWITCH_COST 0.003 /* of ln time: what a change of candidate between neighbours must bring */

static double ln_us(const struct capo_fit_cell *c)
{
        return log(c->us);
}

int capo_fit_baseline(const struct capo_fit_series *s, const struct capo_fit_options *o,
                      const struct capo_fit_cell *row, int c)
{
        int next = -1;

        if (!isnan(row[0].us))
                return 0;
        if (s->has_default || !(s->covered || o->without_default))
                return -1;
        for (int k = 1; k < s->n_candidates; k++) {
                if (k != c && !isnan(row[k].us) && (next < 0 || row[k].us < row[next].us))
                        next = k;
        }
        return next;
}

int capo_fit_decide(const struct capo_fit_series *s, const struct capo_fit_options *o,
                    const struct capo_fit_cell *cells, int skip, struct capo_fit_point *points)
{
        int n = s->n_points, m = s->n_candidates;
        double q = capo_fit_quantile(s), *score = malloc((size_t)(n * m + 1) * sizeof *score);
        int *from = malloc((size_t)(n * m + 1) * sizeof *from), last = -1, at = 0;

        if (!score || !from) {
                free(score);
                free(from);
                return -ENOMEM;
        }
        for (int p = 0; p < n; p++) {
                const struct capo_fit_cell *row = &cells[p * m];
                int stay = last < 0 ? 0 : 1;

                points[p].best = points[p].chosen = -1;
                points[p].gain = points[p].gain_lo = points[p].gain_hi = NAN;
                if (p == skip)
                        continue;
                for (int c = 0; c < m; c++) {
                        double best = 0, value = 0;
                        int b = capo_fit_baseline(s, o, row, c);

                        from[p * m + c] = 0;
                        for (int k = 0; stay && k < m; k++) {
                                double v = score[last * m + k] - (k != c) * SWITCH_COST;

                                if (k == 0 || v > best) {
                                        best = v;
                                        from[p * m + c] = k;
                                }
                        }
                        if (row[c].n_blocks && (points[p].best < 0 || row[c].us < row[points[p].best].us))
                                points[p].best = c;
                        if (c > 0) {
                                value = -INFINITY;
                                if (b >= 0 && !isnan(row[c].us) && !row[c].is_default &&
                                    capo_fit_writable(&s->candidates[c])) {
                                        double gain = ln_us(&row[b]) - ln_us(&row[c]);
                                        double se = sqrt(row[b].se * row[b].se + row[c].se * row[c].se);

                                        if (gain - q * se > 0 && 1 - exp(-gain) >= o->min_gain)
                                                value = gain;
                                }
                        }
                        score[p * m + c] = best + value;
                }
                last = p;
        }
        for (int c = 1; last >= 0 && c < m; c++) {
                if (score[last * m + c] > score[last * m + at])
                        at = c;
        }
        for (int p = last; p >= 0; p--) {
                const struct capo_fit_cell *row = &cells[p * m];
                int c, b;

                if (p == skip)
                        continue;
                points[p].chosen = at;
                at = from[p * m + at];
                c = points[p].chosen ? points[p].chosen : points[p].best;
                b = c < 0 ? -1 : capo_fit_baseline(s, o, row, c);
                if (b >= 0 && (b == 0 || points[p].chosen)) {
                        double gain = ln_us(&row[b]) - ln_us(&row[c]);
                        double se =
                                c == b || row[c].is_default ? 0 : sqrt(row[b].se * row[b].se + row[c].se * row[c].se);

                        points[p].gain = 1 - exp(-gain);
                        points[p].gain_lo = 1 - exp(-(gain - q * se));
                        points[p].gain_hi = 1 - exp(-(gain + q * se));
                }
        }
        free(score);
        free(from);
        return 0;
}
