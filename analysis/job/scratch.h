/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a job needs only while logs are added. */
#pragma once

#include "analysis/job/meet.h"

struct capo_job;

/* Open addressing: hash -> 1 + index in the job's array. */
struct job_index {
        struct job_index_slot {
                uint64_t hash;
                uint32_t number;
        } * slots;
        uint32_t n, n_slots; /* n_slots: power of two, at most half full */
};

struct job_scratch {
        struct job_index rows, sites, comms, failures, texts;
        char **text; /* each once: keys and values of INFO, hosts */
        uint32_t n_texts;
        struct capo_meet **meets; /* one per job->comms; NULL: no call seen yet, or one rank only */
        uint64_t meet_bytes;      /* memory that they take */
        struct capo_job_use *uses; /* sorted by process, communicator, member */
        uint32_t *first_use;   /* index of the first use of each process, and one past the last */
        struct reading *spare; /* tables of the log before, to be used again: they are large and
                                  nearly empty (analysis/job/reading.h) */
};

/** job_list_uses() - fill uses and first_use; after the last change of members. */
void job_list_uses(struct capo_job *job);

/** job_reading_free() - frees the spare one. @rd may be NULL. */
void job_reading_free(struct reading *rd);
