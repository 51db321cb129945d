/* SPDX-License-Identifier: Apache-2.0 */
/* Converts times of a log to the real-time clock of its host. All processes of a host share its
 * clock. Clocks of different hosts are not corrected, because nothing in a log bounds how far they
 * are apart: a host time is when a call was made, which says nothing about when other ranks made
 * theirs. (stats_finish.c corrects those that are more than a minute apart.) */
#pragma once

#include "analysis/job/job.h"
#include "analysis/job/meet.h"

/* Process times t become offset + scale * t: ns on its host's real-time clock - job->t_begin_ns. */
struct capo_process_clock {
        double offset, scale;
};

struct capo_clocks {
        const struct capo_job *job;
        struct capo_meet *const *meets;       /* one per job->comms, entries may be NULL */
        struct capo_process_clock *processes; /* n_processes */
};

/** capo_clocks_make() - from a job whose processes have nodes and whose members are sorted by rank.
 * Keeps pointers to @job and @meets. */
void capo_clocks_make(struct capo_clocks *c, const struct capo_job *job,
                      struct capo_meet *const *meets);
void capo_clocks_finish(struct capo_clocks *c);

/** capo_clocks_ns() - @t (ns since the log's epoch) as ns since the job began, by its host's clock.
 */
double capo_clocks_ns(const struct capo_clocks *c, uint32_t process, uint64_t t);
