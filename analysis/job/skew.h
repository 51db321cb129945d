/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for whom. The same call of a communicator has the same sequence number on every rank,
 * so the logs of all ranks can be laid side by side: who started it last, and by how much. There is
 * one measure of who holds the others up (docs/report.md): in each call the last rank is charged
 * with the sum, over the others, of the time between their start and its own; the rank that is
 * named has the largest sum over the job.
 *
 * Where a GPU's clock gave durations only, no clock needs aligning: such a call ends on all ranks
 * at about the same time, so the differences of its durations are the differences of its starts.
 * Else see analysis/job/clocks.h. Calls that were not timed on the GPU of every rank are compared
 * by the host's start, where that has been seen to tell the same.
 */
#ifndef CAPO_SKEW_H
#define CAPO_SKEW_H

#include "analysis/job/job.h"
#include "analysis/job/meet.h"

/**
 * capo_skew_solve() - fill job->comms[].skew
 * @meets: one per job->comms, entries may be NULL; members[] must be by rank
 * Return: 0, -ENOMEM.
 */
int capo_skew_solve(struct capo_job *job, struct capo_meet *const *meets);

#endif
