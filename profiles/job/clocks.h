/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One clock for all ranks of a job, made from the calls themselves: no rank can finish an all-reduce before every rank
 * has started it. With GPU times each such call bounds the offset of two hosts' clocks from above and from below; over
 * the job the bounds leave a band for a straight line (offset and drift), whose middle is taken and whose half width is
 * the uncertainty stated. Host times alone bound nothing (the call returns before the transfer); then the hosts' own
 * real-time clocks are used, and the result says that it is not aligned.
 */
#ifndef CAPO_CLOCKS_H
#define CAPO_CLOCKS_H

#include "profiles/job/job.h"
#include "profiles/job/meet.h"

/* How times of a process become ns on its host's real-time clock, less job->t_begin_ns. */
struct capo_process_clock {
        double offset, scale;
};

/* Correction of one host's clock, added to its times: a + b t. */
struct capo_host_clock {
        double a, b, uncertain; /* uncertain < 0: not aligned */
};

struct capo_clocks {
        const struct capo_job *job;
        struct capo_meet *const *meets;       /* one per job->comms, entries may be NULL */
        struct capo_process_clock *processes; /* n_processes */
        struct capo_host_clock *hosts;        /* n_clocks */
        double uncertain_ns;                  /* the worst of hosts; 0: one clock; < 0: one is not aligned */
};

/** capo_clocks_make() - align the clocks of a job whose processes are placed and whose members are by rank; refers to
 * @job and @meets. Return: 0; -ENOMEM. */
int capo_clocks_make(struct capo_clocks *c, const struct capo_job *job, struct capo_meet *const *meets);
void capo_clocks_finish(struct capo_clocks *c);

/** capo_clocks_ns() - @t of a log (ns since its epoch) on the clock common to all, ns since the job began. */
double capo_clocks_ns(const struct capo_clocks *c, uint32_t process, uint64_t t);

#endif
