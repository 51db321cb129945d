/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for whom. The same call of a communicator has the same sequence number on every rank, so the logs of all
 * ranks can be laid side by side: who started it last, and by how much. A bounded sample is kept per communicator
 * (calls whose hashed number is below a limit that halves when the table is full), so memory does not grow with the
 * length of the job, and every rank keeps the same calls.
 *
 * Clocks of different hosts are aligned from the calls themselves: no rank can finish an all-reduce before every rank
 * has started it. With GPU times each such call bounds the offset of two hosts' clocks from above and from below; over
 * the job the bounds leave a band for a straight line (offset and drift), whose middle is taken and whose half width is
 * the uncertainty stated. Where a GPU's clock gave durations only, no clock needs aligning: such a call ends on all
 * ranks at about the same time, so the differences of its durations are the differences of its starts. Host times alone
 * bound nothing (the call returns before the transfer); then the hosts' own real-time clocks are used and the result
 * says that it is not aligned.
 */
#ifndef CAPO_SKEW_H
#define CAPO_SKEW_H

#include "profiles/job/stats.h"

/* One rank in the sampled calls of a communicator. */
struct capo_skew_rank {
        uint32_t last;      /* calls it started last */
        uint32_t seen;      /* calls it is in */
        double late_p50_ns; /* behind the first rank, median over calls */
        double wait_ns;     /* mean over calls: how long it waited for the last one */
};

/* Where the start times come from, best first. */
enum capo_skew_from {
        CAPO_SKEW_GPU_START,    /* start of the call on the GPU */
        CAPO_SKEW_GPU_DURATION, /* its duration there: it ends on all ranks together, so who is in it shortest came last
                                 */
        CAPO_SKEW_HOST_START,   /* the host's call: the enqueue */
};

struct capo_skew {
        uint32_t n_calls;      /* calls compared: those found on all ranks that left a log */
        uint32_t mismatched;   /* calls whose kind or size differed between ranks: not compared */
        uint32_t mismatch_seq; /* the first of them, 0 none */
        enum capo_skew_from from;
        double p50_ns, p95_ns, max_ns; /* last start minus first, over calls */
        double uncertain_ns;           /* of a difference between hosts; 0 on one host, < 0: clocks not aligned */
        uint32_t worst;                /* index of the member that comes last most often */
        double worst_p50_ns;           /* how far behind the first, in the calls where it was last */
        double worst_home_ns; /* there, behind the next rank of its own host, whose clock needs no alignment; 0: alone
                               */
        double others_p50_ns; /* spread of all but that one, in the same calls */
        double wait_share;    /* mean over ranks of the time spent waiting for the last, over the job's duration,
                                 scaled from the sample to all calls; < 0: not known (host times) */
        struct capo_skew_rank *ranks; /* n_members of the communicator */
};

/* The sample of one communicator while logs are read; NULL stands for an empty one. */
struct capo_meet;

/** capo_meet_new() - for a communicator of @n_ranks (2 or more). NULL: no memory. */
struct capo_meet *capo_meet_new(uint32_t n_ranks);
void capo_meet_free(struct capo_meet *meet);

/** capo_meet_limit() - wanted are calls whose capo_meet_hash(seq) <= limit; it falls as calls are added. */
uint32_t capo_meet_limit(const struct capo_meet *meet);

/* Multiples of the golden ratio: any limit takes calls evenly spread over the job, and not one in eight of every step.
 */
static inline uint32_t capo_meet_hash(uint32_t seq)
{
        return seq * 2654435769u;
}

/** capo_meet_add() - one call as @rank saw it: @r's times are ns since its log's epoch. Calls above the limit and ranks
 * out of range are ignored. Return: handle of the place for capo_meet_set_gpu(), -1 when not kept. */
int64_t capo_meet_add(struct capo_meet *meet, uint32_t rank, const struct capo_record *r);

/** capo_meet_set_gpu() - GPU times of a call that was timed as part of a group: the group's. Stale handles are ignored.
 */
void capo_meet_set_gpu(struct capo_meet *meet, int64_t handle, uint32_t seq, const struct capo_record *group);

/**
 * capo_skew_solve() - align the clocks and fill job->comms[].skew and job->clock_uncertain_ns
 * @meets: one per job->comms, entries may be NULL; members[] must be by rank
 * Return: 0, -ENOMEM.
 */
int capo_skew_solve(struct capo_job *job, struct capo_meet *const *meets);

void capo_skew_free(struct capo_skew *skew);

#endif
