/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs into a job. Rows come from the exact CELLs of each log; the single calls in BLOCKs are only
 * sampled, to see who comes late (analysis/job/skew.h). Memory grows with ranks and distinct calls,
 * not with the number of records.
 *
 *      job = capo_job_new();
 *      for each log: capo_job_add(job, log, NULL, NULL);
 *      capo_job_finish(job);      names, layouts, skew; then everything in analysis/job/job.h may
 *                                 be read
 *
 * The order of processes is the order of adding; communicators are ordered by size (largest first),
 * birth and uid; rows by communicator, call, bytes. So the same files give the same answer.
 */
#ifndef CAPO_STATS_H
#define CAPO_STATS_H

#include "analysis/job/job.h"

/**
 * capo_job_add() - read one log into the job
 * @log: at its first frame: a file (capo_log_open()) or the memory of a living process
 *       (capo_live_log_open()). Taken over in any case: the job keeps it open for capo_job_log()
 * @progress: called now and then with bytes read of this log; may be NULL
 *
 * A log that breaks off or is damaged is used as far as it goes: its process' health and read_error
 * tell.
 *
 * Return: 0; -ENOMEM.
 */
int capo_job_add(struct capo_job *job, struct capo_log *log,
                 void (*progress)(uint64_t bytes, void *arg), void *arg);

/**
 * capo_job_add_log() - the same by the path of a log
 * @why: as capo_log_open(), when the log could not be used at all
 *
 * Return: 0; what capo_log_open() returned; -ENOMEM.
 */
int capo_job_add_log(struct capo_job *job, const char *path, char *why, size_t why_size,
                     void (*progress)(uint64_t bytes, void *arg), void *arg);

/** capo_job_finish() - see above. Once, after the last log. Return: 0, -ENOMEM. */
int capo_job_finish(struct capo_job *job);

#endif
