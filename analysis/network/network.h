/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of a job: what each rank moved over each NIC, and which collectives that was for.
 */
#ifndef CAPO_FABRIC_JOB_H
#define CAPO_FABRIC_JOB_H

#include "analysis/log/fabric_read.h"
#include "analysis/network/network_sums.h"
#include "analysis/job/stats.h"

/* One rank's use of one NIC (libfabric domain). */
struct capo_fabric_link {
        uint32_t process; /* index in job->processes */
        const struct capo_fabric_domain *domain;
        uint64_t ops, sent, received;
        bool received_exact; /* false: counted by the size of the posted buffers */
        uint32_t sharers;    /* ranks of the same host that moved data over the same NIC, this one
                                included */
        int gpu_numa; /* NUMA node of a GPU of this rank, one on the NIC's own node before others;
                         -1 not known */
        double load;  /* bytes over the mean of the job's used NICs; 0 when there is only one */
};

/** capo_fabric_link_near() - 1: the NIC is on the NUMA node of the rank's GPU (of one of its GPUs);
 * 0: it is not; -1: one of the two is not known. */
static inline int capo_fabric_link_near(const struct capo_fabric_link *l)
{
        return l->domain->numa < 0 || l->gpu_numa < 0 ? -1 : l->domain->numa == l->gpu_numa;
}

/* What of the network's traffic fell into the time of one kind of call, over all ranks. */
struct capo_fabric_share {
        uint32_t comm; /* index in job->comms; CAPO_NO_COMM: traffic outside every recorded call */
        uint8_t call;
        uint64_t calls;   /* on all ranks, with known times */
        uint64_t guessed; /* of them: when they were on the GPU follows from one that was not timed
                           */
        uint64_t own_ops, own_bytes; /* posted by the calling threads themselves, inside the call */
        double ops, sent, received;  /* by time: each window's traffic is divided among the calls it
                                        overlaps */
        double by_guess; /* bytes of both: moved when no call was under way but one can have been
                            that was not timed */
        double call_ns;  /* time in these calls */
};

struct capo_fabric_job {
        struct capo_fabric **process; /* by process; NULL where there was no libfabric */
        uint32_t n_processes;
        struct capo_fabric_link *links; /* by rank, most bytes first */
        size_t n_links;
        struct capo_fabric_share *shares; /* most bytes first */
        size_t n_shares;
        double window_ns; /* longest window used: how coarse "by time" is */
        bool placed;      /* of some calls it is recorded when they began on the GPU */
};

/**
 * capo_fabric_job_new() - gather what the logs of @job say about libfabric
 * @out: set only on success; refers to @job; NULL when no process used libfabric
 *
 * Reads the logs once more for the times of single calls, as far as they hold any (CAPO_TRACE=all:
 * every call; else the last of each process). When each was on the GPU is worked out from the order
 * of its stream (analysis/job/gpu_spans.h).
 *
 * Return: 0; -ENOMEM.
 */
int capo_fabric_job_new(const struct capo_job *job, struct capo_fabric_job **out);
void capo_fabric_job_free(struct capo_fabric_job *f);
static inline void capo_fabric_job_freep(struct capo_fabric_job **f)
{
        capo_fabric_job_free(*f);
}

/**
 * capo_fabric_job_warning() - the sentence a user must read: data went over the kernel's network
 * stack although the machine has InfiniBand, EFA or Slingshot devices Return: @text, or NULL when
 * there is nothing to warn of.
 */
const char *capo_fabric_job_warning(const struct capo_fabric_job *f, const struct capo_job *job,
                                    char *text, size_t room);

#endif
