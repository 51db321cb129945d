/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank the others wait for. A call of a communicator has the same sequence number on all
 * ranks, so the logs can be compared call by call: which rank started last, and by how much. One
 * measure is used (docs/report.md): in each call the last rank is charged with the time between the
 * start of each other rank and its own, summed over the others. The rank with the largest sum over
 * the job is named.
 *
 * Where the GPU gave only durations, no clocks need to be aligned: such a call ends on all ranks at
 * about the same time, so its durations differ by what its starts do. For other times see
 * analysis/job/clocks.h. Calls that were not timed on the GPU of every rank are compared by host
 * start times, if these were seen to agree with the GPU times. */
#pragma once

#include "analysis/job/job.h"
#include "analysis/job/meet.h"

/** capo_skew_solve() - fill job->comms[].skew
 * @meets: one per job->comms, entries may be NULL; members[] must be sorted by rank */
void capo_skew_solve(struct capo_job *job, struct capo_meet *const *meets);
