/* SPDX-License-Identifier: Apache-2.0 */
/* How much runs differ, size by size. A time has two layers of noise: within a run (the error of a
 * block's median) and between runs (another day, other buffers, other channels). The second comes
 * from three sources, each with its degrees of freedom; the variances are averaged by them. This is
 * the empirical Bayes estimate of a variance (Smyth, Statistical Applications in Genetics and
 * Molecular Biology 3, 2004, equation 4: posterior mean under a scaled inverse chi-squared prior):
 *
 *   1. what public measurements show (PRIOR): one degree of freedom;
 *   2. the shape of single runs (shape_noise()): as many as there are differences, at most
 *      SHAPE_FREEDOM, and none where repeated runs have as many;
 *   3. repeated runs: Cochran's analysis of variance (the moment estimator of the random-effects
 *      model: Cochran 1954; Hedges and Olkin 1985, chapter 9),
 *
 *          tau^2 = max(0, (sum of squares - sum of (n - 1) mean se^2) / sum of (n - 1))
 *
 *      over all candidates at all sizes within WINDOW doublings, because small sizes are often ten
 *      times as noisy as large ones. They count for half of their number: what makes a run slow
 *      makes it slow at many sizes. Cells whose runs contradict each other are left out, first
 *      by the median of all: they are slow stretches of a run, which cell_of() treats cell by
 *      cell.
 *
 * A gain must pass two questions, by Student's t with the sum of the degrees. Is it above zero,
 * over all candidates compared (Bonferroni)? Is a loss of CAPO_FIT_HARM excluded, with far more
 * certainty? With little noise the first decides, and gains of two percent are taken; with much
 * noise the second does. */

#include "analysis/job/spread.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_private.h"

#define PRIOR \
        0.005 /* from public series, docs/internals/fit-statistics.md: as much as one repeated run \
               */
#define PRIOR_FREEDOM 1.0
#define SHAPE_OF_RUN \
        1.5 /* variance: a whole run can be slow or fast, which its shape does not show */
#define SHAPE_FREEDOM 8.0 /* upper limit for shapes, minus that of repeated runs */
#define GAIN_ALPHA    0.1 /* two-sided: a gain is above 0 with 95 %, over all candidates compared */
#define HARM_ALPHA    0.005 /* for each candidate and size: excludes a loss of CAPO_FIT_HARM */
#define SLOPE_ALPHA   0.01  /* two-sided: that the level of runs rises or falls */
#define WINDOW        2.0   /* doublings */
enum { PASSES = 2 };        /* rounds of leaving out cells whose runs contradict each other */
enum { KEPT = 64 };         /* reuse a median until one in this many of its cells has changed */
#define STALLED \
        0.26 /* ln: if the halves of a run of NCCL's own choice differ by more, the slower one is \
                ignored */

/* One run's part of a cell. */
struct run {
        double value, variance; /* ln us, and its variance within the run */
        double least, most;     /* over its blocks */
        uint32_t run, n_samples, n_blocks;
        bool anchored; /* compared with NCCL's own choice in the same run */
};

/* The first block of candidate @c at point @p that belongs to run @fold or later. */
static int first_block(const struct capo_fit_series *s, int p, int c, int fold)
{
        int from = s->points[p].first_block, end = s->points[p].end_block;

        while (from < end) { /* sorted by candidate, then by run */
                int mid = from + (end - from) / 2;
                const struct capo_fit_block *b = &s->blocks[mid];

                if (b->candidate < c || (b->candidate == c && b->fold < fold))
                        from = mid + 1;
                else
                        end = mid;
        }
        return from;
}

/* Add the runs of candidate @c to the @n in @runs; those of candidate @first are sorted by run. */
static int add_runs(const struct capo_fit_series *s, struct capo_fit_part part, int p, int c,
                    int *first, int n, struct run *runs)
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
                        runs[k] = (struct run){.run = b->run, .anchored = true};
                }
                runs[k].least =
                        runs[k].n_blocks && runs[k].least < b->value ? runs[k].least : b->value;
                runs[k].most =
                        runs[k].n_blocks && runs[k].most > b->value ? runs[k].most : b->value;
                runs[k].value += b->value; /* a sum until all are added */
                runs[k].variance += b->se * b->se;
                runs[k].n_samples += b->n;
                runs[k].n_blocks++;
                runs[k].anchored &= b->anchor;
        }
        return n;
}

/* The runs of candidate @c at point @p within @part. Candidates that ran what NCCL chose are merged with its
 * own choice, and the reverse. @runs: room for all blocks of the series. Return: how many. */
static int list_runs(const struct capo_fit_series *s, struct capo_fit_part part, int p, int c,
                     struct run *runs)
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
                if (pooled && runs[k].most - runs[k].least > STALLED)
                        runs[k].value = runs[k].least;
                runs[k].variance /= (double)runs[k].n_blocks * runs[k].n_blocks;
        }
        return n;
}

/* How much the runs of one cell differ. */
struct scatter {
        double squares, within; /* sum of squares around their mean; mean variance within runs */
        int freedom;            /* runs beyond the first */
};

static void scatter_of_point(struct capo_fit_series *s, int p, struct run *runs,
                             struct scatter *row)
{
        s->points[p].default_runs = 0;
        for (int c = 0; c < s->n_candidates; c++) {
                double mean = 0;
                int n;

                row[c] = (struct scatter){0};
                if (c > 0 && capo_fit_cell_of(s, p, c)->is_default)
                        continue;
                n = list_runs(s, CAPO_FIT_ALL, p, c, runs);
                if (c == 0)
                        s->points[p].default_runs = n;
                if (c == 0 && n && runs[0].anchored) /* made equal run by run */
                        continue;
                row[c].freedom = n > 1 ? n - 1 : 0;
                for (int k = 0; k < n; k++) {
                        mean += runs[k].value / n;
                        row[c].within += runs[k].variance / n;
                }
                for (int k = 0; k < n; k++)
                        row[c].squares += (runs[k].value - mean) * (runs[k].value - mean);
        }
}

/* False: with @variance per run, the runs of a cell would differ this much only in one of a thousand cells.
 * @squares: sum of squared distances of @freedom + 1 runs from their mean. */
static bool runs_agree(double squares, int freedom, double variance)
{
        double k = 2.0 / (9 * freedom),
               root = 1 - k + 3.09 * sqrt(k); /* Wilson and Hilferty 1931 */

        return squares <= freedom * variance * root * root * root;
}

/* Prefix sums over cells: the difference of two is the pool of the points between. */
struct pool {
        long double squares, within;
        int64_t freedom;
};

/* Add up the cells of each point, without those whose runs contradict each other under @variance.
 */
static void pool_points(const struct capo_fit_series *s, const struct scatter *all,
                        const double *variance, struct pool *before)
{
        before[0] = (struct pool){0};
        for (int p = 0; p < s->n_points; p++) {
                struct pool sum = before[p];

                for (int c = 0; c < s->n_candidates; c++) {
                        const struct scatter *x = &all[p * s->n_candidates + c];

                        if (!x->freedom ||
                            !runs_agree(x->squares, x->freedom, variance[p] + x->within))
                                continue;
                        sum.squares += x->squares;
                        sum.within += x->within * x->freedom;
                        sum.freedom += x->freedom;
                }
                before[p + 1] = sum;
        }
}

/* The first point inside, or the first one past, the window of @p. */
static int window_edge(const struct capo_fit_series *s, int p, int from, bool end)
{
        double x = log2((double)s->points[p].bytes) + (end ? WINDOW + 1e-9 : -WINDOW - 1e-9);

        while (from < s->n_points && (end ? log2((double)s->points[from].bytes) <= x
                                          : log2((double)s->points[from].bytes) < x))
                from++;
        return from;
}

/* A robust first estimate of the variance between runs at each point: the (lower) median over the
 * cells in its window, divided by the median of chi squared (Wilson and Hilferty 1931). No limit if
 * a cell has three runs: their median is robust itself. @v: room for all cells. */
static void first_variance(const struct capo_fit_series *s, const struct scatter *all, double *v,
                           double *variance)
{
        int lo = 0, hi = 0, last_lo = 0, last_hi = 0;

        for (int p = 0; p < s->n_points; p++) {
                size_t n = 0;
                bool three = false;

                lo = window_edge(s, p, lo, false);
                hi = window_edge(s, p, hi, true);
                if (p > 0 && (lo - last_lo + hi - last_hi) * KEPT < hi - lo) {
                        variance[p] = variance[p - 1];
                        continue;
                }
                last_lo = lo;
                last_hi = hi;
                for (int i = lo * s->n_candidates; i < hi * s->n_candidates; i++) {
                        const struct scatter *x = &all[i];
                        double k = x->freedom ? 1 - 2.0 / (9 * x->freedom) : 0;

                        three |= x->freedom > 1;
                        if (x->freedom)
                                v[n++] = fmax(0, x->squares / (x->freedom * k * k * k) - x->within);
                }
                if (n)
                        qsort(v, n, sizeof *v, capo_order_double);
                variance[p] = three ? INFINITY : n ? fmax(PRIOR * PRIOR, v[(n - 1) / 2]) : 0;
        }
}

/* The variance between runs at each point, from the cells in its window; @freedom: degrees of
 * freedom. */
static void window_variance(const struct capo_fit_series *s, const struct pool *before,
                            double *variance, double *freedom)
{
        int lo = 0, hi = 0;

        for (int p = 0; p < s->n_points; p++) {
                int64_t n;

                lo = window_edge(s, p, lo, false);
                hi = window_edge(s, p, hi, true);
                n = before[hi].freedom - before[lo].freedom;
                variance[p] = n ? fmax(0, (double)(before[hi].squares - before[lo].squares -
                                                   (before[hi].within - before[lo].within))) /
                                              (double)n
                                : 0;
                freedom[p] = (double)n /
                             2; /* runs that are slow are slow at many sizes, so they count half */
        }
}

static void find_blocks(struct capo_fit_series *s)
{
        int b = 0;

        for (int p = 0; p < s->n_points; p++) {
                s->points[p].first_block = b;
                while (b < s->n_blocks && s->blocks[b].point == p)
                        b++;
                s->points[p].end_block = b;
        }
        for (int i = 0; i < s->n_blocks; i++) {
                struct capo_fit_candidate *c = &s->candidates[s->blocks[i].candidate];

                c->n_runs = s->blocks[i].fold >= c->n_runs ? s->blocks[i].fold + 1 : c->n_runs;
        }
}

/* The level of a run: its median deviation from the mean of its candidate's runs. */
struct level {
        double rank; /* in time, from the middle of its candidate's runs */
        double value;
};

/* Put the levels of candidate @c's runs into @levels. Return: how many. */
static int find_levels(const struct capo_fit_series *s, int c, struct run *runs,
                       struct capo_fit_key *keys, double *apart, struct level *levels)
{
        double *v = apart + s->n_blocks, middle = 0;
        size_t n = 0;
        int n_runs = 0;

        for (int p = 0; p < s->n_points; p++) {
                int k = c && capo_fit_cell_of(s, p, c)->is_default
                                ? 0
                                : list_runs(s, CAPO_FIT_ALL, p, c, runs);
                double mean = 0;

                for (int i = 0; i < k; i++)
                        mean += runs[i].value / k;
                for (int i = 0; k > 1 && i < k; i++) {
                        keys[n] = (struct capo_fit_key){runs[i].run, n};
                        apart[n++] = runs[i].value - mean;
                }
        }
        capo_fit_sort(keys, n);
        for (size_t i = 0, end; i < n; i = end) {
                for (end = i; end < n && keys[end].key == keys[i].key; end++)
                        v[end - i] = apart[keys[end].at];
                levels[n_runs++] = (struct level){(double)keys[i].key, capo_median(v, end - i)};
                middle += (double)keys[i].key;
        }
        for (int i = 0; i < n_runs; i++)
                levels[i].rank -= middle / n_runs;
        return n_runs;
}

/* Runs that follow each other resemble each other. Set s->level, the standard deviation of whole
 * runs of one choice. Where the levels rise or fall from run to run of all choices, take the slope
 * out of the times if the order of the runs is known; if not, it widens the level. */
static void set_level(struct capo_fit_series *s, struct run *runs)
{
        _cleanup_free_ struct capo_fit_key *keys =
                xmalloc(((size_t)s->n_blocks + 1) * sizeof *keys);
        _cleanup_free_ double *apart = xmalloc((2 * (size_t)s->n_blocks + 1) * sizeof *apart);
        _cleanup_free_ struct level *levels = xmalloc(((size_t)s->n_blocks + 1) * sizeof *levels);
        _cleanup_free_ double *sizes = xmalloc(((size_t)s->n_blocks + 1) * sizeof *sizes);
        _cleanup_free_ double *slopes = xcalloc((size_t)s->n_candidates, sizeof *slopes);
        double squares = 0, xx = 0, xy = 0, slope, usual, error;
        size_t n_levels = 0, n_slopes = 0;
        uint32_t first = UINT32_MAX, last = 0;
        int freedom = 0;

        s->level = 0;
        for (int c = 0; c < s->n_candidates; c++) {
                int n = find_levels(s, c, runs, keys, apart, levels);
                double of_xx = 0, of_xy = 0;

                for (int i = 0; n > 1 && i < n; i++) {
                        sizes[n_levels++] = fabs(levels[i].value);
                        squares += levels[i].value * levels[i].value;
                        of_xx += levels[i].rank * levels[i].rank;
                        of_xy += levels[i].rank * levels[i].value;
                }
                if (of_xx > 0)
                        slopes[n_slopes++] = of_xy / of_xx;
                xx += of_xx;
                xy += of_xy;
                freedom += n > 1 ? n - 1 : 0;
        }
        if (!freedom)
                return;
        qsort(sizes, n_levels, sizeof *sizes, capo_order_double); /* the lower median */
        if (s->turns != CAPO_FIT_IN_TURN)
                s->level = sizes[(n_levels - 1) / 2] / 0.6745 * sqrt((double)n_levels / freedom);
        for (int i = 0; i < s->n_blocks; i++) {
                first = s->blocks[i].run < first ? s->blocks[i].run : first;
                last = s->blocks[i].run > last ? s->blocks[i].run : last;
        }
        slope = xx > 0 ? xy / xx : 0;
        error = freedom > 1 && xx > 0 ? sqrt(fmax(0, squares - slope * xy) / (freedom - 1) / xx)
                                      : INFINITY;
        usual = n_slopes ? capo_median(slopes, n_slopes) : 0;
        if (usual * slope < slope * slope / 2) /* one run with a wrong label makes a slope, too */
                return;
        if (!(fabs(slope) > capo_quantile_t(SLOPE_ALPHA, freedom - 1) * error))
                return;
        if (s->turns != CAPO_FIT_TURNS_UNKNOWN) {
                for (int i = 0; i < s->n_blocks; i++)
                        s->blocks[i].value -= slope * (s->blocks[i].run - first);
                if (s->turns == CAPO_FIT_APART)
                        s->level = error * (last - first);
        } else {
                s->level += fabs(slope) * (last - first) / 2;
        }
}

/* The noise of a single run, from its shape. The time of one choice is a smooth curve over the
 * size, so its differences of second, third and fourth order are noise, plus curvature that shrinks
 * with the order. The k-th difference of independent errors has binomial(2k, k) times their
 * variance (von Neumann, Annals of Mathematical Statistics 12, 1941; Rice, Annals of Statistics 12,
 * 1984: difference-based estimators of variance). The median of the absolute differences over
 * 0.6745 is robust against steps. The least of the three orders is used, because curvature can only
 * add. */

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

/* The knots by candidate, run and size. Times of NCCL's own choice are left out, because the choice
 * changes. @order: room for all blocks, which are sorted by size. */
static int collect_knots(const struct capo_fit_series *s, struct knot *knots,
                         struct capo_fit_key *order)
{
        size_t n = 0;
        int kept = 0;

        for (size_t i = 0; i < (size_t)s->n_blocks; i++) {
                const struct capo_fit_block *b = &s->blocks[i];

                if (b->candidate > 0)
                        order[n++] =
                                (struct capo_fit_key){(uint64_t)b->candidate << 32 | b->run, i};
        }
        capo_fit_sort(order, n);
        for (size_t i = 0; i < n; i++) {
                const struct capo_fit_block *b = &s->blocks[order[i].at];
                struct knot *k = kept ? &knots[kept - 1] : NULL;

                if (!k || k->candidate != b->candidate || k->run != b->run ||
                    k->point != b->point) {
                        k = &knots[kept++];
                        *k = (struct knot){b->candidate, b->point, b->run, 0, 0};
                }
                k->value += b->value;
                k->n++;
        }
        for (int i = 0; i < kept; i++)
                knots[i].value /= knots[i].n;
        return kept;
}

/* The difference of @order that begins at @k, in units of a single time's error; NAN: the sizes are
 * not evenly spaced, or belong to several curves. */
static double take_difference(const double *doublings, const struct knot *k, int order)
{
        double from = doublings[k->point], step = doublings[k[1].point] - from, sum = 0, weight = 1,
               variance = 0;

        if (step < LEAST_STEP || step > MOST_STEP + 1e-6)
                return NAN;
        for (int i = 0; i <= order; i++) {
                if (k[i].candidate != k->candidate || k[i].run != k->run ||
                    fabs(doublings[k[i].point] - from - i * step) > 1e-6)
                        return NAN;
                sum += weight * k[i].value;
                variance += weight * weight;
                weight *= -(double)(order - i) / (i + 1);
        }
        return fabs(sum) / sqrt(variance);
}

/* The differences of @order: @size, and their points sorted in @by_point. */
static size_t collect_bends(const double *doublings, const struct knot *knots, int n, int order,
                            double *size, struct capo_fit_key *by_point)
{
        size_t n_bends = 0;

        for (int i = 0; i + order < n; i++) {
                double x = take_difference(doublings, &knots[i], order);

                if (isnan(x))
                        continue;
                by_point[n_bends] =
                        (struct capo_fit_key){(uint64_t)knots[i + order / 2].point, n_bends};
                size[n_bends++] = x;
        }
        capo_fit_sort(by_point, n_bends);
        return n_bends;
}

/* Scatter of the curves within WINDOW doublings of each point: @noise, and its degrees of freedom
 * (@freedom, 0: none). */
static void shape_noise(const struct capo_fit_series *s, double *noise, double *freedom)
{
        size_t room = (size_t)s->n_blocks + 1;
        _cleanup_free_ struct knot *knots = xmalloc(room * sizeof *knots);
        _cleanup_free_ struct capo_fit_key *keys = xmalloc(room * sizeof *keys);
        _cleanup_free_ double *x = xcalloc((size_t)s->n_points + 1, sizeof *x); /* doublings */
        _cleanup_free_ double *size = xmalloc(room * sizeof *size);
        _cleanup_free_ double *v = xmalloc(room * sizeof *v);
        int n_knots = collect_knots(s, knots, keys), last = s->n_points - 1;

        for (int p = 0; p <= last; p++) {
                x[p] = log2((double)s->points[p].bytes);
                noise[p] = freedom[p] = 0;
        }
        for (int order = FIRST_ORDER; order < FIRST_ORDER + ORDERS; order++) {
                size_t n = collect_bends(x, knots, n_knots, order, size, keys), lo = 0, hi = 0;

                for (int p = 0; p <= last;
                     p++) { /* at both ends the window extends further inside */
                        double from = fmin(x[p], x[last] - WINDOW) - WINDOW - 1e-9,
                               upto = fmax(x[p], x[0] + WINDOW) + WINDOW + 1e-9, scale;

                        while (lo < n && x[keys[lo].key] < from)
                                lo++;
                        while (hi < n && x[keys[hi].key] <= upto)
                                hi++;
                        if (hi - lo < LEAST)
                                continue;
                        for (size_t i = lo; i < hi; i++)
                                v[i - lo] = size[keys[i].at];
                        scale = capo_median(v, hi - lo) / 0.6745;
                        if (freedom[p] == 0 || scale < noise[p]) {
                                noise[p] = scale; /* differences overlap, and a median is used */
                                freedom[p] = (double)(hi - lo) / 4;
                        }
                }
        }
}

void capo_fit_noise(struct capo_fit_series *s)
{
        size_t n = (size_t)s->n_points;
        _cleanup_free_ struct run *runs = xcalloc((size_t)s->n_blocks + 1, sizeof *runs);
        _cleanup_free_ struct scatter *all = xcalloc(n * (size_t)s->n_candidates + 1, sizeof *all);
        _cleanup_free_ struct pool *before = xmalloc((n + 1) * sizeof *before);
        _cleanup_free_ double *room = xmalloc((4 * n + 1) * sizeof *room);
        _cleanup_free_ double *values = xmalloc((n * (size_t)s->n_candidates + 1) * sizeof *values);
        double *variance = room, *freedom = room + n, *shape = room + 2 * n,
               *shape_freedom = room + 3 * n;
        int compared = s->n_candidates > 2 ? s->n_candidates - 1 : 1;

        shape_noise(s, shape, shape_freedom);
        find_blocks(s);
        set_level(s, runs);
        for (int p = 0; p < s->n_points; p++)
                scatter_of_point(s, p, runs, &all[p * s->n_candidates]);
        first_variance(s, all, values, variance);
        for (int pass = 0; pass < PASSES; pass++) {
                pool_points(s, all, variance, before);
                window_variance(s, before, variance, freedom);
        }
        s->one_run = true;
        for (int p = 0; p < s->n_points; p++) {
                struct capo_fit_point *q = &s->points[p];
                double of_shape = fmax(0, fmin(shape_freedom[p], SHAPE_FREEDOM - freedom[p])),
                       sum = PRIOR_FREEDOM + of_shape + freedom[p];

                q->noise = sqrt((PRIOR_FREEDOM * PRIOR * PRIOR +
                                 of_shape * SHAPE_OF_RUN * shape[p] * shape[p] +
                                 freedom[p] * variance[p]) /
                                sum);
                q->freedom = sum;
                q->cell_quantile = capo_quantile_t(0.05, sum);
                q->quantile = capo_quantile_t(GAIN_ALPHA / compared, sum);
                q->harm_quantile = capo_quantile_t(HARM_ALPHA, sum);
                q->repeats = (int)(2 * freedom[p]);
                s->one_run &= q->repeats == 0;
                variance[p] = q->noise;
        }
        qsort(variance, n, sizeof *variance, capo_order_double);
        s->noise = variance[n / 2];
}

/* From blocks to cells: the time of a candidate at a size, with its uncertainty. The unit is the
 * run: its in-place and out-of-place halves do not repeat each other. From three runs on, the
 * median is used, so that one slow run has no effect. If a cell's own runs differ by more than its
 * neighbourhood's noise, its own scatter is used. */

/* @level: part of the noise between runs that more runs do not average out. @own: NCCL's own choice.
 */
static void cell_of(const struct capo_fit_point *q, double level, const struct run *runs, int n,
                    bool own, double *v, struct capo_fit_cell *cell)
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
        if (n < 3 && !cell->anchored)
                pooled += CAPO_FIT_UNSEEN * CAPO_FIT_UNSEEN / n;
        cell->se_within = sqrt(within);
        cell->se = sqrt(pooled);
        cell->disagree = n > 1 && !runs_agree(squares, n - 1, pooled * n);
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
        _cleanup_free_ struct run *runs = xmalloc(((size_t)s->n_blocks + 1) * sizeof *runs);
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
                        cell_of(&s->points[p], s->level, runs, list_runs(s, part, p, c, runs),
                                c == 0 || cell->is_default, v, cell);
                }
        }
}
