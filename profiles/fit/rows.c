/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions at the measured sizes to rows that cover all sizes. */
#include <math.h>

#include "profiles/fit/priv.h"

#define EXTEND_STEPS 3 /* doublings beyond the measured sizes, at most; and at most two of its own steps */

static double ln_us(const struct capo_fit_cell *c)
{
        return log(c->us);
}

static int neighbour(const struct capo_fit_series *s, int p, int step, int skip)
{
        for (p += step; p >= 0 && p < s->n_points; p += step) {
                if (p != skip)
                        return p;
        }
        return -1;
}

/* Where the choice of @a's size gives way to that of the next size @b. */
static uint64_t crossing(const struct capo_fit_series *s, const struct capo_fit_cell *cells, int a, int b, int ca,
                         int cb)
{
        double xa = log((double)s->points[a].bytes), xb = log((double)s->points[b].bytes), x = (xa + xb) / 2;
        const struct capo_fit_cell *ra = &cells[a * s->n_candidates], *rb = &cells[b * s->n_candidates];
        uint64_t bytes, step = 1;

        if (!isnan(ra[ca].us) && !isnan(rb[ca].us) && !isnan(ra[cb].us) && !isnan(rb[cb].us)) {
                double da = ln_us(&ra[ca]) - ln_us(&ra[cb]), db = ln_us(&rb[ca]) - ln_us(&rb[cb]);

                if (da < 0 && db > 0)
                        x = xa + (xb - xa) * da / (da - db);
        }
        bytes = (uint64_t)exp(x);
        while (step * 64 <= bytes) /* no more digits than the measurement has */
                step *= 2;
        bytes -= bytes % step;
        if (bytes < s->points[a].bytes)
                bytes = s->points[a].bytes;
        return bytes >= s->points[b].bytes ? s->points[b].bytes - 1 : bytes;
}

/* How far a row may go beyond the size @p at its end: while the gain, continued straight from the last measured sizes,
 * stays above what a rule is worth. A lone size goes half a doubling. In doublings. */
static double reach(const struct capo_fit_series *s, const struct capo_fit_options *o,
                    const struct capo_fit_cell *cells, int p, int step, int skip)
{
        int before = neighbour(s, p, -step, skip), c = s->points[p].chosen;
        const struct capo_fit_cell *here = &cells[p * s->n_candidates], *there;
        double gain, slope, span, most, worth = -log(1 - o->min_gain);
        int b = capo_fit_baseline(s, o, here, c);

        if (before < 0 || b < 0)
                return 0.5;
        there = &cells[before * s->n_candidates];
        if (isnan(there[c].us) || isnan(there[b].us))
                return 0.5;
        span = fabs(log2((double)s->points[p].bytes) - log2((double)s->points[before].bytes));
        gain = ln_us(&here[b]) - ln_us(&here[c]);
        slope = (gain - (ln_us(&there[b]) - ln_us(&there[c]))) / span; /* per doubling, outwards */
        if (gain <= worth)
                return 0.5;
        most = fmax(0.5, fmin(EXTEND_STEPS, 2 * span));
        return slope >= 0 ? most : fmin(most, fmax(0.5, (gain - worth) / -slope));
}

int capo_fit_rows(const struct capo_fit_series *s, const struct capo_fit_options *o, const struct capo_fit_cell *cells,
                  int skip, const struct capo_fit_point *points, struct capo_fit_row *rows)
{
        struct capo_fit_series view = *s; /* the decided points may be a copy */
        int n = 0, first = skip == 0 ? 1 : 0, last = skip == s->n_points - 1 ? s->n_points - 2 : s->n_points - 1;

        view.points = (struct capo_fit_point *)points;
        if (first > last)
                goto open_end;
        if (points[first].chosen > 0) {
                double down = (double)points[first].bytes * exp2(-reach(&view, o, cells, first, -1, skip));

                rows[n++] = (struct capo_fit_row){.upto = (uint64_t)down, .chosen = 0, .first = 0, .last = -1};
        }
        for (int p = first; p >= 0; p = neighbour(s, p, 1, skip)) {
                int next = neighbour(s, p, 1, skip), start = p;

                while (next >= 0 && points[next].chosen == points[p].chosen) {
                        p = next;
                        next = neighbour(s, p, 1, skip);
                }
                rows[n] = (struct capo_fit_row){.chosen = points[p].chosen, .first = start, .last = p};
                rows[n].extended = rows[n].chosen > 0 && (start == first || next < 0);
                if (next >= 0)
                        rows[n].upto = crossing(&view, cells, p, next, points[p].chosen, points[next].chosen);
                else if (points[p].chosen > 0)
                        rows[n].upto = (uint64_t)((double)points[p].bytes * exp2(reach(&view, o, cells, p, 1, skip)));
                else
                        rows[n].upto = UINT64_MAX;
                n++;
        }
open_end:
        if (n == 0 || rows[n - 1].upto != UINT64_MAX)
                rows[n++] = (struct capo_fit_row){.upto = UINT64_MAX, .chosen = 0, .first = 0, .last = -1};
        return n;
}
