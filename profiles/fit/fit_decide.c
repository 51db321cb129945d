/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells to decisions: which candidate is worth a rule at which size. A rule that harms is worse
 * than a missed gain, so a candidate is admitted only
 *   - where it was measured, and beats NCCL's own choice by more than the interval and min_gain; or
 *   - strictly between two such sizes of the same candidate, if nothing measured there is admitted.
 *     Its gain is then interpolated, straight in log size.
 *
 * A gain must pass two questions (fit_noise.c): is it above zero, and is a loss of CAPO_FIT_HARM
 * excluded? These gains look like a fault of a measurement and are refused:
 *   - more than MOST, or more than the links carry
 *   - over one run of NCCL's own choice, if no other candidate repeats its time or the gain is
 *     above MOST_ONCE: runs are slow now and then
 *   - of a size that one run of a candidate has alone while its runs disagree at the neighbouring
 *     sizes: its label may be wrong
 *
 * The path through the admitted candidates with the largest total gain is taken. A change of
 * candidate costs a little, so that equal candidates do not alternate.
 */

#include "core/base/xalloc.h"
#include "profiles/fit/fit_private.h"
#include "analysis/job/spread.h"

#define SWITCH_COST \
        0.003     /* of ln time: the least gain for a change of candidate between neighbours */
#define MOST 0.80 /* a larger gain (five times faster) is a measurement error */
#define MOST_ONCE \
        0.15 /* the same against a single run of NCCL's own choice that is not interleaved */
enum { GAP_DOUBLINGS = 6, BESIDE = 24 };

struct view {
        const struct capo_fit_series *s;
        const struct capo_fit_options *o;
        const struct capo_fit_cell *cells;
        int skip;
        double beside; /* errors in that of a single run, for excluding a loss */
};

/* The curve of a single run does not show errors that neighbouring sizes share. The line a + b x
 * size does: how far the candidates' times are from theirs, in units of the noise, from 1 to
 * CAPO_FIT_LIKE_BESIDE. */
static double errors_beside(const struct capo_fit_series *s, const struct capo_fit_cell *cells)
{
        double squares = 0;
        int freedom = 0;

        for (int c = 1; c < s->n_candidates; c++) {
                double sum = 0, x = 0, xx = 0, y = 0, yy = 0, xy = 0, slope;
                int seen = 0;

                for (int p = 0; p < s->n_points; p++) {
                        double bytes = (double)s->points[p].bytes,
                               us = cells[p * s->n_candidates + c].us, weight;

                        if (isnan(us))
                                continue;
                        weight = 1 / us / us / s->points[p].noise / s->points[p].noise;
                        sum += weight;
                        x += weight * bytes;
                        xx += weight * bytes * bytes;
                        y += weight * us;
                        yy += weight * us * us;
                        xy += weight * bytes * us;
                        seen++;
                }
                if (seen < 4)
                        continue;
                slope = (xy - x * y / sum) / (xx - x * x / sum);
                squares += fmax(0, yy - y * y / sum - slope * (xy - x * y / sum));
                freedom += seen - 2;
        }
        return freedom < 4 ? CAPO_FIT_LIKE_BESIDE
                           : fmin(CAPO_FIT_LIKE_BESIDE, fmax(1, sqrt(squares / freedom)));
}

static const struct capo_fit_cell *cell_at(const struct view *v, int p, int c)
{
        return &v->cells[p * v->s->n_candidates + c];
}

/* The candidate that @c of @row is compared with: NCCL's own choice, or the next best where that is a fair
 * substitute; -1: none. */
static int find_baseline(const struct view *v, const struct capo_fit_cell *row, int c)
{
        int next = -1;

        if (!isnan(row[0].us))
                return 0;
        if (v->s->has_default || !(v->s->covered || v->o->without_default))
                return -1;
        for (int k = 1; k < v->s->n_candidates; k++) {
                if (k != c && !isnan(row[k].us) && (next < 0 || row[k].us < row[next].us))
                        next = k;
        }
        return next;
}

/* ln of the baseline's time over the candidate's; NAN: one of them was not measured. */
static double gain_at(const struct view *v, int p, int c, double *se)
{
        const struct capo_fit_cell *row = cell_at(v, p, 0), *cell = &row[c], *base;
        int b = p == v->skip || isnan(cell->us) ? -1 : find_baseline(v, row, c);

        if (b < 0 || (c > 0 && cell->is_default))
                return NAN;
        base = &row[b];
        /* both compared within one run: the variation between runs cancels */
        *se = cell->anchored && base->anchored ? hypot(cell->se, base->se_within)
                                               : sqrt(cell->se * cell->se + base->se * base->se +
                                                      capo_fit_unseen(v->s, cell, base));
        return ln_us(base) - ln_us(cell);
}

/* Is the time of NCCL's own choice at @p confirmed by more than one run, which may have been slow?
 * By repeats that agree, or by a run with both choices, which was slow for both. */
static bool default_repeated(const struct view *v, int p, int c)
{
        const struct capo_fit_cell *row = cell_at(v, p, 0);

        return !v->s->has_default || (v->s->points[p].default_runs > 1 && !row[0].disagree) ||
               (row[0].anchored && row[c].anchored);
}

/* With a single run, another candidate must have the same time, because NCCL mostly chooses one of
 * the candidates. */
static bool default_believed(const struct view *v, int p, int c)
{
        bool believed = default_repeated(v, p, c);

        for (int k = 1; k < v->s->n_candidates && !believed; k++) {
                double se = 0, gain = gain_at(v, p, k, &se);

                believed = k != c && fabs(gain) <= CAPO_FIT_SAME_TIME * se;
        }
        return believed;
}

/* For a single run of a candidate that is repeated elsewhere: do its runs agree at a neighbouring
 * size? If not, its label may be wrong. */
static bool label_believed(const struct view *v, int p, int c)
{
        if (cell_at(v, p, c)->n_runs > 1 || v->s->candidates[c].n_runs < 2)
                return true;
        for (int k = p - 1; k <= p + 1; k += 2) {
                const struct capo_fit_cell *beside =
                        k >= 0 && k < v->s->n_points && k != v->skip ? cell_at(v, k, c) : NULL;

                if (beside && beside->n_runs > 1 && !beside->disagree && !beside->is_default)
                        return true;
        }
        return false;
}

/* The next size from @p by @step where @c and NCCL's own choice were measured; -1: none. */
static int size_beside(const struct view *v, int p, int step, int c)
{
        for (int k = p + step; k >= 0 && k < v->s->n_points; k += step) {
                if (k != v->skip && cell_at(v, k, c)->n_blocks && cell_at(v, k, 0)->n_blocks)
                        return k;
        }
        return -1;
}

/* For a gain that a single run could have made: does a neighbouring size show half of it, or does
 * the time lie on the line a + b x size through its neighbours? A lone time far from its curve is
 * more often a fault than a gain. */
static bool gain_supported(const struct view *v, int p, int c, double gain)
{
        int lo = size_beside(v, p, -1, c), hi = size_beside(v, p, 1, c);

        if (cell_at(v, p, c)->n_runs > 1 && v->s->points[p].default_runs > 1)
                return true;
        for (int i = 0; i < 2; i++) {
                int k = i ? hi : lo;
                double se = 0;

                if (k >= 0 && gain_at(v, k, c, &se) >= gain / 2)
                        return true;
        }
        if (v->s->points[p].default_runs > 1 && lo >= 0 && hi >= 0) {
                double xa = (double)v->s->points[lo].bytes, ya = cell_at(v, lo, c)->us;
                double xb = (double)v->s->points[hi].bytes, yb = cell_at(v, hi, c)->us,
                       line = ya + (yb - ya) * ((double)v->s->points[p].bytes - xa) / (xb - xa);

                return log(line) - ln_us(cell_at(v, p, c)) <= gain / 2;
        }
        return false;
}

/* By how much the gain of candidate @c in one place exceeds that in both, around @p: the larger one
 * of that at @p, and of the median over three sizes. 0: the places were not both measured. */
static double place_difference(const struct view *v, int p, int c)
{
        double gap[3], here = capo_fit_place_gap(v->s, v->cells, p, c);
        size_t n = 0;

        for (int k = p - 1; k <= p + 1; k++) {
                if (k >= 0 && k < v->s->n_points && k != v->skip)
                        gap[n++] = capo_fit_place_gap(v->s, v->cells, k, c);
        }
        return fmax(fabs(here), fabs(capo_median(gap, n)));
}

/* How much slower NCCL's own choice seems at @p than the candidate other than @c that is nearest to
 * it. 0: some candidate repeats its time. INFINITY: all are slower. */
static double excess_at(const struct view *v, int p, int c)
{
        double excess = INFINITY;

        for (int k = 1; k < v->s->n_candidates; k++) {
                double se = 0, gain = gain_at(v, p, k, &se);

                if (cell_at(v, p, k)->is_default)
                        return 0;
                if (k != c && !isnan(gain) && gain > -CAPO_FIT_SAME_TIME * se)
                        excess = fmin(excess, fmax(0, gain - CAPO_FIT_SAME_TIME * se));
        }
        return excess;
}

/* NCCL's own choice was perhaps measured while the machine was slow, because it is mostly one of the
 * candidates: by the excess at @p or by the median of nearby sizes, whichever is larger. 0 where the
 * choices were measured in turn, with three runs of its own or within a run. */
static double own_excess(const struct view *v, int p, int c)
{
        double near[2 * BESIDE + 1], here = excess_at(v, p, c);
        size_t n = 0;

        if (!v->s->has_default ||
            (v->s->turns == CAPO_FIT_IN_TURN &&
             (cell_at(v, p, 0)->anchored || v->s->points[p].default_runs > 2)))
                return 0;
        for (int k = p - BESIDE; k <= p + BESIDE; k++) {
                double x = k >= 0 && k < v->s->n_points && k != v->skip ? excess_at(v, k, c)
                                                                        : INFINITY;

                if (!isinf(x))
                        near[n++] = x;
        }
        here = isinf(here) ? 0 : here;
        return n ? fmax(here, capo_median(near, n)) : here;
}

/* ln gain of a measured candidate that is worth a rule, else 0. @why: set if it is refused. */
static double candidate_worth(const struct view *v, int p, int c, enum capo_fit_verdict *why)
{
        const struct capo_fit_point *q = &v->s->points[p];
        const struct capo_fit_cell *cell = cell_at(v, p, c);
        double se = 0, seen = gain_at(v, p, c, &se), gain = seen - own_excess(v, p, c),
               harm = (cell->anchored && cell->n_runs == 1 ? v->beside : 1) * q->harm_quantile * se;

        if (c == 0 || isnan(gain) || !capo_fit_writable(&v->s->candidates[c]) ||
            1 - exp(-seen) < v->o->min_gain || seen - q->quantile * se <= 0)
                return 0;
        if (1 - exp(-gain) < v->o->min_gain || gain - q->quantile * se <= 0) {
                *why = CAPO_FIT_UNREPEATED;
                return 0;
        }
        if (v->o->force)
                return gain - harm > -log1p(CAPO_FIT_HARM) ? gain : 0;
        if (v->s->labels_doubted)
                *why = CAPO_FIT_LABELS;
        else if (1 - exp(-gain) > MOST)
                *why = CAPO_FIT_TOO_GOOD;
        else if (!default_believed(v, p, c) ||
                 (1 - exp(-gain) > MOST_ONCE && !default_repeated(v, p, c)))
                *why = q->default_runs > 1 ? CAPO_FIT_DISAGREE : CAPO_FIT_ONCE;
        else if (gain - harm <= -log1p(CAPO_FIT_HARM))
                return 0;
        else if (capo_fit_beyond(v->s->links, &v->s->like, v->s->call, q->bytes, cell->us))
                *why = CAPO_FIT_BEYOND_LINKS;
        else if (!label_believed(v, p, c) || !gain_supported(v, p, c, gain))
                *why = CAPO_FIT_ALONE;
        else if (place_difference(v, p, c) >= gain)
                *why = CAPO_FIT_PLACE;
        return *why ? 0 : gain;
}

/* Its gain between two sizes where @c is worth it, interpolated; 0: it is not between such. */
static double interpolate_gain(const struct view *v, const double *value, int p, int c)
{
        int lo = p - 1, hi = p + 1, m = v->s->n_candidates;
        double x, xa, xb, se;

        while (lo >= 0 && isnan(gain_at(v, lo, c, &se)))
                lo--;
        while (hi < v->s->n_points && isnan(gain_at(v, hi, c, &se)))
                hi++;
        if (lo < 0 || hi >= v->s->n_points || !(value[lo * m + c] > 0) || !(value[hi * m + c] > 0))
                return 0;
        x = log2((double)v->s->points[p].bytes);
        xa = log2((double)v->s->points[lo].bytes);
        xb = log2((double)v->s->points[hi].bytes);
        if (xb - xa > GAP_DOUBLINGS)
                return 0;
        return value[lo * m + c] + (value[hi * m + c] - value[lo * m + c]) * (x - xa) / (xb - xa);
}

/* Was it refused because the time of NCCL's own choice is doubtful? */
static bool default_doubted(enum capo_fit_verdict why)
{
        return why == CAPO_FIT_TOO_GOOD || why == CAPO_FIT_ONCE || why == CAPO_FIT_DISAGREE;
}

/* Reject all candidates at @p. False: there were none. */
static bool clear_point(const struct view *v, double *value, int p)
{
        bool any = false;

        for (int c = 1; c < v->s->n_candidates; c++) {
                double *x = &value[p * v->s->n_candidates + c];

                any |= *x > 0;
                *x = 0;
        }
        return any;
}

/* If the time of NCCL's own choice is doubtful at a size, no candidate can be compared there. Its
 * slow run may have been slow at the neighbouring sizes too: clear these as far as candidates seem
 * faster. */
static void clear_refused(const struct view *v, double *value, struct capo_fit_point *points)
{
        double se;
        bool seems;

        for (int p = 0; p < v->s->n_points; p++) {
                if (!default_doubted(points[p].refused))
                        continue;
                clear_point(v, value, p);
                for (int step = -1; step <= 1; step += 2) {
                        for (int k = p + step; k >= 0 && k < v->s->n_points; k += step) {
                                if (k == v->skip)
                                        continue;
                                seems = false; /* a candidate to be faster, significantly or not */
                                for (int c = 1; c < v->s->n_candidates; c++)
                                        seems |= 1 - exp(-gain_at(v, k, c, &se)) >= v->o->min_gain;
                                if (v->s->points[k].default_runs > 1 || !seems)
                                        break;
                                if (!clear_point(v, value, k))
                                        continue;
                                points[k].refused = points[p].refused == CAPO_FIT_TOO_GOOD
                                                            ? CAPO_FIT_ONCE
                                                            : points[p].refused;
                        }
                }
        }
}

/* value[p * m + c]: ln gain if choice c may be written, 0 for NCCL's own choice, -INFINITY otherwise. */
static void admit_candidates(const struct view *v, double *value, struct capo_fit_point *points)
{
        int m = v->s->n_candidates;

        for (int c = 0; c < m; c++) {
                for (int p = 0; p < v->s->n_points; p++) {
                        enum capo_fit_verdict why = CAPO_FIT_WRITTEN;

                        value[p * m + c] = candidate_worth(v, p, c, &why);
                        if (why && (c == points[p].best || default_doubted(why)))
                                points[p].refused = why;
                }
        }
        clear_refused(v, value, points);
        for (int p = 0; p < v->s->n_points; p++) {
                bool any = false;
                double se;

                for (int c = 1; c < m; c++)
                        any |= value[p * m + c] > 0;
                for (int c = 1; c < m; c++) {
                        double *x = &value[p * m + c];

                        if (!any && p != v->skip && isnan(gain_at(v, p, c, &se)) &&
                            !cell_at(v, p, c)->is_default)
                                *x = -interpolate_gain(
                                        v, value, p,
                                        c); /* below zero: hidden from the check of the next size */
                }
        }
        for (int p = 0; p < v->s->n_points; p++) {
                for (int c = 1; c < m; c++) {
                        double *x = &value[p * m + c];

                        *x = *x == 0 ? -INFINITY : fabs(*x);
                }
        }
}

/* The path with the largest total gain, backwards from the last size. */
static void find_path(const struct view *v, const double *value, double *score, int *from,
                      struct capo_fit_point *points)
{
        int m = v->s->n_candidates, last = -1, now = 0;

        for (int p = 0; p < v->s->n_points; p++) {
                points[p].chosen = -1;
                if (p == v->skip)
                        continue;
                for (int c = 0; c < m; c++) {
                        double best = 0;

                        from[p * m + c] = 0;
                        for (int k = 0; last >= 0 && k < m; k++) {
                                double x = score[last * m + k] - (k != c) * SWITCH_COST;

                                if (k == 0 || x > best) {
                                        best = x;
                                        from[p * m + c] = k;
                                }
                        }
                        score[p * m + c] = best + value[p * m + c];
                }
                last = p;
        }
        for (int c = 1; last >= 0 && c < m; c++) {
                if (score[last * m + c] > score[last * m + now])
                        now = c;
        }
        for (int p = last; p >= 0; p--) {
                if (p == v->skip)
                        continue;
                points[p].chosen = now;
                now = from[p * m + now];
        }
}

void capo_fit_decide(const struct capo_fit_series *s, const struct capo_fit_options *o,
                     const struct capo_fit_cell *cells, int skip, struct capo_fit_point *points)
{
        const struct view v = {s, o, cells, skip, errors_beside(s, cells)};
        size_t n = (size_t)s->n_points * (size_t)s->n_candidates;
        _cleanup_free_ double *value = xcalloc(n + 1, sizeof *value);
        _cleanup_free_ double *score = xmalloc((n + 1) * sizeof *score);
        _cleanup_free_ int *from = xmalloc((n + 1) * sizeof *from);

        for (int p = 0; p < s->n_points; p++) {
                points[p].best = -1;
                points[p].refused = CAPO_FIT_WRITTEN;
                points[p].gain = points[p].gain_lo = points[p].gain_hi = NAN;
                for (int c = 0; p != skip && c < s->n_candidates; c++) {
                        const struct capo_fit_cell *cell = cell_at(&v, p, c);

                        if (cell->n_blocks &&
                            (points[p].best < 0 || cell->us < cell_at(&v, p, points[p].best)->us))
                                points[p].best = c;
                }
        }
        admit_candidates(&v, value, points);
        find_path(&v, value, score, from, points);
        for (int p = 0; p < s->n_points; p++) {
                struct capo_fit_point *q = &points[p];
                int c = q->chosen > 0 ? q->chosen : q->best;
                double se = 0, gain;

                if (p == skip || c < 0 || (q->chosen <= 0 && isnan(cell_at(&v, p, 0)->us)))
                        continue;
                gain = c == 0 || cell_at(&v, p, c)->is_default ? 0 : gain_at(&v, p, c, &se);
                if (isnan(gain))
                        continue;
                q->gain = 1 - exp(-gain);
                q->gain_lo = 1 - exp(-(gain - q->quantile * se));
                q->gain_hi = 1 - exp(-(gain + q->quantile * se));
        }
}
