/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From decisions at measured sizes to rows that cover all sizes. Little is claimed beyond the first
 * and the last size, because NCCL's own choice may change there.
 */
#include <math.h>

#include "profiles/fit/fit_private.h"

static double ln_us(const struct capo_fit_cell *c)
{
        return log(c->us);
}

static int next_of(const struct capo_fit_series *s, int p, int skip)
{
        while (++p < s->n_points) {
                if (p != skip)
                        return p;
        }
        return -1;
}

/* Between these sizes lie more than two doublings that nobody measured: no row bridges them. */
static bool far_apart(const struct capo_fit_series *s, int a, int b)
{
        return s->points[b].bytes / 8 > s->points[a].bytes;
}

/* Is candidate @c slower than NCCL's own choice at @part of the way between two sizes? */
static bool slower_between(const struct capo_fit_cell *ra, const struct capo_fit_cell *rb, int c,
                           double part)
{
        double a = ln_us(&ra[c]) - ln_us(&ra[0]), b = ln_us(&rb[c]) - ln_us(&rb[0]);

        return !isnan(ra[0].us) && !isnan(rb[0].us) && a + (b - a) * part > 0;
}

/*
 * The border between the choices of the sizes @a and @b (the next): the last byte of the first row.
 * *@leave: the last byte left to NCCL between the two; if there are none, the same.
 *
 * It is where the two curves cross, each time is a + b x size. NCCL's own curve jumps where
 * its choice changes, so it is taken as linear only if the same choice ran at both sizes. Otherwise
 * a candidate keeps to the sizes where it was seen to gain, as where its own curve ends. If two
 * candidates cross above NCCL's own curve, NCCL's choice is left between them.
 */
static uint64_t find_border(const struct capo_fit_series *s, const struct capo_fit_cell *cells,
                            int a, int b, int ca, int cb, uint64_t *leave)
{
        double xa = log((double)s->points[a].bytes), xb = log((double)s->points[b].bytes),
               x = (xa + xb) / 2;
        const struct capo_fit_cell *ra = &cells[a * s->n_candidates],
                                   *rb = &cells[b * s->n_candidates];
        bool smooth =
                s->points[a].default_ran && s->points[a].default_ran == s->points[b].default_ran;
        bool far = far_apart(s, a, b),
             reaches = ca == 0 || (!far && !isnan(rb[ca].us) && (cb > 0 || smooth));
        bool begins = cb == 0 || (!far && !isnan(ra[cb].us) && (ca > 0 || smooth));
        uint64_t bytes, step = 1;

        *leave = begins ? s->points[a].bytes : s->points[b].bytes - 1;
        if (!reaches) { /* it is also not known from where on the next is better */
                *leave = cb > 0 ? s->points[b].bytes - 1 : s->points[a].bytes;
                return s->points[a].bytes;
        }
        if (!begins)
                return ca == 0 ? *leave : s->points[a].bytes;
        if (!isnan(ra[ca].us) && !isnan(rb[ca].us) && !isnan(ra[cb].us) && !isnan(rb[cb].us)) {
                double da = ln_us(&ra[ca]) - ln_us(&ra[cb]), db = ln_us(&rb[ca]) - ln_us(&rb[cb]);

                if (da < 0 && db > 0) { /* each time is a + b x size */
                        double ta = ra[ca].us - ra[cb].us, tb = rb[ca].us - rb[cb].us;

                        x = log((double)s->points[a].bytes +
                                (double)(s->points[b].bytes - s->points[a].bytes) * ta / (ta - tb));
                }
                if (ca > 0 && cb > 0 && slower_between(ra, rb, ca, (x - xa) / (xb - xa))) {
                        uint64_t ends = find_border(s, cells, a, b, ca, 0, leave);

                        find_border(s, cells, a, b, 0, cb, leave);
                        return ends;
                }
                if (ca == 0 || cb == 0) { /* only as far as the candidate certainly gains: a row
                                             must not harm */
                        double sign = cb == 0 ? 1 : -1, ends = cb == 0 ? xa : xb;

                        da += sign * (s->points[a].quantile * hypot(ra[ca].se, ra[cb].se) +
                                      fabs(capo_fit_place_gap(s, cells, a, ca + cb)));
                        db += sign * (s->points[b].quantile * hypot(rb[ca].se, rb[cb].se) +
                                      fabs(capo_fit_place_gap(s, cells, b, ca + cb)));
                        if (da < 0 && db > 0)
                                ends = xa + (xb - xa) * da / (da - db);
                        x = cb == 0 ? fmin(x, ends) : fmax(x, ends);
                }
        }
        bytes = (uint64_t)exp(x);
        while (step * 64 <= bytes) /* no more digits than the measurement has */
                step *= 2;
        bytes -= bytes % step;
        if (bytes < s->points[a].bytes)
                bytes = s->points[a].bytes;
        *leave = bytes = bytes >= s->points[b].bytes ? s->points[b].bytes - 1 : bytes;
        return bytes;
}

int capo_fit_rows(const struct capo_fit_series *s, const struct capo_fit_cell *cells, int skip,
                  const struct capo_fit_point *points, struct capo_fit_row *rows)
{
        int n = 0, first = skip == 0 ? 1 : 0,
            last = skip == s->n_points - 1 ? s->n_points - 2 : s->n_points - 1;

        if (first > last)
                goto open_end;
        if (points[first].chosen > 0) {
                rows[n++] = (struct capo_fit_row){
                        .upto = points[first].bytes - 1, .chosen = 0, .first = 0, .last = -1};
        }
        for (int p = first; p >= 0; p = next_of(s, p, skip)) {
                int next = next_of(s, p, skip), start = p;
                uint64_t leave = 0;

                while (next >= 0 && points[next].chosen == points[p].chosen &&
                       (points[p].chosen <= 0 || !far_apart(s, p, next))) {
                        p = next;
                        next = next_of(s, p, skip);
                }
                rows[n] = (struct capo_fit_row){
                        .chosen = points[p].chosen, .first = start, .last = p};
                if (next >= 0)
                        rows[n].upto = find_border(s, cells, p, next, points[p].chosen,
                                                   points[next].chosen, &leave);
                else if (points[p].chosen > 0)
                        rows[n].upto = points[p].bytes;
                else
                        rows[n].upto = UINT64_MAX;
                if (leave > rows[n++].upto && points[p].chosen > 0)
                        rows[n++] = (struct capo_fit_row){
                                .upto = leave, .chosen = 0, .first = 0, .last = -1};
        }
open_end:
        if (n == 0 || rows[n - 1].upto != UINT64_MAX)
                rows[n++] = (struct capo_fit_row){
                        .upto = UINT64_MAX, .chosen = 0, .first = 0, .last = -1};
        return n;
}
