/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When something in a log was, on the real-time clock of its host. All processes of a host share
 * its clock; clocks of different hosts are taken as they are, because nothing in a log bounds how
 * far they are apart: a host time is when a call was made, which says nothing about when other
 * ranks made theirs.
 */
#ifndef CAPO_CLOCKS_H
#define CAPO_CLOCKS_H

#include "analysis/job/job.h"
#include "analysis/job/meet.h"

/* How times of a process become ns on its host's real-time clock, less job->t_begin_ns. */
struct capo_process_clock {
        double offset, scale;
};

struct capo_clocks {
        const struct capo_job *job;
        struct capo_meet *const *meets;       /* one per job->comms, entries may be NULL */
        struct capo_process_clock *processes; /* n_processes */
};

/** capo_clocks_make() - of a job whose processes are placed and whose members are by rank; refers
 * to @job and @meets. Return: 0; -ENOMEM. */
int capo_clocks_make(struct capo_clocks *c, const struct capo_job *job,
                     struct capo_meet *const *meets);
void capo_clocks_finish(struct capo_clocks *c);

/** capo_clocks_ns() - @t of a log (ns since its epoch) on its host's clock, ns since the job began.
 */
double capo_clocks_ns(const struct capo_clocks *c, uint32_t process, uint64_t t);

#endif
