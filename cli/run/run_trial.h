/* SPDX-License-Identifier: Apache-2.0 */
/* capo run --allow-predicted and --guard: before the job, what earlier jobs have tried becomes part
 * of the profile; nothing is concluded while a job runs. */
#ifndef CAPO_RUN_TRIAL_H
#define CAPO_RUN_TRIAL_H

#include <stddef.h>

/** run_trial_text() - CAPO_TRIAL of a job: @mode predicted, guard or ""; @budget: percent of the
 * calls. Returns @text. */
char *run_trial_text(const char *mode, double budget, char *text, size_t room);

/**
 * run_trial_learn() - fit what earlier jobs tried of the profile @path into the user's folder
 * @asked: the profile as the user named it
 * @path: the profile that this job is to use; replaced by the user's profile of that name, where
 *        there is one now and @path is no file that the user named
 *
 * One process at a time; of a job whose ranks each have a capo run of their own none does it. A
 * failure is a warning: the job then runs with the profile as it is.
 */
void run_trial_learn(const char *asked, char *path, size_t room);

/** run_trial_note() - this job tries the profile @path, and logs to @dir: for a later capo run. */
void run_trial_note(const char *dir, const char *path);

#endif
