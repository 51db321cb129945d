/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates a job's trials of the rows of its profile (tuner/trial.h), and makes the next profile
 * from them. */
#ifndef CAPO_FIT_TRIAL_H
#define CAPO_FIT_TRIAL_H

#include "profiles/fit/fit.h"

enum capo_trial_verdict {
        CAPO_TRIAL_OPEN,   /* not decided yet: too few calls, or too alike */
        CAPO_TRIAL_FASTER, /* the row is, with 99 % confidence */
        CAPO_TRIAL_NO_GAIN /* it is slower, or saves less than a row must */
};

/* One row at one measured size. */
struct capo_trial_found {
        uint32_t row; /* of the profile */
        uint8_t call;
        int n_ranks;
        uint64_t bytes;
        uint32_t n_row, n_own;         /* timed calls */
        double own_us, row_us;         /* medians */
        double gain, gain_lo, gain_hi; /* share of the time that the row saves; 99 % interval */
        enum capo_trial_verdict verdict;
};

/** capo_trial_judge() - compare @candidate with NCCL's own choice at @point; out->row is 0. Return:
 * false: one of them was not measured there. */
bool capo_trial_judge(const struct capo_fit_series *s, int point, int candidate,
                      struct capo_trial_found *out);

/**
 * capo_fit_trials() - compare each row of @profile with NCCL's own choice
 * @fit: from logs of jobs with trials of @profile
 * @found: set to an array sorted by row and size; free() it
 *
 * A row and NCCL's choice alternate within a job, so only the variation within the run counts.
 * Return: how many; -ENOMEM.
 */
int capo_fit_trials(const struct capo_fit *fit, const struct capo_profile *profile,
                    struct capo_trial_found **found);

/**
 * capo_trial_apply() - @profile with the results applied
 * @out: an empty profile. Rules with a decided row become measured ones: sizes where the row is
 * faster keep it, with its evidence; where it has no gain, NCCL's choice is left; others stay
 * predicted. Other rules are copied.
 *
 * Return: number of changed rows; -ENOMEM.
 */
int capo_trial_apply(const struct capo_profile *profile, const struct capo_trial_found *found,
                     int n_found, struct capo_profile *out);

/* How much less or more time the row takes, all positive where the interval does not span 0. */
struct capo_trial_change {
        double percent, lo, hi;
        const char *word; /* "less time", "more time" */
};

struct capo_trial_change capo_trial_change(const struct capo_trial_found *f);

#endif
