/* SPDX-License-Identifier: Apache-2.0 */
/* capo run --allow-predicted and --guard: before a job starts, results of earlier trials are added
 * to the profile. Nothing is decided while a job runs. */
#ifndef CAPO_RUN_TRIAL_H
#define CAPO_RUN_TRIAL_H

#include <stddef.h>

/** run_trial_text() - value of CAPO_TRIAL for a job: @mode predicted, guard or ""; @budget: percent
 * of the calls. Returns @text. */
char *run_trial_text(const char *mode, double budget, char *text, size_t room);

/**
 * run_trial_learn() - fit the trials of earlier jobs with the profile @path, and write the result
 * to the user's folder
 * @asked: the profile as the user named it
 * @path: the profile for this job; replaced by the user's profile of that name, if there is one now
 * and @path is no file that the user named
 *
 * One process at a time; if each rank has its own capo run, none does it. A failure is a warning:
 * the job then uses the profile as it is.
 */
void run_trial_learn(const char *asked, char *path, size_t room);

/** run_trial_note() - note for a later capo run that this job tries the profile @path and logs to
 * @dir. */
void run_trial_note(const char *dir, const char *path);

#endif
