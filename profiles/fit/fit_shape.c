/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The noise of a single run, from its shape. The time of one choice is a smooth curve over the
 * size, so its differences of second, third and fourth order are noise, plus curvature that shrinks
 * with the order. The k-th difference of independent errors has binomial(2k, k) times their
 * variance (von Neumann, Annals of Mathematical Statistics 12, 1941; Rice, Annals of Statistics 12,
 * 1984: difference-based estimators of variance). The median of the absolute differences over
 * 0.6745 is robust against steps. The least of the three orders is used, because curvature can only
 * add.
 */
#include <math.h>
#include <stdlib.h>

#include "analysis/job/spread.h"
#include "core/base/order.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_private.h"

#define LEAST_STEP 0.5 /* doublings: closer sizes do not form a curve */
#define MOST_STEP  2.0 /* between sizes further apart, curvature looks like noise */
enum { FIRST_ORDER = 2, ORDERS = 3, LEAST = 6 };

/* One size of one run of a candidate. */
struct knot {
        int candidate, point;
        uint32_t run;
        int n;
        double value; /* ln us; a sum over n until all blocks are added */
};

/* One difference of a curve, in units of a single time's error. */
struct bend {
        int point, order;
        double size;
};

static int by_curve(const void *a, const void *b)
{
        const struct knot *x = a, *y = b;

        return CAPO_ORDER(x->candidate, y->candidate) ?: CAPO_ORDER(x->run, y->run) ?:
               CAPO_ORDER(x->point, y->point);
}

static int by_point(const void *a, const void *b)
{
        const struct bend *x = a, *y = b;

        return CAPO_ORDER(x->point, y->point) ?: CAPO_ORDER(x->order, y->order) ?:
               CAPO_ORDER(x->size, y->size);
}

/* Times of NCCL's own choice are left out, because the choice changes. */
static int collect_knots(const struct capo_fit_series *s, struct knot *knots)
{
        int n = 0, kept = 0;

        for (int i = 0; i < s->n_blocks; i++) {
                const struct capo_fit_block *b = &s->blocks[i];

                if (b->candidate > 0)
                        knots[n++] = (struct knot){b->candidate, b->point, b->run, 1, b->value};
        }
        if (n)
                qsort(knots, (size_t)n, sizeof *knots, by_curve);
        for (int i = 0; i < n; i++) {
                if (kept && !by_curve(&knots[kept - 1], &knots[i])) {
                        knots[kept - 1].value += knots[i].value;
                        knots[kept - 1].n++;
                } else {
                        knots[kept++] = knots[i];
                }
        }
        for (int i = 0; i < kept; i++)
                knots[i].value /= knots[i].n;
        return kept;
}

/* The difference of @order that begins at @k; NAN: the sizes are not evenly spaced, or belong to
 * several curves. */
static double take_difference(const struct capo_fit_series *s, const struct knot *k, int order)
{
        double step = log2((double)s->points[k[1].point].bytes / (double)s->points[k->point].bytes),
               sum = 0, weight = 1, variance = 0;

        if (step < LEAST_STEP || step > MOST_STEP + 1e-6)
                return NAN;
        for (int i = 0; i <= order; i++) {
                double at = log2((double)s->points[k[i].point].bytes /
                                 (double)s->points[k->point].bytes);

                if (k[i].candidate != k->candidate || k[i].run != k->run ||
                    fabs(at - i * step) > 1e-6)
                        return NAN;
                sum += weight * k[i].value;
                variance += weight * weight;
                weight *= -(double)(order - i) / (i + 1);
        }
        return fabs(sum) / sqrt(variance);
}

static int collect_bends(const struct capo_fit_series *s, const struct knot *knots, int n,
                         struct bend *bends)
{
        int n_bends = 0;

        for (int i = 0; i < n; i++) {
                for (int order = FIRST_ORDER; order < FIRST_ORDER + ORDERS && i + order < n;
                     order++) {
                        double size = take_difference(s, &knots[i], order);

                        if (!isnan(size))
                                bends[n_bends++] =
                                        (struct bend){knots[i + order / 2].point, order, size};
                }
        }
        if (n_bends)
                qsort(bends, (size_t)n_bends, sizeof *bends, by_point);
        return n_bends;
}

void capo_fit_shape_noise(const struct capo_fit_series *s, double window, double *noise,
                          double *freedom)
{
        _cleanup_free_ struct knot *knots = xmalloc(((size_t)s->n_blocks + 1) * sizeof *knots);
        _cleanup_free_ struct bend *bends =
                xmalloc(((size_t)s->n_blocks * ORDERS + 1) * sizeof *bends);
        _cleanup_free_ double *v = xmalloc(((size_t)s->n_blocks * ORDERS + 1) * sizeof *v);
        double first, last; /* doublings; at both ends the window extends further inside */
        int n;

        n = collect_bends(s, knots, collect_knots(s, knots), bends);
        first = s->n_points ? log2((double)s->points[0].bytes) : 0;
        last = s->n_points ? log2((double)s->points[s->n_points - 1].bytes) : 0;
        for (int p = 0, lo = 0, hi = 0; p < s->n_points; p++) {
                double x = log2((double)s->points[p].bytes), from = fmin(x, last - window) - window,
                       upto = fmax(x, first + window) + window;

                while (lo < n && log2((double)s->points[bends[lo].point].bytes) < from - 1e-9)
                        lo++;
                while (hi < n && log2((double)s->points[bends[hi].point].bytes) <= upto + 1e-9)
                        hi++;
                noise[p] = freedom[p] = 0;
                for (int order = FIRST_ORDER; order < FIRST_ORDER + ORDERS; order++) {
                        size_t seen = 0;
                        double scale;

                        for (int i = lo; i < hi; i++) {
                                if (bends[i].order == order)
                                        v[seen++] = bends[i].size;
                        }
                        if (seen < LEAST)
                                continue;
                        scale = capo_median(v, seen) / 0.6745;
                        if (freedom[p] == 0 || scale < noise[p]) {
                                noise[p] = scale;
                                freedom[p] = (double)seen /
                                             4; /* differences overlap, and a median is used */
                        }
                }
        }
}
