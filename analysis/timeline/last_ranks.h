/* SPDX-License-Identifier: Apache-2.0 */
/* The rank that came last in each call timed on GPUs. No rank leaves such a call before all have
 * entered, so the rank with the shortest time came last, and the others waited for the difference.
 * It uses all calls in the logs; analysis/job/skew.h uses a sample. */
#pragma once

#include "analysis/job/job.h"
#include "analysis/job/meet.h"

struct capo_record;

enum { CAPO_IDS = 65536 }; /* communicators or sites of a process, at most */

struct capo_last_call {
        uint32_t least_ns; /* shortest time on the GPU */
        uint32_t last;     /* the process with that time */
        uint32_t high[2];  /* the two highest process numbers that timed the call */
        uint32_t n;        /* number of processes that timed it */
};

/* The calls of one communicator, numbers from @from on. */
struct capo_last_comm {
        struct capo_last_call *call;
        uint32_t from, n;
};

struct capo_last_ranks {
        struct capo_last_comm *comm; /* by index in job->comms */
        bool *by_order;              /* by process: some calls have a GPU duration but no begin */
        uint32_t n_comms;
};

/** capo_last_ranks_make() - from the logs of the processes that are @wanted. */
void capo_last_ranks_make(const struct capo_job *job, const bool *wanted,
                          struct capo_last_ranks *out);

/** capo_last_call() - collective @seq of job->comms[@comm]; NULL if fewer than two ranks timed it.
 */
const struct capo_last_call *capo_last_call(const struct capo_last_ranks *l, uint32_t comm,
                                            uint32_t seq);

/** capo_waited_ns() - how long the call of a rank waited on the GPU: as NCCL's kernel reported,
 * else from @last. */
uint64_t capo_waited_ns(const struct capo_last_call *last, const struct capo_record *r);

/** capo_is_joint() - is it a call that no rank leaves before all have entered? */
bool capo_is_joint(const struct capo_record *r);

/** capo_comms_of() - fill CAPO_IDS items: id in the process -> 1 + index in job->comms, and the
 * rank there. @ranks may be NULL. */
void capo_comms_of(const struct capo_job *job, uint32_t process, uint32_t *comms, int32_t *ranks);
