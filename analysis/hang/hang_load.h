/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the logs of a job (of dead processes, or copies of live processes' memory) to the input
 * of capo_hang_judge(). */
#pragma once

#include "analysis/hang/hang_verdict.h"
#include "analysis/job/job.h"

/* What is known of a process besides its log. It lives from CAPO_HANG_IS_ALIVE on. */
enum capo_hang_known {
        CAPO_HANG_BY_LOG,   /* nothing */
        CAPO_HANG_IS_DEAD,  /* its log has how and when it ended */
        CAPO_HANG_IS_ALIVE, /* it runs, and its log is current */
        CAPO_HANG_IS_STOPPED,
};

/** capo_hang_read() - processes and communicators of @job, in its order
 * @known: enum capo_hang_known, by process
 * @now_ns: ns since 1970 if any process runs; else the last time that any was alive is used
 *
 * If no call was recorded after the last HANG frame of an incomplete log (core/log/hang_frame.h),
 * that frame gives the complete state: the process counts as alive at that time, whatever happened
 * later. Other processes with an incomplete log and no other data are left out of the
 * communicators, as if they had no log; @n_stale (may be NULL) counts them. If processes ended
 * within half a second of the job's last sign of life, their end is no cause: the state before it
 * is judged.
 *
 * Return: 0; -errno of opening a log. Call capo_hang_job_finish() in any case. Names
 * belong to @job. */
int capo_hang_read(const struct capo_job *job, const uint8_t *known, uint64_t now_ns,
                   struct capo_hang_job *out, uint32_t *n_stale);
void capo_hang_job_finish(struct capo_hang_job *job);
