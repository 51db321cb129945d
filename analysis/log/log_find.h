/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the logs that a command line names. */
#pragma once

#include "analysis/log/log_paths.h"

/** capo_log_find() - files are taken as they are; a folder stands for its newest job
 * @out: filled from empty; capo_log_paths_finish() it in any case
 *
 * A folder holds logs (*.capo) or folders of logs (capo-logs/). analysis/log/live_jobs.h groups
 * them by job: a folder may hold several jobs, and the ranks of one job may be in several folders.
 * A printed line says what else was found. FOLDER@N is the Nth job, the oldest first. Unreadable
 * logs are added to any job. A duplicate log is used once, and a line says so. A folder without
 * logs is only added to out->folder.
 *
 * Return: 0; -errno with @why: "PATH: cause". */
int capo_log_find(char *const *args, size_t n_args, struct capo_log_paths *out, char *why,
                  size_t why_size);

/** capo_log_find_jobs() - all jobs in @folder, the oldest first, numbered as in FOLDER@N
 * @jobs: always set, to *n_jobs items: capo_log_paths_finish() each and free() it. None if @folder
 * is not a folder.
 *
 * Return: 0 or -errno. */
int capo_log_find_jobs(const char *folder, struct capo_log_paths **jobs, size_t *n_jobs);
