/* SPDX-License-Identifier: Apache-2.0 */
/* When each rank started a call. */
#pragma once

#include "analysis/job/clocks.h"

/* A communicator of a job, its sample of calls and the clocks of its processes. */
struct skew_comm {
        const struct capo_clocks *clocks;
        const struct capo_job_comm *c;
        const struct capo_meet *m;
};

/** capo_comm_has_one_clock() - do all its members have the clock of one host? */
bool capo_comm_has_one_clock(const struct capo_job *job, const struct capo_job_comm *c);

/** skew_row_tells() - fill @to with the start times of all members in row @i, from the source
 * @from. False: not known for all. */
bool skew_row_tells(const struct skew_comm *of, uint32_t i, enum capo_skew_from from, double *to);

/** skew_row_starts() - the same, but prefers the waiting time that kernels reported to their
 * durations, which include the transfer. */
bool skew_row_starts(const struct skew_comm *of, uint32_t i, enum capo_skew_from from, double *to);
