/* SPDX-License-Identifier: Apache-2.0 */
/* capo run --allow-predicted and --guard: before a job starts, results of earlier trials are added
 * to the profile. Nothing is decided while a job runs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** run_trial_text() - value of CAPO_TRIAL for a job: @mode predicted, guard or ""; @budget: percent
 * of the calls. Returns @text. */
char *run_trial_text(const char *mode, double budget, char *text, size_t room);

enum { RUN_TRIAL_KEY = 128 };

/** run_trial_learn() - read the logs of ended jobs that tried the profile @path, and join what they
 * found
 * @path: the profile for this job; replaced by the one with the verdicts, if there are any
 * @key: of @path as it came, for run_trial_note(); "": nothing is kept
 *
 * One process at a time; if each rank has its own capo run, none does it. A failure is a warning:
 * the job then uses the profile as it is. */
void run_trial_learn(char *path, size_t room, char key[RUN_TRIAL_KEY]);

/** run_trial_one_rank() - does each rank have its own capo run? Then they would not all see the same
 * verdicts, and nothing is kept. */
bool run_trial_one_rank(void);

/** run_trial_empty() - did jobs try the profile of @key, and compare nothing? @now: note that one did. */
bool run_trial_empty(const char *key, bool now);

/** run_trial_store() - keep @profile as "tried/NAME.json"; a file with the same content stays. Return:
 * 0 with @path set; negative errno. */
struct capo_profile;
int run_trial_store(const struct capo_profile *profile, const char *name, char *path, size_t room);

/** run_trial_note() - note for a later capo run that this job tries the profile of @key and logs to
 * @dir. */
void run_trial_note(const char *dir, const char *key);
