/* SPDX-License-Identifier: Apache-2.0 */
/* For the reader of a fit: why each size was written or left, and which measurement would help
 * most. */

#include <math.h>
#include <string.h>

#include "profiles/fit/fit_private.h"

const char *capo_fit_verdict_text(enum capo_fit_verdict verdict)
{
        static const char *const texts[CAPO_FIT_VERDICTS] = {
                [CAPO_FIT_WRITTEN] = "yes",
                [CAPO_FIT_WRITTEN_COVERED] = "yes (NCCL's is one of these)",
                [CAPO_FIT_WRITTEN_UNCHECKED] = "yes (NCCL's not measured)",
                [CAPO_FIT_LEFT] = "left to NCCL",
                [CAPO_FIT_LEFT_SMALL] = "left to NCCL (gain too small)",
                [CAPO_FIT_LEFT_NOISE] = "left to NCCL (may be noise)",
                [CAPO_FIT_LEFT_HARM] = "left to NCCL (too few runs to exclude a loss)",
                [CAPO_FIT_NO_PROTO] = "no: which protocol? add --proto simple, if it was",
                [CAPO_FIT_UNREPEATED] = "no: nothing repeats the time of NCCL's choice",
                [CAPO_FIT_NO_NAME] = "no: what ran is not fully recorded",
                [CAPO_FIT_TOO_GOOD] = "no: more than 80 % is mostly a fault; --force",
                [CAPO_FIT_ONCE] = "no: NCCL's choice has one run, which may be slow",
                [CAPO_FIT_DISAGREE] = "no: the runs of NCCL's choice disagree",
                [CAPO_FIT_BEYOND_LINKS] = "no: more than the links can carry",
                [CAPO_FIT_ALONE] = "no: one run, and its runs disagree beside",
                [CAPO_FIT_LABELS] = "no: the times contradict the labels",
                [CAPO_FIT_PLACE] = "no: slower in place or out of place",
                [CAPO_FIT_NO_DEFAULT] = "no: NCCL's own choice was not measured",
        };

        return texts[verdict];
}

const char *capo_fit_verdict_word(enum capo_fit_verdict verdict)
{
        static const char *const words[CAPO_FIT_VERDICTS] = {
                [CAPO_FIT_WRITTEN] = "written",
                [CAPO_FIT_WRITTEN_COVERED] = "written_covered",
                [CAPO_FIT_WRITTEN_UNCHECKED] = "written_unchecked",
                [CAPO_FIT_LEFT] = "nothing_faster",
                [CAPO_FIT_LEFT_SMALL] = "small",
                [CAPO_FIT_LEFT_NOISE] = "may_be_noise",
                [CAPO_FIT_LEFT_HARM] = "loss_not_excluded",
                [CAPO_FIT_NO_PROTO] = "protocol_not_recorded",
                [CAPO_FIT_UNREPEATED] = "own_choice_unrepeated",
                [CAPO_FIT_NO_NAME] = "not_recorded",
                [CAPO_FIT_TOO_GOOD] = "too_good",
                [CAPO_FIT_ONCE] = "own_choice_once",
                [CAPO_FIT_DISAGREE] = "own_runs_disagree",
                [CAPO_FIT_BEYOND_LINKS] = "beyond_links",
                [CAPO_FIT_ALONE] = "one_doubtful_run",
                [CAPO_FIT_LABELS] = "labels_contradicted",
                [CAPO_FIT_PLACE] = "one_place_slower",
                [CAPO_FIT_NO_DEFAULT] = "own_choice_missing",
        };

        return words[verdict];
}

static bool best_is_nccls(const struct capo_fit_series *s, int p)
{
        int best = s->points[p].best;

        return best <= 0 || capo_fit_cell_of(s, p, best)->is_default;
}

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
                s->points[p].shown = s->points[p].chosen > 0 ? s->points[p].chosen
                                     : best_is_nccls(s, p)   ? 0
                                                             : s->points[p].best;
                s->points[p].verdict = point_verdict(s, o, p);
        }
        suggest_next(s, o);
}
