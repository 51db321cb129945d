/* SPDX-License-Identifier: Apache-2.0 */
/* When each rank started a call. */
#pragma once

#include "analysis/job/clocks.h"

/** capo_comm_has_one_clock() - do all its members have the clock of one host? */
bool capo_comm_has_one_clock(const struct capo_job *job, uint32_t comm);

/** skew_row_tells() - fill @to with the start times of all members in row @i, from the source
 * @from. False: not known for all. */
bool skew_row_tells(const struct capo_clocks *s, uint32_t comm, uint32_t i,
                    enum capo_skew_from from, double *to);

/** skew_row_starts() - the same, but prefers the waiting time that kernels reported to their
 * durations, which include the transfer. */
bool skew_row_starts(const struct capo_clocks *s, uint32_t comm, uint32_t i,
                     enum capo_skew_from from, double *to);
