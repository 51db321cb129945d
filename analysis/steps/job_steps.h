/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a recorded job. They are found in the single calls in the log of one rank
 * (analysis/steps/steps.h), compared with those of a few other ranks, and counted over the whole
 * job from the exact counts of calls. The slowest ones are examined on all ranks.
 *
 * A log keeps the last 16,384 calls of a process unless it was recorded with --trace all: earlier
 * steps are only counted. */
#pragma once

#include "analysis/job/job.h"
#include "analysis/steps/steps.h"

enum { CAPO_SLOW_STEPS = 5 };

/* One of the slowest steps. */
struct capo_slow_step {
        uint32_t number; /* index in steps.step */
        double at_s;     /* after the job's start */
        uint64_t ns;
        bool known;       /* the next three fields are valid */
        uint32_t process; /* that most of the waiting is for; UINT32_MAX: none stands out */
        double held_ns;   /* how long the others waited for it: mean over them */
        uint32_t calls;   /* number of calls compared */
};

struct capo_job_steps {
        struct capo_steps steps;      /* of the rank `process` */
        struct capo_step_call *calls; /* of that rank; comm: 1 + index in job->comms, 0: none */
        uint32_t process;
        uint32_t asked, agree; /* ranks examined; those with steps of the same length */
        bool whole;            /* the log has all calls of that rank */
        uint64_t total;        /* steps of the whole job, from the counts of calls; 0 not known */
        double nccl_share; /* of plain steps with a call on the GPU; < 0: none was timed there */
        bool ran_ahead; /* the hosts made calls so far ahead of the GPUs that steps are not known */
        double wait_share; /* waiting for late ranks, mean over ranks; < 0: not known */
        struct capo_slow_step slow[CAPO_SLOW_STEPS]; /* much longer than others, longest first */
        uint32_t n_slow;
};

/** capo_job_steps() - the steps of a finished job. If steps.known is NONE, steps.why is the reason.
 * part[].comm is an index in job->comms, or CAPO_NO_COMM. Call capo_job_steps_finish(). */
void capo_job_steps(const struct capo_job *job, struct capo_job_steps *out);
void capo_job_steps_finish(struct capo_job_steps *s);

/** capo_job_step_number() - the number of steps.step[@i] on pages: from 1 in the whole job if the
 * total is known, else among the steps seen. */
static inline uint64_t capo_job_step_number(const struct capo_job_steps *s, uint32_t i)
{
        return (s->whole || s->total < s->steps.n ? 0 : s->total - s->steps.n) + i + 1;
}
