/* SPDX-License-Identifier: Apache-2.0 */
/* For the reader of a fit: why each size was written or left, and which measurement would help
 * most. */

#include "core/base/xalloc.h"
#include "profiles/fit/fit_private.h"

static const struct {
        const char *word, *text;
} verdicts[CAPO_FIT_VERDICTS] = {
#define FIT_VERDICT(name, word, text) {word, text},
#include "profiles/fit/fit_verdicts.def"
};

const char *capo_fit_verdict_text(enum capo_fit_verdict verdict) { return verdicts[verdict].text; }

const char *capo_fit_verdict_word(enum capo_fit_verdict verdict) { return verdicts[verdict].word; }

static enum capo_fit_verdict point_verdict(const struct capo_fit_series *s,
                                           const struct capo_fit_options *o, int p)
{
        const struct capo_fit_point *q = &s->points[p];

        if (q->chosen > 0)
                return s->has_default ? CAPO_FIT_WRITTEN
                       : s->covered   ? CAPO_FIT_WRITTEN_COVERED
                                      : CAPO_FIT_WRITTEN_UNCHECKED;
        if (q->shown == 0)
                return CAPO_FIT_LEFT;
        if (!capo_fit_writable(&s->candidates[q->shown]))
                return s->candidates[q->shown].algo && !s->candidates[q->shown].proto
                               ? CAPO_FIT_NO_PROTO
                               : CAPO_FIT_NO_NAME;
        if (!s->covered && !capo_fit_cell_of(s, p, 0)->n_blocks)
                return CAPO_FIT_NO_DEFAULT;
        if (q->refused)
                return q->refused;
        return q->gain < o->min_gain ? CAPO_FIT_LEFT_SMALL
               : q->gain_lo > 0      ? CAPO_FIT_LEFT_HARM
                                     : CAPO_FIT_LEFT_NOISE;
}

/* What to measure at @p, if more runs may change the decision; else NOTHING. */
static int point_needs(const struct capo_fit_series *s, int p)
{
        switch (s->points[p].verdict) {
        case CAPO_FIT_LEFT_NOISE:
        case CAPO_FIT_LEFT_HARM:
        case CAPO_FIT_NO_NAME:
        case CAPO_FIT_NO_PROTO:
        case CAPO_FIT_ALONE: return CAPO_FIT_NEXT_CANDIDATE;
        case CAPO_FIT_ONCE:
        case CAPO_FIT_UNREPEATED:
        case CAPO_FIT_DISAGREE: return CAPO_FIT_NEXT_DEFAULT_AGAIN;
        case CAPO_FIT_NO_DEFAULT: return CAPO_FIT_NEXT_DEFAULT;
        default: return CAPO_FIT_NEXT_NOTHING;
        }
}

/* Value of the right decision at @q: mean of the positive part of the gain, which is normal around
 * the measured one. */
static double expected_gain(const struct capo_fit_point *q)
{
        double se = (q->gain_hi - q->gain_lo) / 2 / q->quantile, x;

        if (isnan(q->gain) || !(se > 0))
                return isnan(q->gain) ? 0 : fmax(0, q->gain);
        x = q->gain / se;
        return q->gain * 0.5 * erfc(-x * M_SQRT1_2) + se * exp(-x * x / 2) / sqrt(2 * M_PI);
}

/* Number of further runs until a gain as measured would be significant: the error falls with the
 * square root of the number. */
static int runs_missing(const struct capo_fit_series *s, int p)
{
        enum { MOST = 9 };
        const struct capo_fit_point *q = &s->points[p];
        const struct capo_fit_cell *cell = capo_fit_cell_of(s, p, q->shown);
        double se = (q->gain_hi - q->gain_lo) / 2 / q->quantile, ratio;
        double n = cell->n_runs ? cell->n_runs : 1;

        if (s->one_run) /* these also measure the noise between runs */
                return 2;
        if (isnan(q->gain) || q->gain <= 0)
                return MOST;
        ratio = fmax(q->quantile * se / q->gain, q->harm_quantile * se / (q->gain + CAPO_FIT_HARM));
        return (int)fmin(MOST, fmax(1, ceil(n * (ratio * ratio - 1))));
}

static void rank_next(struct capo_fit_series *s, const struct capo_fit_next *next)
{
        int k = CAPO_FIT_NEXTS - 1;
        double worth = next->gain * (next->last - next->first + 1);

        for (; k >= 0 && (s->next[k].what == CAPO_FIT_NEXT_NOTHING ||
                          s->next[k].gain * (s->next[k].last - s->next[k].first + 1) < worth);
             k--) {
                if (k + 1 < CAPO_FIT_NEXTS)
                        s->next[k + 1] = s->next[k];
        }
        if (k + 1 < CAPO_FIT_NEXTS)
                s->next[k + 1] = *next;
}

static void suggest_next(struct capo_fit_series *s, const struct capo_fit_options *o)
{
        int last = s->n_points - 1;

        memset(s->next, 0, sizeof s->next);
        if (!s->has_default && !s->covered) {
                s->next[0] = (struct capo_fit_next){CAPO_FIT_NEXT_DEFAULT, 0, 0, last, 2, NAN};
                return;
        }
        if (s->n_candidates == 1) {
                s->next[0] = (struct capo_fit_next){CAPO_FIT_NEXT_OTHERS, 0, 0, last, 2, NAN};
                return;
        }
        for (int p = 0, k; p <= last; p = k) {
                struct capo_fit_next next = {point_needs(s, p), s->points[p].shown, p, p, 1, 0};

                for (k = p; k <= last && point_needs(s, k) == (int)next.what &&
                            s->points[k].shown == next.candidate;
                     k++) {
                        int times = next.what == CAPO_FIT_NEXT_CANDIDATE ? runs_missing(s, k) : 1;

                        next.gain += expected_gain(&s->points[k]);
                        next.times = times > next.times ? times : next.times;
                        next.last = k;
                }
                next.gain /= next.last - next.first + 1;
                if (next.what != CAPO_FIT_NEXT_NOTHING && next.gain >= o->min_gain)
                        rank_next(s, &next);
                k = k == p ? p + 1 : k;
        }
}

void capo_fit_judge(struct capo_fit_series *s, const struct capo_fit_options *o)
{
        for (int p = 0; p < s->n_points; p++) {
                struct capo_fit_point *q = &s->points[p];

                q->shown = q->chosen > 0                                                 ? q->chosen
                           : q->best <= 0 || capo_fit_cell_of(s, p, q->best)->is_default ? 0
                                                                                         : q->best;
                q->verdict = point_verdict(s, o, p);
        }
        suggest_next(s, o);
}

/* Cross-validation of the decisions. If runs repeat, one run of each candidate is left out at a
 * time, the rest is fitted, and its decisions are timed by the run left out. If none repeat, one
 * size is left out at a time, and the rows from its neighbours are timed there.
 *
 * "Best" is the shortest time in the part left out, so even a perfect decision shows a small loss:
 * the noise of the best of several. */

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
        t->sum += 1 - best / row[c].us;
        s->regret.worst = fmax(s->regret.worst, 1 - best / row[c].us);
        if (!row[0].n_blocks)
                return;
        worse = c == 0 || row[c].is_default ? 0 : row[c].us / row[0].us - 1;
        t->n_default++;
        t->sum_default += 1 - best / row[0].us;
        if (isnan(s->regret.worst_default) || worse > s->regret.worst_default)
                s->regret.worst_default = worse;
        if (log1p(worse) > s->points[p].quantile * hypot(row[c].se, row[0].se))
                s->regret.n_worse++;
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
        const struct capo_fit_row *row;
        _cleanup_free_ bool *scored = xcalloc((size_t)s->n_points, sizeof *scored);
        struct tally t = {.s = s, .scored = scored};
        int folds = 0, again = 0, step;

        for (int i = 0; i < s->n_blocks; i++) {
                again += s->blocks[i].fold > 0;
                folds = s->blocks[i].fold + 1 > folds ? s->blocks[i].fold + 1 : folds;
        }
        if (again * 3 < s->n_blocks) /* runs count as repeated from a third of the blocks on */
                folds = 0;
        step = folds > 1 ? 1 : (s->n_points + MAX_PARTS - 1) / MAX_PARTS;
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
                capo_fit_rows(s, cells, p, points, rows); /* the last one has all larger sizes */
                for (row = rows; row->upto < s->points[p].bytes;)
                        row++;
                score_decision(&t, s->cells, p, row->chosen);
        }
        for (int p = 0; p < s->n_points; p++)
                s->regret.n_scored += scored[p];
        s->regret.n_unscored = (unsigned)s->n_points - s->regret.n_scored;
        if (s->regret.n)
                s->regret.mean = t.sum / s->regret.n;
        if (t.n_default)
                s->regret.mean_default = t.sum_default / t.n_default;
}
