/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From samples to rows, in five steps.
 *
 * 1. Blocks. Samples are sorted once by what they are (class, collective, size, candidate, run, in-place or not).
 * Within a block the first calls go as warm-up, stalls are set aside, and the median of ln(us) stays with its error.
 * 2. Habits. In-place and out-of-place runs differ by a habit of the candidate, not by noise: half the median
 * difference is taken out of each, so that a cell is a cell.
 *    A run that has both NCCL's own choice and other candidates at a size (a sweep) was slow or fast for all of them:
 * what its own choice differs by from that of the other runs is taken out of all.
 * 3. Noise. What blocks of one cell still differ by, pooled over the series, is the variation between runs. It, not the
 *    spread within a run, decides what can be told apart.
 * 4. Decisions. A candidate is admitted at a size where the lower end of its gain over NCCL's own choice is above zero,
 *    the interval widened for the number of candidates compared, and its gain above min_gain. Among the admitted the
 *    path through the sizes with the largest total gain is taken, a change of candidate costing a little, so that equal
 *    candidates do not alternate.
 * 5. Rows. Where the choice changes between two sizes the boundary is put where the two curves cross, both taken
 *    straight in log size and log time.
 *
 * Beyond the sizes measured a row goes on only as far as the trend of its gain does, at most three doublings.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "profiles/fit/priv.h"
#include "profiles/job/spread.h"

#define SWITCH_COST  0.003 /* of ln time: what a change of candidate between neighbours must bring */
#define EXTEND_STEPS 3     /* doublings beyond the measured sizes, at most; and at most two of its own steps */

static int by_what(const void *a, const void *b)
{
        const struct capo_fit_item *x = a, *y = b;

#define BY(field)                 \
        if (x->field != y->field) \
        return x->field < y->field ? -1 : 1
        BY(key);
        BY(bytes);
        BY(candidate);
        BY(run);
        BY(place);
        BY(order);
        BY(us);
#undef BY
        return 0;
}

/* ---- classes ---- */

static int same_class(const struct capo_trial *a, const struct capo_trial *b)
{
        int c = a->n_ranks - b->n_ranks;

        c = c ? c : a->n_nodes - b->n_nodes;
        c = c ? c : strcmp(a->layout, b->layout);
        c = c ? c : strcmp(a->gpu, b->gpu);
        return c ? c : a->nccl < b->nccl ? -1 : a->nccl > b->nccl;
}

static int by_class(const void *a, const void *b, void *runs)
{
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
        const struct capo_trial *v = runs;
        int c = same_class(&v[x], &v[y]);

        return c ? c : x < y ? -1 : x > y;
}

/* class_of[run]: number of its class; like[class]: one of its runs. Returns the number of classes. */
static int classes(const struct capo_samples *set, uint32_t *class_of, uint32_t *like)
{
        uint32_t *order = malloc((set->n_runs + 1) * sizeof *order);
        int n = 0;

        if (!order)
                return -ENOMEM;
        for (size_t i = 0; i < set->n_runs; i++)
                order[i] = (uint32_t)i;
        qsort_r(order, set->n_runs, sizeof *order, by_class, set->runs);
        for (size_t i = 0; i < set->n_runs; i++) {
                if (i == 0 || same_class(&set->runs[order[i]], &set->runs[order[i - 1]]))
                        like[n++] = order[i];
                class_of[order[i]] = (uint32_t)n - 1;
        }
        free(order);
        return n;
}

/* What was forced, completed by what ran and by what NCCL has: NVLS, CollNet and PAT exist as Simple only, broadcast
 * and reduce as Ring only (NCCL 2.30.7 src/graph/tuning.cc). */
static uint16_t candidate_of(const struct capo_sample *s)
{
        unsigned algo = CAPO_ALGO_OF(s->want), proto = CAPO_PROTO_OF(s->want);

        if (!s->want && !s->want_channels)
                return 0;
        if (!algo)
                algo = CAPO_ALGO_OF(s->ran);
        if (!algo && (s->call == CAPO_CALL_BROADCAST || s->call == CAPO_CALL_BCAST || s->call == CAPO_CALL_REDUCE))
                algo = CAPO_ALGO_RING;
        if (!proto)
                proto = CAPO_PROTO_OF(s->ran);
        if (!proto && algo && algo != CAPO_ALGO_RING && algo != CAPO_ALGO_TREE)
                proto = CAPO_PROTO_SIMPLE;
        return (uint16_t)(CAPO_ALGO_PROTO(algo, proto) << 8 | s->want_channels);
}

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

/* ---- 4. decisions ---- */

static double ln_us(const struct capo_fit_cell *c)
{
        return log(c->us);
}

/* What the candidate is measured against: NCCL's own choice, or the next best where that is a fair stand-in. */
static int baseline(const struct capo_fit_series *s, const struct capo_fit_options *o, const struct capo_fit_cell *row,
                    int c)
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
                        int b = baseline(s, o, row, c);

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
                b = c < 0 ? -1 : baseline(s, o, row, c);
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

/* ---- 5. rows ---- */

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
        int b = baseline(s, o, here, c);

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

int capo_fit_choice(const struct capo_fit_series *s, uint64_t bytes)
{
        for (int i = 0; i < s->n_rows; i++) {
                if (bytes <= s->rows[i].upto)
                        return s->rows[i].chosen;
        }
        return 0;
}

/* ---- all of it ---- */

static int make_series(struct capo_fit_maker *m, struct capo_fit_series *s, const struct capo_fit_item *items, size_t n,
                       const struct capo_fit_options *o, struct capo_fault *fault)
{
        int e = capo_fit_gather(m, s, items, n, fault);

        if (e < 0)
                return e;
        capo_fit_estimate(s, CAPO_FIT_ALL, s->cells);
        e = capo_fit_decide(s, o, s->cells, -1, s->points);
        if (e < 0)
                return e;
        s->n_rows = capo_fit_rows(s, o, s->cells, -1, s->points, s->rows);
        return capo_fit_check(s, o);
}

/* Of the clocks a class and collective was timed by, the one with most samples; the others cannot be compared. */
static uint64_t one_clock(struct capo_fit_item *items, size_t *n)
{
        size_t kept = 0;
        uint64_t dropped = 0;

        for (size_t i = 0, k; i < *n; i = k) { /* key = class and call, above the clock */
                size_t best = i, best_n = 0;

                for (k = i; k < *n && items[k].key >> 8 == items[i].key >> 8;) {
                        size_t j = k;

                        while (j < *n && items[j].key == items[k].key)
                                j++;
                        if (j - k > best_n) {
                                best = k;
                                best_n = j - k;
                        }
                        k = j;
                }
                dropped += k - i - best_n;
                memmove(&items[kept], &items[best], best_n * sizeof *items);
                kept += best_n;
        }
        *n = kept;
        return dropped;
}

int capo_fit_make(const struct capo_samples *set, const struct capo_fit_options *o, struct capo_fit **out,
                  struct capo_fault *fault)
{
        _cleanup_(capo_fit_freep) struct capo_fit *fit = calloc(1, sizeof *fit);
        _cleanup_free_ struct capo_fit_item *items = malloc((set->n + 1) * sizeof *items);
        _cleanup_free_ uint32_t *class_of = malloc((set->n_runs + 1) * sizeof *class_of);
        _cleanup_free_ uint32_t *like = malloc((set->n_runs + 1) * sizeof *like);
        _cleanup_free_ double *v = malloc((set->n + 1) * 2 * sizeof *v);
        struct capo_fit_maker m = {.set = set, .fit = fit, .v = v, .scratch = v + set->n};
        size_t n = 0;
        int e;

        fault->text[0] = 0;
        if (!fit || !items || !class_of || !like || !v || classes(set, class_of, like) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < set->n; i++) {
                const struct capo_sample *s = &set->v[i];
                unsigned call = s->call == CAPO_CALL_BCAST ? CAPO_CALL_BROADCAST : s->call;

                if (capo_coll_of_call(call) < 0 || set->runs[s->run].n_ranks < 2)
                        continue;
                items[n++] = (struct capo_fit_item){.key = (uint64_t)class_of[s->run] << 16 | call << 8 | s->make,
                                                    .bytes = s->bytes,
                                                    .run = s->run,
                                                    .order = s->order,
                                                    .us = s->us,
                                                    .candidate = candidate_of(s),
                                                    .place = s->place,
                                                    .ran = s->ran,
                                                    .ran_channels = s->ran_channels};
        }
        if (n == 0) {
                snprintf(fault->text, sizeof fault->text,
                         "no samples of a collective that a tuner decides (all-reduce, all-gather, reduce-scatter, "
                         "broadcast, "
                         "reduce)");
                return -ENODATA;
        }
        if (o->progress)
                o->progress("sorting", 0.1, o->user);
        qsort(items, n, sizeof *items, by_what);
        fit->n_other_clock = one_clock(items, &n);
        for (size_t i = 0, k; i < n; i = k) {
                struct capo_fit_series *s;

                for (k = i + 1; k < n && items[k].key == items[i].key; k++)
                        ;
                if (capo_array_room(&fit->series, (size_t)fit->n_series, sizeof *s) < 0)
                        return -ENOMEM;
                s = &fit->series[fit->n_series++];
                *s = (struct capo_fit_series){.like = set->runs[like[items[i].key >> 16]],
                                              .call = (uint8_t)(items[i].key >> 8),
                                              .make = (uint8_t)items[i].key};
                s->like.source = NULL;
                e = make_series(&m, s, &items[i], k - i, o, fault);
                if (e < 0)
                        return e;
                fit->n_samples += k - i;
                if (o->progress)
                        o->progress("fitting", (double)k / (double)n, o->user);
        }
        *out = steal(&fit);
        return 0;
}

void capo_fit_free(struct capo_fit *fit)
{
        if (!fit)
                return;
        for (int i = 0; i < fit->n_series; i++) {
                struct capo_fit_series *s = &fit->series[i];

                free(s->candidates);
                free(s->points);
                free(s->cells);
                free(s->rows);
                free(s->blocks);
        }
        free(fit->series);
        free(fit);
}

void capo_fit_freep(struct capo_fit **fit)
{
        capo_fit_free(*fit);
}
