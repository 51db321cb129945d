/* SPDX-License-Identifier: Apache-2.0 */
/* What a job's trials say of the rows of its profile (tuner/trial.h), and the profile that follows.
 */
#ifndef CAPO_FIT_TRIAL_H
#define CAPO_FIT_TRIAL_H

#include "profiles/fit/fit.h"

enum capo_trial_verdict {
        CAPO_TRIAL_OPEN,   /* not decided yet: too few calls, or too alike */
        CAPO_TRIAL_FASTER, /* the row is, with 99 % confidence */
        CAPO_TRIAL_NO_GAIN /* it is slower, or saves less than a row must */
};

/* One row at one size that was measured. */
struct capo_trial_found {
        uint32_t row; /* of the profile */
        uint8_t call;
        int n_ranks;
        uint64_t bytes;
        uint32_t n_row, n_own;         /* calls that were timed */
        double own_us, row_us;         /* medians */
        double gain, gain_lo, gain_hi; /* share of the time that the row saves; 99 % interval */
        enum capo_trial_verdict verdict;
};

/** capo_trial_judge() - @candidate against NCCL's own choice at @point; row 0. Return: false when
 * one of them was not measured there. */
bool capo_trial_judge(const struct capo_fit_series *s, int point, int candidate,
                      struct capo_trial_found *out);

/**
 * capo_fit_trials() - compare each row of @profile with NCCL's own choice
 * @fit: of the logs of jobs with trials of @profile: both were timed in the same run, in turn
 * @found: malloc'ed; by row and size
 *
 * A row and NCCL's choice ran in turn in one job, so only what varies within it counts.
 * Return: how many; -ENOMEM.
 */
int capo_fit_trials(const struct capo_fit *fit, const struct capo_profile *profile,
                    struct capo_trial_found **found);

/**
 * capo_trial_apply() - @profile with what was found
 * @out: an empty profile: rules that have a decided row become measured ones. Sizes where the row
 * is faster keep it, with its evidence; where it has no gain, NCCL's choice is left; others stay
 * predicted. Rules without any are copied.
 *
 * Return: rows that changed; -ENOMEM.
 */
int capo_trial_apply(const struct capo_profile *profile, const struct capo_trial_found *found,
                     int n_found, struct capo_profile *out);

#endif
