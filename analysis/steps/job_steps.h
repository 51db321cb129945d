/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a recorded job: found in the calls that the log of one rank holds one by one
 * (analysis/steps/steps.h), checked against a few other ranks, counted over the whole job by the
 * exact counts of their calls, and the slowest of them looked at on all ranks.
 *
 * A log keeps the last 16,384 calls of a process unless it was recorded with --trace all: steps
 * before these are counted, and nothing else is known of them.
 */
#ifndef CAPO_JOB_STEPS_H
#define CAPO_JOB_STEPS_H

#include "analysis/job/job.h"
#include "analysis/steps/steps.h"

enum { CAPO_SLOW_STEPS = 5 };

/* One of the slowest. */
struct capo_slow_step {
        uint32_t number; /* in steps.step */
        double at_s;     /* after the job's start */
        uint64_t ns;
        bool known;       /* who was late in it is known: */
        uint32_t process; /* most of the waiting in it is for this one; UINT32_MAX: nobody stands
                             out */
        double held_ns;   /* how long the others waited for it, mean over them */
        uint32_t calls;   /* compared */
};

struct capo_job_steps {
        struct capo_steps steps; /* of one rank: */
        uint32_t process;
        uint32_t asked, agree; /* ranks whose calls were looked at; of them, those whose steps are
                                  as long */
        bool whole;            /* the log has all calls of the rank */
        uint64_t total;        /* steps of the job, by the counts of calls; 0 not known */
        double nccl_share; /* of plain steps, with a call on the GPU; < 0: no call was timed there
                            */
        double wait_share; /* of the steps, waiting for late ranks, mean over ranks; < 0 not known
                            */
        struct capo_slow_step
                slow[CAPO_SLOW_STEPS]; /* longest first; those much longer than others */
        uint32_t n_slow;
};

/** capo_job_steps() - of a finished job. steps.known NONE: steps.why says why. part[].comm is an
 * index in job->comms, CAPO_NO_COMM. Return: 0; -ENOMEM. capo_job_steps_finish() is due. */
int capo_job_steps(const struct capo_job *job, struct capo_job_steps *out);
void capo_job_steps_finish(struct capo_job_steps *s);

/** capo_job_step_number() - the number that pages show for steps.step[@i]: from 1 in the whole job,
 * as far as the counts tell; else among those that are seen. */
static inline uint64_t capo_job_step_number(const struct capo_job_steps *s, uint32_t i)
{
        return (s->whole || s->total < s->steps.n ? 0 : s->total - s->steps.n) + i + 1;
}

#endif
