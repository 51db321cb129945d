/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_CLI_JOB_H
#define CAPO_CLI_JOB_H

#include "analysis/job/stats.h"

/**
 * cli_job_load() - the recording in @path (a log, or what capo_log_find() makes of a folder),
 * finished
 *
 * A log that cannot be read is left out with a warning. Return: the job, for capo_job_free(); NULL
 * after the reason has been said.
 */
struct capo_job *cli_job_load(const char *path);

/** cli_job_load_paths() - the same of logs that were found in @path. */
struct capo_log_paths;
struct capo_job *cli_job_load_paths(const char *path, struct capo_log_paths *paths);

#endif
