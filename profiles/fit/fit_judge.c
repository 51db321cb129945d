/* SPDX-License-Identifier: Apache-2.0 */
/* What a person should know of a series: why each size was written or left, and what would help
 * most. */

#include "profiles/fit/fit_private.h"

const char *capo_fit_verdict_text(enum capo_fit_verdict verdict)
{
        static const char *const texts[] = {
                [CAPO_FIT_WRITTEN] = "yes",
                [CAPO_FIT_WRITTEN_COVERED] = "yes (NCCL's is one of these)",
                [CAPO_FIT_WRITTEN_UNCHECKED] = "yes (NCCL's not measured)",
                [CAPO_FIT_LEFT] = "left to NCCL",
                [CAPO_FIT_LEFT_SMALL] = "left to NCCL (gain too small)",
                [CAPO_FIT_LEFT_NOISE] = "left to NCCL (within noise)",
                [CAPO_FIT_NO_NAME] = "no: what ran is not fully recorded",
                [CAPO_FIT_TOO_GOOD] = "no: more than 80 % is a fault of the measurement",
                [CAPO_FIT_TOO_GOOD_ONCE] = "no: one run of NCCL's choice, and slow here or beside",
                [CAPO_FIT_BEYOND_LINKS] = "no: more than the links can carry",
                [CAPO_FIT_SAME_EVERYWHERE] =
                        "no: the same at all sizes: a slow run of NCCL's choice",
                [CAPO_FIT_NO_DEFAULT] = "no: NCCL's own choice was not measured",
        };

        return texts[verdict];
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
                return CAPO_FIT_NO_NAME;
        if (!s->covered && !capo_fit_cell_of(s, p, 0)->n_blocks)
                return CAPO_FIT_NO_DEFAULT;
        if (q->refused)
                return q->refused;
        return q->gain < o->min_gain ? CAPO_FIT_LEFT_SMALL : CAPO_FIT_LEFT_NOISE;
}

static bool point_undecided(const struct capo_fit_series *s, int p, int candidate)
{
        return p >= 0 && p < s->n_points && s->points[p].chosen == 0 &&
               s->points[p].best == candidate;
}

static struct capo_fit_next suggest_next(const struct capo_fit_series *s,
                                         const struct capo_fit_options *o)
{
        struct capo_fit_next next = {.what = CAPO_FIT_NEXT_NOTHING, .gain = o->min_gain};

        if (!s->has_default && !s->covered)
                return (struct capo_fit_next){.what = CAPO_FIT_NEXT_DEFAULT};
        if (s->n_candidates == 1)
                return (struct capo_fit_next){.what = CAPO_FIT_NEXT_OTHERS};
        for (int p = 0; p < s->n_points; p++) {
                const struct capo_fit_point *q = &s->points[p];

                if (q->chosen == 0 && !q->refused && !best_is_nccls(s, p) &&
                    q->gain_hi > next.gain && q->gain >= o->min_gain)
                        next = (struct capo_fit_next){CAPO_FIT_NEXT_CANDIDATE, q->best, p, p,
                                                      q->gain_hi};
        }
        if (next.what == CAPO_FIT_NEXT_NOTHING && s->one_run)
                next.what = CAPO_FIT_NEXT_AGAIN;
        if (next.what == CAPO_FIT_NEXT_CANDIDATE) {
                if (s->has_default && s->points[next.first].default_runs < 2)
                        next.what = CAPO_FIT_NEXT_DEFAULT_AGAIN;
                while (point_undecided(s, next.first - 1, next.candidate))
                        next.first--;
                while (point_undecided(s, next.last + 1, next.candidate))
                        next.last++;
        }
        return next;
}

void capo_fit_judge(struct capo_fit_series *s, const struct capo_fit_options *o)
{
        for (int p = 0; p < s->n_points; p++) {
                s->points[p].shown = s->points[p].chosen > 0 ? s->points[p].chosen
                                     : best_is_nccls(s, p)   ? 0
                                                             : s->points[p].best;
                s->points[p].verdict = point_verdict(s, o, p);
        }
        s->next = suggest_next(s, o);
}
