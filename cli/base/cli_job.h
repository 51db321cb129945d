/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "analysis/job/stats.h"

/** cli_job_load() - load and finish the recording in @path (a log, or a folder as for
 * capo_log_find()). A log that cannot be read is left out with a warning. Return: the job, for
 * capo_job_free(); NULL after printing the reason. */
struct capo_job *cli_job_load(const char *path);

/** cli_job_load_paths() - the same for logs that were found in @path. */
struct capo_log_paths;
struct capo_job *cli_job_load_paths(const char *path, struct capo_log_paths *paths);
