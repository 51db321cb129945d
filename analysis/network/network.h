/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a job: bytes of each rank over each NIC, and the collectives that they belong to.
 */
#pragma once

#include "analysis/log/fabric_read.h"
#include "analysis/job/stats.h"

/* One rank's use of one NIC (libfabric domain). */
struct capo_fabric_link {
        uint32_t process; /* index in job->processes */
        const struct capo_fabric_domain *domain;
        uint64_t ops, sent, received;
        bool received_exact; /* false: counted by the size of the posted buffers */
        uint32_t sharers;    /* ranks on the same host that used the same NIC, this one included */
        int gpu_numa; /* NUMA node of a GPU of this rank, the NIC's own if any; -1 not known */
        double load;  /* bytes over the mean of the job's used NICs; 0: only one NIC */
};

/** capo_fabric_link_near() - 1: the NIC is on a NUMA node of the rank's GPUs; 0; -1 not known. */
static inline int capo_fabric_link_near(const struct capo_fabric_link *l)
{
        return l->domain->numa < 0 || l->gpu_numa < 0 ? -1 : l->domain->numa == l->gpu_numa;
}

/* Network traffic during one kind of call, over all ranks. */
struct capo_fabric_share {
        uint32_t comm; /* index in job->comms; CAPO_NO_COMM: traffic outside of recorded calls */
        uint8_t call;
        uint64_t calls;   /* with known times, on all ranks */
        uint64_t guessed; /* of them: their time on the GPU is derived from an untimed call */
        uint64_t own_ops, own_bytes; /* posted by the calling threads themselves, inside the call */
        double ops, sent, received; /* estimated: calls share a window's traffic by their overlap */
        double by_guess; /* of these bytes: moved while only an untimed call may have run */
        double call_ns;  /* total time of these calls */
};

struct capo_fabric_job {
        struct capo_fabric **process; /* by process; NULL: no libfabric */
        uint32_t n_processes;
        struct capo_fabric_link *links; /* by rank, then most bytes first */
        size_t n_links;
        struct capo_fabric_share *shares; /* most bytes first */
        size_t n_shares;
        double window_ns; /* longest window used: the resolution of the estimate */
        bool placed;      /* for some calls the begin on the GPU is recorded */
};

/** capo_fabric_job_new() - collect what the logs of @job tell about libfabric
 *
 * Reads the logs once more for the times of single calls, if they have any (CAPO_TRACE=all: every
 * call; else the last ones of each process). analysis/job/gpu_spans.h derives when each was on the
 * GPU.
 *
 * Return: keeps a pointer to @job; NULL if no process used libfabric. */
struct capo_fabric_job *capo_fabric_job_new(const struct capo_job *job);
void capo_fabric_job_free(struct capo_fabric_job *f);
static inline void capo_fabric_job_freep(struct capo_fabric_job **f) { capo_fabric_job_free(*f); }

/** capo_fabric_job_warning() - a sentence for the user: data went through the kernel's network
 * stack although the machine has InfiniBand, EFA or Slingshot devices. Return: @text; NULL: nothing
 * to warn about. */
const char *capo_fabric_job_warning(const struct capo_fabric_job *f, const struct capo_job *job,
                                    char *text, size_t room);

/* ---- figures derived from the numbers of a FABRIC line (core/log/fabric_frame.h) ---- */

/** capo_fabric_percentile() - quantile @p (0..1) of @h in ns, to 1/16; 0 when empty. */
double capo_fabric_percentile(const struct capo_fabric_hist *h, double p);

/** capo_fabric_sent(), capo_fabric_recv() - bytes out (including those the peer fetched) and in.
 * *@exact false: receives were counted by the size of their buffers, because the queue's format has
 * no lengths. */
uint64_t capo_fabric_sent(const struct capo_fabric_counts *n);
uint64_t capo_fabric_recv(const struct capo_fabric_counts *n, bool *exact);
uint64_t capo_fabric_ops(const struct capo_fabric_counts *n);

/** capo_fabric_is_slow() - does @provider use the kernel's network stack (tcp, udp, sockets, net)?
 */
bool capo_fabric_is_slow(const char *provider);
