/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates a job's trials of the rows of its profile (tuner/trial.h), and makes the next profile
 * from them. */
#pragma once

#include "profiles/fit/fit.h"

enum capo_trial_verdict {
        CAPO_TRIAL_OPEN,   /* not decided yet: too few calls, or too alike */
        CAPO_TRIAL_FASTER, /* the row is, with 99 % confidence */
        CAPO_TRIAL_NO_GAIN /* it is slower, with 99 % confidence; a row that is alike stays open */
};

/* One row at one measured size. */
struct capo_trial_found {
        uint32_t row; /* of the profile */
        uint8_t call;
        int n_ranks;
        uint64_t bytes;
        int n_jobs;
        uint32_t n_row, n_own; /* timed calls */
        double own_us, row_us; /* a median, and that changed; of several jobs the newest */
        double change, se;     /* ln(row_us / own_us), and its standard error */
        double doubt; /* by how much `change` may be wrong besides: calls after a turn are slower */
        double gain, gain_lo, gain_hi; /* share of the time that the row saves; 99 % interval */
        double step_change, step_se;   /* what one call by the row adds to its step, as a share of
                                        own_us; step_se 0: not known */
        enum capo_trial_verdict verdict;
        bool by_step; /* the verdict */
};

/** capo_trial_judge() - compare @candidate with NCCL's own choice at @point, within one job;
 * out->row is 0. Return: false: one of them was not measured there, or they are the same. */
bool capo_trial_judge(const struct capo_samples *set, const struct capo_fit_series *s, int point,
                      int candidate, struct capo_trial_found *out);

/** capo_fit_trials() - compare each row of @profile with NCCL's own choice
 * @fit: of @set, which is from logs of jobs with trials of @profile
 * @found: set to an array sorted by row and size; free() it
 *
 * Each call is compared with those around it. Return: how many. */
int capo_fit_trials(const struct capo_samples *set, const struct capo_fit *fit,
                    const struct capo_profile *profile, struct capo_trial_found **found);

struct capo_job_steps;

/** capo_trial_steps() - judge also by the steps of the job
 * @steps: of @job. If steps are not certain, nothing changes
 *
 * A faster call may take more of the GPU from other kernels, so a step can get longer by it. Steps
 * in which a call had its turn are compared with those around them. If they are longer or shorter with 99
 * % confidence, this decides. Else the calls do, unless steps contradict them. */
void capo_trial_steps(const struct capo_job *job, const struct capo_job_steps *steps,
                      struct capo_trial_found *found, int n);

/** capo_trial_captured() - how many calls by a row of the profile one rank captured into CUDA
 * graphs: nothing times them, so they are not judged. */
uint64_t capo_trial_captured(const struct capo_job *job);

/** capo_trial_by_text() - "by the calls' own times", or by how much steps change, of a verdict.
 * Returns @text. */
char *capo_trial_by_text(const struct capo_trial_found *f, char *text, size_t room);

/** capo_trial_pool() - join what several jobs found, each by itself
 * @found: of all jobs, the oldest first; afterwards once per row and size
 *
 * Only differences within a job are joined: jobs differ in their nodes and their neighbours. The
 * spread between jobs counts, and CAPO_TRIAL_JOB_SPREAD where it is not known.
 *
 * Return: how many are left. */
int capo_trial_pool(struct capo_trial_found *found, int n);
#define CAPO_TRIAL_JOB_SPREAD 0.01 /* of ln us: the least standard deviation between jobs */

/** capo_trial_apply() - @profile with the results applied
 * @out: an empty profile. Rules with a decided row become measured ones: where the row is faster it
 * stays, with its evidence; where it has no gain, NCCL's choice is left. A verdict holds
 * for the sizes of the row two doublings around; a size where another one was reached, or none in
 * spite of enough calls, has its own part, to the middle between the sizes. Other rules are copied.
 *
 * Return: number of changed rows; -ENOMEM. */
int capo_trial_apply(const struct capo_profile *profile, const struct capo_trial_found *found,
                     int n_found, struct capo_profile *out);

/* How much less or more time the row takes, all positive where the interval does not span 0. */
struct capo_trial_change {
        double percent, lo, hi;
        const char *word; /* "less time", "more time" */
};

struct capo_trial_change capo_trial_change(const struct capo_trial_found *f);
