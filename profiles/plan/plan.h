/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the real, unmodified NCCL what it will do on a machine that is not here. A question names a
 * topology, the GPUs of an allocation, calls and sizes; the answer has what that libnccl chose for
 * each and what its own model expects.
 *
 * Decisions are NCCL's own. Times are NCCL's model. Nothing is measured and no data moves.
 * docs/plan.md says how it works and how true it is.
 *
 * The library starts processes (one per simulated node), waits for them and removes what they
 * leave. It keeps no state; any number of threads may ask at once.
 */
#ifndef CAPO_PLAN_H
#define CAPO_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiles/machine/gpus.h"

enum {
        CAPO_PLAN_RANKS_MAX = 16384,
        CAPO_PLAN_WHOLE_MAX = 256,  /* ranks that are asked for real, at most */
        CAPO_PLAN_RANKS_ALONE = 32, /* more ranks than that: nodes that are alike are asked once,
                                       and nothing is connected */
        CAPO_PLAN_GPUS_ALONE = 8,   /* the same where NVLink domains have several nodes */
        CAPO_PLAN_GPUS_MAX = 32,    /* per machine; NVML's table in NCCL ends there too (nvmlwrap.h,
                                       ncclNvmlMaxDevices) */
        CAPO_PLAN_ALGOS = 8,        /* NCCL has 7 since 2.23 */
        CAPO_PLAN_PROTOS = 3,
};

/* A rank: which node it is on (0, 1, ... in order of first use) and which GPU of that node (the
 * XML's `dev`). */
struct capo_plan_gpu {
        uint16_t node, dev;
};

struct capo_plan_ask {
        unsigned coll;  /* enum capo_coll */
        uint64_t bytes; /* as nccl-tests' size: for all-gather and reduce-scatter the total over
                           ranks */
};

struct capo_plan_question {
        const char *tools;   /* folder of capo-plan-worker and capo-plan-virtual.so */
        const char *libnccl; /* path of the libnccl to ask */
        const char *const
                *topo; /* NCCL topology XML per node; the last one serves all further nodes */
        size_t n_topo;
        const char *platform; /* name of a machine whose NVLinks and compute capability complete the
                                 XML; NULL: none */
        const struct capo_plan_gpu
                *gpus;  /* one per rank, in rank order; ranks of one node need not be neighbours */
        size_t n_ranks; /* 1 .. CAPO_PLAN_RANKS_MAX */
        unsigned domain_nodes; /* nodes 0 to this - 1 share an NVLink domain (MNNVL), and so on; 0:
                                  NVLink ends at the node */
        const struct capo_plan_ask *asks;
        size_t n_asks;
        const char *tuner;   /* plugin: a path, or a name as NCCL_TUNER_PLUGIN takes it; NULL: none,
                                only the spy looks on */
        const char *profile; /* CAPO_PROFILE for that plugin; NULL: unset */
        bool allow_modelled; /* CAPO_ALLOW_MODELLED for it */
        const char *class_name; /* CAPO_CLASS for it; NULL: unset */
        const char *layout; /* CAPO_LAYOUT for it; NULL: the allocation's, as a launcher knows it;
                               "": unset */
        bool wrap; /* the spy stands before `tuner` (a path): costs before and after it are in the
                      answer */
        bool windows; /* the buffers are symmetric windows (ncclMemAlloc, ncclCommWindowRegister) */
        bool whole;   /* ask every rank for real, also on nodes that are alike */
        bool graph;   /* also keep the graphs NCCL found */
        bool log;     /* keep NCCL's own INFO lines of INIT, GRAPH and TUNING */
        unsigned timeout_ms; /* 0: 60 s and 1 s per rank, more where the machine is busy */
};

/* algo, proto: enum capo_algo, capo_proto; UNKNOWN where this release does not report them to
 * anybody. */
struct capo_plan_row {
        unsigned coll; /* enum capo_coll */
        uint64_t bytes;
        uint64_t
                told; /* bytes NCCL gave the tuner (whole elements only); 0 when it was not asked */
        uint8_t algo, proto;
        uint8_t kernel;   /* what ran beside the table, as capo_record.algo_proto; 0: nothing, algo
                             and proto did */
        uint8_t channels; /* = thread blocks of the kernel it launched */
        uint8_t warps;
        double us;        /* NCCL's model for the choice; NAN not known */
        double busbw_gbs; /* implied by us; NAN not known */
        bool ranks_agree; /* all ranks decided the same: a job would hang otherwise */
        /* what the tuner is given: us per cell, -1 not available; n_algo 0: its interface has no
         * table */
        uint8_t n_algo, n_proto;
        float cost[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS];
        float cost_after[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS]; /* as the wrapped tuner left it */
        int tuner_channels; /* as the wrapped tuner left it; 0: NCCL's own number */
        uint32_t chunk; /* bytes NCCL would move at a time on its first channel; 0: it asks no tuner
                         */
        uint32_t tuner_chunk; /* as the wrapped tuner left it; NCCL cuts it to its buffer */
        int pipe_ops, reg_buff;
};

/* What a tuner is told when a communicator is made. -1: this ABI does not tell. */
struct capo_plan_told {
        int abi; /* 0: no tuner was asked by way of the spy */
        int n_ranks, n_nodes;
        int nvl_domains, nvl_min, nvl_max;
        int n_constants;       /* 144 with ABI v5 and later, else 0 */
        double constants[144]; /* ncclTunerConstants: baseLatencies[7][3], hwLatencies[3][7][3], ...
                                */
};

/* One of NCCL's graphs as a node has it (NCCL_GRAPH_DUMP_FILE of its first rank). */
struct capo_plan_graph {
        int node;
        int id;      /* 0 ring, 1 tree, 2 collnet chain, 3 NVLS, 4 collnet direct */
        int pattern; /* 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 collnet direct */
        int n_channels;
        double speed_intra, speed_inter;   /* GB/s per channel */
        char type_intra[8], type_inter[8]; /* NVL, NVB, PIX, ... */
        size_t n_paths;
        char (*paths)[512]; /* per channel "0 3 2 1", with "net0" at the ends where it leaves the
                               node; in an NVLink domain "1:2" is GPU 2 of its tray 1 */
};

struct capo_plan_answer {
        int version; /* 22809 is 2.28.9 */
        int profiler_abi;
        struct capo_plan_told told;
        struct capo_plan_row *rows; /* as the question's asks */
        size_t n_rows;
        struct capo_plan_graph
                *graphs; /* node by node, that of rank 0 first; with question.graph */
        size_t n_graphs;
        unsigned asked, asked_nodes; /* ranks and nodes that were there for real; the others were
                                        stood in for */
        bool windowless;             /* NCCL made no windows of buffers that were to be */
        char *log;                   /* NCCL's lines of all nodes; with question.log */
        double wall_ms;
};

/**
 * capo_plan_ask() - one question
 * @out: filled on success; the caller ends it with capo_plan_answer_finish()
 * @why: on failure one sentence
 *
 * Return: 0; -EINVAL the question makes no sense (no such GPU, no NIC for several nodes, bad XML);
 * -ENOEXEC this libnccl cannot be asked (stripped, foreign, too old); -EPROTO NCCL refused;
 * -ETIMEDOUT it hung and was killed; -ENOMEM; other negative errno.
 */
int capo_plan_ask(const struct capo_plan_question *q, struct capo_plan_answer *out, char *why,
                  size_t room);

/**
 * capo_plan_ask_all() - several questions, @at_once of them at a time (0: as many as there are
 * processors)
 * @each: called from the thread that finished question @i, one call at a time; rc as
 * capo_plan_ask(). It may keep parts of @answer by taking them out; what is left is freed after it.
 * A non-zero result stops further questions.
 *
 * Return: 0; what @each returned; -ENOMEM.
 */
int capo_plan_ask_all(const struct capo_plan_question *q, size_t n, unsigned at_once,
                      int (*each)(size_t i, int rc, struct capo_plan_answer *answer,
                                  const char *why, void *arg),
                      void *arg);

/** capo_plan_interrupt() - from a signal handler: every question under way or to come ends with
 * -EINTR, cleaned up. */
void capo_plan_interrupt(int signal);

void capo_plan_answer_finish(struct capo_plan_answer *a);

/** capo_plan_graph_find() - by id; @node: -1 the first that has it. NULL when NCCL found none. */
const struct capo_plan_graph *capo_plan_graph_find(const struct capo_plan_answer *a, int node,
                                                   int id);

/** capo_plan_busbw_factor() - nccl-tests' bus bandwidth over its algorithm bandwidth. */
double capo_plan_busbw_factor(unsigned coll, unsigned n_ranks);

/**
 * capo_plan_find_libnccl() - a libnccl.so.2 to ask when none was named
 *
 * CAPO_NCCL, LD_LIBRARY_PATH, an active virtual environment, the CUDA toolkit, system folders,
 * Python's nvidia-nccl packages.
 *
 * Return: 0; -ENOENT.
 */
int capo_plan_find_libnccl(char *path, size_t room);

/** capo_plan_setting_passes() - whether a variable of the environment ("NCCL_ALGO=Ring") is a
 * setting that holds for the NCCL that is asked, and not one that capo replaces (topology, plugins,
 * network, logging). */
bool capo_plan_setting_passes(const char *var);

/**
 * capo_plan_machine_gpus() - the GPUs a topology has, by rising number
 * @devs: CAPO_PLAN_GPUS_MAX entries
 *
 * Return: their number; -EINVAL and other negative errno with @why.
 */
int capo_plan_machine_gpus(const char *topo, const char *platform, uint16_t *devs, char *why,
                           size_t room);

/**
 * capo_plan_ranks_parse() - an allocation (profiles/machine/gpus.h) to ranks
 * @of:  the machine; its `most` is not looked at
 * @out: @room entries; @n is set to their number
 *
 * Return: as capo_gpus_parse().
 */
int capo_plan_ranks_parse(const char *text, bool counts, const struct capo_gpus_of *of,
                          struct capo_plan_gpu *out, size_t room, size_t *n, char *why,
                          size_t why_room);

/** capo_plan_gpus_print() - "{1,2,3} + {0,1,2,3,4}". Return: @text. */
const char *capo_plan_gpus_print(const struct capo_plan_gpu *gpus, size_t n, char *text,
                                 size_t room);

/**
 * capo_plan_sizes_parse() - "1K..1G*2" (geometric), "64K..1M+64K" (arithmetic), "4K,1M", or several
 * of these with commas
 *
 * Without a step, 2. Return: the number of sizes; -EINVAL with @why; -E2BIG more than @room.
 */
long capo_plan_sizes_parse(const char *text, uint64_t *out, size_t room, char *why,
                           size_t why_room);

#endif
