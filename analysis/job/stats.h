/* SPDX-License-Identifier: Apache-2.0 */
/* Adds logs to a job. Rows come from the exact CELLs of each log; the single calls in BLOCKs are
 * only sampled, to find ranks that come late (analysis/job/skew.h). Memory grows with ranks and
 * distinct calls, not with the number of records.
 *
 *      job = capo_job_new();
 *      for each log: capo_job_add(job, log);
 *      capo_job_finish(job);      names, layouts, skew; then analysis/job/job.h is valid
 *
 * Processes keep the order in which they were added. Communicators are sorted by size (largest
 * first), creation time and uid; rows by communicator, call, bytes. So the same files give the same
 * result. */
#pragma once

#include "analysis/job/job.h"

/** capo_job_add() - read one log into the job
 * @log: at its first frame: a file (capo_log_open()) or the memory of a live process
 * (capo_live_log_open()). The job owns it from now on in any case, and keeps it open for
 * capo_job_log()
 *
 * A damaged log is used as far as possible; its process's health and read_error tell. */
void capo_job_add(struct capo_job *job, struct capo_log *log);

/** capo_job_finish() - complete the job, once, after the last log. */
void capo_job_finish(struct capo_job *job);
