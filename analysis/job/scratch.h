/* SPDX-License-Identifier: Apache-2.0 */
/* What a job needs while logs are added to it, and no longer. */
#ifndef CAPO_JOB_SCRATCH_H
#define CAPO_JOB_SCRATCH_H

#include "analysis/job/meet.h"

struct capo_job;

/* Open addressing: hash -> 1 + index in the job's array. */
struct job_index {
        uint32_t *slots;
        uint32_t n_slots; /* power of two, at most half full */
};

struct job_scratch {
        struct job_index rows, sites, comms, failures;
        struct capo_meet *
                *meets; /* one per job->comms; NULL: no call of it seen yet, or it has one rank */
        uint64_t meet_bytes;       /* that they take */
        struct capo_job_use *uses; /* by process, then communicator and member */
        uint32_t *first_use;       /* of each process, and one past the last */
        struct reading *spare;     /* of the log before: its tables are large and nearly empty.
                                      analysis/job/reading.h */
};

/** job_list_uses() - fill uses and first_use: after the last change of members. Return: 0, -ENOMEM.
 */
int job_list_uses(struct capo_job *job);

/** job_reading_free() - of the spare one, with the job. @rd may be NULL. */
void job_reading_free(struct reading *rd);

#endif
