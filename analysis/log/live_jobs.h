/* SPDX-License-Identifier: Apache-2.0 */
/* Groups logs by job from their contents: shared communicators, ranks, times. Folders are not
 * enough: two jobs may write into one folder, and each rank of a job into its own. */
#pragma once

#include "analysis/log/log_paths.h"

/* Job number of an unreadable log: it may belong to any job. */
#define CAPO_LOG_NO_JOB UINT32_MAX

struct capo_log_job {
        uint64_t begin_ns; /* begin of its first log, ns since 1970 */
        uint64_t end_ns;   /* latest time that was read from its logs */
        uint32_t n_logs;
};

/** capo_log_jobs() - number the jobs among @paths by their begin, the oldest 0
 * @paths: their logs are opened, and stay open
 * @job: filled with a job number for each path, or CAPO_LOG_NO_JOB
 * @jobs: set to one item per job; free() it
 *
 * Logs that share a communicator belong to one job. Logs that share none (ranks of a job without a
 * common communicator) belong together if they ran at the same time, no rank occurs twice, and the
 * launcher's job id and number of ranks agree; in different folders only if the launcher set these.
 *
 * Return: how many jobs. */
int capo_log_jobs(struct capo_log_paths *paths, uint32_t *job, struct capo_log_job **jobs);
