/* SPDX-License-Identifier: Apache-2.0 */
/* Which logs somebody means who names files and folders on a command line. */
#ifndef CAPO_LOG_FIND_H
#define CAPO_LOG_FIND_H

#include "analysis/log/log_paths.h"

/**
 * capo_log_find() - files as they are; a folder stands for the newest job in it
 * @out: filled from empty; capo_log_paths_finish() it in any case
 *
 * A folder has logs (*.capo) or folders of logs (capo-logs/). Which of them are of one job
 * analysis/log/live_jobs.h finds out: a folder may hold several, and the ranks of one may be in
 * several folders. One line says what else there is. FOLDER@N is its Nth job, the oldest first.
 * Logs that cannot be read come with any job. A log that is there twice is taken once, and a line
 * says so. A folder without any logs adds nothing but itself to out->folder.
 *
 * Return: 0; -ENOMEM; -errno with @why: "PATH: cause".
 */
int capo_log_find(char *const *args, size_t n_args, struct capo_log_paths *out, char *why,
                  size_t why_size);

/**
 * capo_log_find_jobs() - every job in @folder, the oldest first, as FOLDER@N counts
 * @jobs: set to *n_jobs items, in any case: capo_log_paths_finish() each and free() it. None when
 * @folder is no folder.
 *
 * Return: 0 or -errno.
 */
int capo_log_find_jobs(const char *folder, struct capo_log_paths **jobs, size_t *n_jobs);

#endif
