/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which logs are of one job, by what they say: the communicators that they share, their ranks, when
 * they ran. Folders say little: two jobs may write into one, and each rank of a job into its own.
 */
#ifndef CAPO_LOG_JOBS_H
#define CAPO_LOG_JOBS_H

#include <stdint.h>

#include "analysis/log/log_paths.h"

/* The job of a log that cannot be read: it may be of any. */
#define CAPO_LOG_NO_JOB UINT32_MAX

struct capo_log_job {
        uint64_t begin_ns; /* its first log, ns since 1970 */
        uint64_t end_ns;   /* the latest time that a look at its logs came by */
        uint32_t n_logs;
};

/**
 * capo_log_jobs() - number the jobs of @paths by their beginning, the oldest 0
 * @paths: their logs are opened, and stay so
 * @job:   filled with a number for each path, or CAPO_LOG_NO_JOB
 * @jobs:  set to one item per job; free() it
 *
 * Logs that share a communicator are of one job. Those that do not, say ranks of a job without a
 * communicator of all, are when they ran at the same time, no rank is there twice and what the
 * launcher told (job, number of ranks) agrees; in different folders only when it did tell.
 *
 * Return: how many jobs; -ENOMEM.
 */
int capo_log_jobs(struct capo_log_paths *paths, uint32_t *job, struct capo_log_job **jobs);

#endif
