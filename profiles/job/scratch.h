/* SPDX-License-Identifier: Apache-2.0 */
/* What a job needs while logs are added to it, and no longer. */
#ifndef CAPO_JOB_SCRATCH_H
#define CAPO_JOB_SCRATCH_H

#include "profiles/job/meet.h"

/* Open addressing: hash -> 1 + index in the job's array. */
struct job_index {
        uint32_t *slots;
        uint32_t n_slots; /* power of two, at most half full */
};

struct job_scratch {
        struct job_index rows, sites;
        struct capo_meet **meets; /* one per job->comms; NULL: no call of it seen yet, or it has one rank */
};

#endif
