/* SPDX-License-Identifier: Apache-2.0 */
/* The logs of a job (of dead processes, or made by a look at living ones) as what capo_hang_judge()
 * asks for. */
#ifndef CAPO_HANG_READ_H
#define CAPO_HANG_READ_H

#include "analysis/hang/hang_life.h"
#include "analysis/hang/hang_verdict.h"
#include "analysis/job/job.h"

/**
 * capo_hang_read() - processes and communicators of @job in its order
 * @known:  enum capo_hang_known by process
 * @now_ns: since 1970, when any of them is alive; else the last sign of life of any counts
 *
 * A log that is not final tells all of the moment of its last HANG frame (core/log/hang_frame.h),
 * where no call was recorded after it: such a process counts as alive then, whatever became of it.
 * Left out of the communicators, as if they had no log: processes whose log is not final and of
 * which nothing else is known (@n_stale, may be NULL). Of processes that ended within half a second
 * of the last sign of life of the job the end is no cause: the moment before is judged.
 *
 * Return: 0; -ENOMEM; -errno of opening a log. capo_hang_job_finish() in any case. Names belong to
 * @job.
 */
int capo_hang_read(const struct capo_job *job, const uint8_t *known, uint64_t now_ns,
                   struct capo_hang_job *out, uint32_t *n_stale);
void capo_hang_job_finish(struct capo_hang_job *job);

#endif
