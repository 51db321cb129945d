/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who came last in each call that the GPUs timed. Nobody leaves such a call before everybody has
 * come, so the rank that is in it shortest came last, and the others waited for it for the
 * difference. Of all calls that the logs keep, where analysis/job/skew.h looks at a sample.
 */
#ifndef CAPO_LAST_RANKS_H
#define CAPO_LAST_RANKS_H

#include "analysis/job/job.h"
#include "analysis/job/meet.h"
#include "capo/record.h"

enum { CAPO_IDS = 65536 }; /* communicators and sites that a process can have */

struct capo_last_call {
        uint32_t least_ns; /* on the GPU */
        uint32_t last;     /* that process */
        uint32_t high[2];  /* the highest two processes whose GPU timed it */
        uint32_t n;        /* how many such there are */
};

/* Those of one communicator, by number from @from on. */
struct capo_last_comm {
        struct capo_last_call *call;
        uint32_t from, n;
};

struct capo_last_ranks {
        struct capo_last_comm *comm; /* by job->comms */
        bool *by_order; /* by process: calls were timed of which the GPU did not tell the begin */
        uint32_t n_comms;
};

/** capo_last_ranks_make() - of the processes that are @wanted. Return: 0; -ENOMEM.
 * capo_last_ranks_finish() is due in both cases. */
int capo_last_ranks_make(const struct capo_job *job, const bool *wanted,
                         struct capo_last_ranks *out);
void capo_last_ranks_finish(struct capo_last_ranks *l);

/** capo_last_call() - collective @seq of job->comms[@comm], when at least two ranks have it; else
 * NULL. */
const struct capo_last_call *capo_last_call(const struct capo_last_ranks *l, uint32_t comm,
                                            uint32_t seq);

/** capo_waited_ns() - how long the call of a rank waited on the GPU: as NCCL's kernel told, else as
 * @last tells. */
static inline uint64_t capo_waited_ns(const struct capo_last_call *last,
                                      const struct capo_record *r)
{
        uint64_t waited = last && r->gpu_ns > last->least_ns ? r->gpu_ns - last->least_ns : 0;

        capo_record_waited(r, &waited);
        return waited < r->gpu_ns ? waited : r->gpu_ns;
}

/** capo_is_joint() - does nobody leave the call before everybody has come? */
static inline bool capo_is_joint(const struct capo_record *r)
{
        struct capo_meet_row row = {.call = r->call, .bytes = r->bytes};

        return capo_meet_is_barrier(&row);
}

/** capo_comms_of() - number in the process -> 1 + index in job->comms, and the rank there; of
 * CAPO_IDS. @ranks may be NULL. */
void capo_comms_of(const struct capo_job *job, uint32_t process, uint32_t *comms, int32_t *ranks);

#endif
