/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sheet of paper between capo and its workers: one memory file that the parent fills with the question, hands to
 * one worker per simulated node, and reads the answer from. All plain data, no pointers; both sides are built together,
 * so there is no version, only a size that must agree.
 *
 * Who writes what: the parent everything up to `state`; the worker of rank 0 `id` and the members from `version` on;
 * each worker its ranks' entries of the agreement table, shm names and errors (through the atomic counters).
 */
#ifndef CAPO_PLAN_JOB_H
#define CAPO_PLAN_JOB_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
        PLAN_MAX_NODES = 256,
        PLAN_MAX_RANKS = 256,
        PLAN_MAX_MACHINES = 16, /* different topology files in one question */
        PLAN_MAX_GPUS = 32,     /* per machine; NVML's table in NCCL ends there too (nvmlwrap.h, ncclNvmlMaxDevices) */
        PLAN_MAX_NETS = 64,
        PLAN_MAX_SHM = 4096,
        PLAN_ALGOS = 8, /* NCCL has 7 since 2.23 */
        PLAN_PROTOS = 3,
        PLAN_PATH = 1024,
        PLAN_JOB_FD = 3, /* where a worker finds the job */
        PLAN_MAX_CHANNELS = 64,
};

struct plan_gpu {
        int32_t dev; /* CUDA device number = attribute dev of the XML */
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
        char topo[PLAN_PATH]; /* the XML NCCL reads */
        uint32_t n_gpus;
        uint32_t n_nets;
        uint32_t multicast; /* NVSwitch machine whose GPUs can NVLS */
        uint32_t reserved;
        struct plan_gpu gpus[PLAN_MAX_GPUS];
        struct plan_net nets[PLAN_MAX_NETS];
};

struct plan_rank {
        uint16_t node;
        uint16_t dev;
};

/* One question and what rank 0 saw of the answer. */
struct plan_row {
        uint64_t bytes; /* as nccl-tests' size: total over ranks for all-gather and reduce-scatter */
        uint64_t told;  /* bytes the tuner was given */
        uint8_t func;   /* ncclFunc_t: Broadcast 0, Reduce 1, AllGather 2, ReduceScatter 3, AllReduce 4 */
        int8_t algo;    /* NCCL's numbers; -1 not reported */
        int8_t proto;
        uint8_t channels; /* 0 not reported */
        uint8_t warps;
        uint8_t n_algo; /* of the cost table; 0: the tuner ABI has none */
        uint8_t n_proto;
        uint8_t result;   /* ncclResult_t of the call */
        uint64_t log_end; /* size of rank 0's NCCL log after the call */
        int32_t tuner_channels;
        int32_t pipe_ops, reg_buff;
        float sim_us;                              /* ncclGroupSimulateEnd; < 0 not available */
        float cost[PLAN_ALGOS][PLAN_PROTOS];       /* us as the tuner is given them; -1 not available */
        float cost_after[PLAN_ALGOS][PLAN_PROTOS]; /* as a wrapped tuner left them */
};

struct plan_agree { /* one per (rank, row) */
        int8_t algo, proto;
        uint8_t channels, done;
};

struct plan_job {
        uint64_t size;
        /* the question */
        uint32_t n_ranks, n_nodes, n_machines, n_rows;
        uint32_t want_sim;
        uint32_t reserved;
        char libnccl[PLAN_PATH];
        char wrapped[PLAN_PATH]; /* tuner for the spy to wrap; "" none */
        struct plan_rank ranks[PLAN_MAX_RANKS];
        uint16_t node_machine[PLAN_MAX_NODES];
        struct plan_machine machines[PLAN_MAX_MACHINES];

        /* state */
        _Atomic uint32_t id_ready; /* 1: id is filled; 2: it will never be */
        unsigned char id[128];
        _Atomic uint32_t n_shm;
        char shm[PLAN_MAX_SHM][24]; /* "nccl-XXXXXX": files in /dev/shm that workers made */
        _Atomic uint32_t failed;    /* the first error wins */
        char error[512];
        int32_t error_code;      /* negative errno that goes with it; 0: -EPROTO */
        _Atomic uint32_t n_gaps; /* CUDA functions that were called and have no virtual answer */
        char gaps[16][48];
        _Atomic uint32_t ranks_ready;
        _Atomic uint32_t rows_done;

        /* the answer */
        int32_t version;                          /* ncclGetVersion */
        int32_t tuner_abi, profiler_abi, net_abi; /* 0 not asked */
        int32_t told_ranks, told_nodes;           /* what a tuner is told at init */
        int32_t nvl_domains, nvl_min, nvl_max;    /* -1: this ABI does not tell */
        int32_t n_constants;                      /* doubles; 0: this ABI has none */
        double constants[144];
        double t_load_ms, t_init_ms, t_rows_ms; /* wall time of rank 0's worker */
        int32_t max_rss_kb;
        int32_t coll_channels, nvls_channels, p2p_channels;

        struct plan_row rows[]; /* n_rows, then struct plan_agree [n_ranks][n_rows] */
};

static inline struct plan_agree *plan_job_agree(struct plan_job *job, uint32_t rank)
{
        return (struct plan_agree *)(job->rows + job->n_rows) + (size_t)rank * job->n_rows;
}

static inline uint64_t plan_job_size(uint32_t n_ranks, uint32_t n_rows)
{
        return sizeof(struct plan_job) + (uint64_t)n_rows * sizeof(struct plan_row) +
               (uint64_t)n_rows * n_ranks * sizeof(struct plan_agree);
}

#endif
