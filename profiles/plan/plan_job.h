/* SPDX-License-Identifier: Apache-2.0 */
/* The shared memory between capo and its workers: the parent fills a memory file with the question,
 * passes it to one worker per simulated node, and reads the answer from it. Plain data without
 * pointers. Both sides are built together, so there is no version, only a size that must match.
 *
 * The parent writes everything up to `state`. The worker of rank 0 writes `id` and the members from
 * `version` on. Each worker writes its ranks' entries of the agreement table, shm names and errors
 * (through the atomic counters). */
#pragma once

#include <stdatomic.h>

#include "profiles/plan/plan.h"

enum {
        PLAN_MAX_NODES = 4096,
        PLAN_MAX_MACHINES = 16, /* limit on different topology files in a question */
        PLAN_MAX_NETS = 64,
        PLAN_MAX_SHM = 4096,
        PLAN_PATH = 1024,
        PLAN_JOB_FD = 3, /* descriptor of the job in a worker */
};

struct plan_gpu {
        int32_t dev; /* CUDA device number: attribute dev of the XML */
        int32_t sm;  /* compute capability, 70 = 7.0 */
        int32_t gdr;
        int32_t numa; /* NUMA node of its CPU */
        char busid[20];
};

struct plan_net {
        char name[64];
        uint64_t guid;
        int32_t dev;
        int32_t speed; /* Mb/s */
        int32_t port;
        int32_t gdr;
        int32_t max_comms;
        float latency; /* us */
};

struct plan_machine {
        char topo[PLAN_PATH]; /* the XML that NCCL reads */
        uint32_t n_gpus;
        uint32_t n_nets;
        uint32_t multicast; /* an NVSwitch machine with GPUs that support NVLS */
        struct plan_gpu gpus[CAPO_PLAN_GPUS_MAX];
        struct plan_net nets[PLAN_MAX_NETS];
};

/* One question, and rank 0's part of the answer. */
struct plan_row {
        struct capo_plan_row row; /* without us, busbw_gbs and ranks_agree, which need the log */
        uint64_t log_end;         /* size of rank 0's NCCL log after the call */
};

struct plan_agree { /* one per (asked rank, row) */
        int8_t algo, proto;
        uint8_t channels, done;
};

/* State of job.error. The first process to fail claims it by SAYING, writes the text, then sets
 * FAILED. If it dies in between, the value stays SAYING. */
enum plan_failed {
        PLAN_FAILED_NOT,
        PLAN_FAILED,
        PLAN_FAILED_SAYING,
};

/* Nodes that NCCL counts as one, or a single node. If all nodes are in one NVLink domain, each is a
 * unit (one_domain). Units are alike if their ranks have the same GPUs of the same machines in the
 * same order. Of these, the first two are started; what the others would send is derived from them
 * (virtual/virtual_standin.c). */
struct plan_unit {
        uint32_t first, n; /* its ranks, in by_unit */
        uint16_t like[2];  /* the two units of its kind that are started; equal if there is only one
                            */
        bool real;
};

struct plan_job {
        uint64_t size;
        /* the question */
        uint32_t n_ranks, n_nodes, n_machines, n_rows;
        uint32_t n_units;
        uint32_t n_asked; /* ranks that are started */
        uint32_t n_heard; /* the first of these make the calls: the unit of rank 0; all, if every
                             rank is started or they share an NVLink domain */
        uint32_t asked[CAPO_PLAN_WHOLE_MAX];
        struct plan_unit units[PLAN_MAX_NODES];
        uint16_t node_unit[PLAN_MAX_NODES];
        uint16_t by_unit[CAPO_PLAN_RANKS_MAX]; /* ranks, unit by unit, ascending */
        uint32_t domain_nodes; /* nodes per NVLink domain; 0: NVLink ends at the node */
        bool one_domain;       /* all nodes are in one domain, and units are nodes */
        double domain_bytes[2], available_bytes; /* memory: plan_alike_bytes() for once and twice */
        uint32_t windows;                        /* buffers are registered as windows */
        char libnccl[PLAN_PATH];
        char wrapped[PLAN_PATH]; /* tuner for the spy to wrap; "": none */
        struct capo_plan_gpu ranks[CAPO_PLAN_RANKS_MAX];
        uint16_t node_machine[PLAN_MAX_NODES];
        struct plan_machine machines[PLAN_MAX_MACHINES];

        /* state */
        _Atomic uint32_t id_ready; /* 1: id is set; 2: it will never be */
        unsigned char id[128];
        _Atomic uint32_t n_shm;
        char shm[PLAN_MAX_SHM][24]; /* "nccl-XXXXXX": files in /dev/shm made by workers */
        _Atomic uint32_t failed;    /* enum plan_failed; the first error is kept */
        char error[512];
        int32_t error_code;      /* negative errno of the error; 0: -EPROTO */
        _Atomic uint32_t n_gaps; /* CUDA functions called that have no virtual implementation */
        char gaps[16][48];
        _Atomic uint32_t windowless; /* registered, but NCCL made no window */
        _Atomic uint32_t ranks_ready;
        _Atomic uint32_t rows_done;
        _Atomic uint64_t said;           /* bytes of messages so far, from `messages` on */
        uint64_t messages, messages_end; /* offsets in the job; 0: ranks communicate through NCCL */

        /* the answer */
        int32_t version;      /* ncclGetVersion */
        int32_t profiler_abi; /* 0: not asked */
        struct capo_plan_reported reported;

        struct plan_row
                rows[]; /* n_rows, then struct plan_agree [n_asked][n_rows], then messages */
};

static inline struct plan_agree *plan_job_agree(struct plan_job *job, uint32_t asked)
{
        return (struct plan_agree *)(job->rows + job->n_rows) + (size_t)asked * job->n_rows;
}

/* Size without the messages. */
static inline uint64_t plan_job_size(uint32_t n_asked, uint32_t n_rows)
{
        uint64_t size = sizeof(struct plan_job) + (uint64_t)n_rows * sizeof(struct plan_row) +
                        (uint64_t)n_rows * n_asked * sizeof(struct plan_agree);

        return (size + 4095) & ~4095ull;
}
