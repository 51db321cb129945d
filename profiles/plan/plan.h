/* SPDX-License-Identifier: Apache-2.0 */
/* Asks an unmodified NCCL what it would do on a machine that is not here. A question names a
 * topology, the GPUs of an allocation, calls and sizes. The answer has, for each call, what that
 * libnccl chose and what its own model predicts.
 *
 * Decisions are NCCL's own. Times are from NCCL's model. Nothing is measured, and no data moves.
 * docs/plan.md explains how it works, and its limits.
 *
 * The library starts processes (one per simulated node), waits for them and removes their files. It
 * keeps no state; any number of threads may ask at once. */
#pragma once

#include "core/base/util.h"
#include "profiles/machine/gpus.h"

enum {
        CAPO_PLAN_RANKS_MAX = 16384,
        CAPO_PLAN_WHOLE_MAX = 256, /* limit on ranks that are really started */
        CAPO_PLAN_RANKS_ALONE =
                32, /* with more ranks, equal nodes are asked once, and no connections are made */
        CAPO_PLAN_GPUS_ALONE = 8, /* the same if NVLink domains have several nodes */
        CAPO_PLAN_GPUS_MAX = 32,  /* per machine; NVML's table in NCCL has the same limit
                                     (nvmlwrap.h, ncclNvmlMaxDevices) */
        CAPO_PLAN_ALGOS = 8,      /* NCCL has 7 since 2.23 */
        CAPO_PLAN_PROTOS = 3,
};

/* A rank: its node (0, 1, ... in order of first use), and its GPU there (the XML's `dev`). */
struct capo_plan_gpu {
        uint16_t node, dev;
};

struct capo_plan_ask {
        unsigned coll;  /* enum capo_coll */
        uint64_t bytes; /* nccl-tests' size: for all-gather and reduce-scatter the total over ranks
                         */
};

struct capo_plan_question {
        const char *tools;   /* folder with capo-plan-worker and capo-plan-virtual.so */
        const char *libnccl; /* path of the libnccl */
        const char *const
                *topo; /* NCCL topology XML per node; the last one is used for all further nodes */
        size_t n_topo;
        const char *platform; /* machine whose NVLinks and compute capability complete the XML;
                                 NULL: none */
        const struct capo_plan_gpu
                *gpus;  /* one per rank, in rank order; ranks of one node need not be consecutive */
        size_t n_ranks; /* 1 .. CAPO_PLAN_RANKS_MAX */
        unsigned domain_nodes; /* number of nodes per NVLink domain (MNNVL); 0: NVLink ends at the
                                  node */
        const struct capo_plan_ask *asks;
        size_t n_asks;
        const char *tuner;   /* plugin: a path, or a name as in NCCL_TUNER_PLUGIN; NULL: none, only
                                the spy */
        const char *profile; /* CAPO_PROFILE for that plugin; NULL: unset */
        bool allow_modelled; /* CAPO_ALLOW_MODELLED for it */
        const char *class_name; /* CAPO_CLASS for it; NULL: unset */
        const char *layout; /* CAPO_LAYOUT for it; NULL: that of the allocation, as a launcher would
                               set it; "": unset */
        bool wrap;    /* the spy wraps `tuner` (a path): the answer has costs before and after it */
        bool windows; /* the buffers are symmetric windows (ncclMemAlloc, ncclCommWindowRegister) */
        bool whole;   /* start every rank, also on equal nodes */
        bool graph;   /* keep NCCL's graphs */
        bool log;     /* keep NCCL's INFO lines of INIT, GRAPH and TUNING */
        unsigned timeout_ms; /* 0: 60 s plus 1 s per rank, more on a busy machine */
};

/* algo, proto: enum capo_algo, capo_proto; UNKNOWN: this release does not report them. */
struct capo_plan_row {
        unsigned coll; /* enum capo_coll */
        uint64_t bytes;
        uint64_t reported_bytes; /* that NCCL passed to the tuner (whole elements only); 0: it was
                                    not asked */
        uint8_t algo, proto;
        uint8_t kernel;   /* what ran outside of the table, as capo_record.algo_proto; 0: algo and
                             proto ran */
        uint8_t channels; /* thread blocks of the kernel that it launched */
        uint8_t warps;
        double us;        /* NCCL's prediction for the choice; NAN not known */
        double busbw_gbs; /* from us; NAN not known */
        bool ranks_agree; /* all ranks decided the same; if not, a job would hang */
        /* the tuner's table: us per cell, -1: not available; n_algo 0: its interface has no table
         */
        uint8_t n_algo, n_proto;
        float cost[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS];
        float cost_after[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS]; /* after the wrapped tuner */
        int tuner_channels; /* after the wrapped tuner; 0: NCCL's own number */
        uint32_t chunk; /* bytes that NCCL would move at a time on its first channel; 0: it does not
                           ask a tuner */
        uint32_t tuner_chunk; /* after the wrapped tuner; NCCL caps it at its buffer */
        int pipe_ops, reg_buff;
};

/* What a tuner is passed when a communicator is created. -1: not in this ABI. */
struct capo_plan_reported {
        int abi; /* 0: no tuner was called through the spy */
        int n_ranks, n_nodes;
        int nvl_domains, nvl_min, nvl_max;
        int n_constants;       /* 144 with ABI v5 and later, else 0 */
        double constants[144]; /* ncclTunerConstants: baseLatencies[7][3], hwLatencies[3][7][3], ...
                                */
};

/* One of NCCL's graphs on a node (NCCL_GRAPH_DUMP_FILE of its first rank). */
struct capo_plan_graph {
        int node;
        int id;      /* 0 ring, 1 tree, 2 collnet chain, 3 NVLS, 4 collnet direct */
        int pattern; /* 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 collnet direct */
        int n_channels;
        double speed_intra, speed_inter;   /* GB/s per channel */
        char type_intra[8], type_inter[8]; /* NVL, NVB, PIX, ... */
        size_t n_paths;
        char (*paths)[512]; /* per channel "0 3 2 1", with "net0" at the ends if it leaves the node;
                               in an NVLink domain "1:2" is GPU 2 of tray 1 */
};

struct capo_plan_answer {
        int version; /* 22809 is 2.28.9 */
        int profiler_abi;
        struct capo_plan_reported reported;
        struct capo_plan_row *rows; /* one per ask of the question */
        size_t n_rows;
        struct capo_plan_graph
                *graphs; /* node by node, that of rank 0 first; with question.graph */
        size_t n_graphs;
        unsigned asked, asked_nodes; /* ranks and nodes that were really started */
        bool windowless;             /* NCCL did not make windows of the buffers */
        char *log;                   /* NCCL's lines of all nodes; with question.log */
        double wall_ms;
};

/** capo_plan_ask() - ask one question
 * @out: filled on success; the caller ends it with capo_plan_answer_finish()
 * @why: on failure one sentence
 *
 * Return: 0; -EINVAL: an invalid question (no such GPU, no NIC for several nodes, bad XML);
 * -ENOEXEC: this libnccl cannot be asked (stripped, foreign, too old); -EPROTO: NCCL failed;
 * -ETIMEDOUT: it hung and was killed; other negative errno. */
int capo_plan_ask(const struct capo_plan_question *q, struct capo_plan_answer *out, char *why,
                  size_t room);

/** capo_plan_ask_all() - ask several questions, @at_once of them in parallel (0: one per processor)
 * @each: called from the thread that finished question @i, one call at a time; rc as
 * capo_plan_ask(). It may take parts out of @answer; the rest is freed afterwards. A non-zero
 * result stops further questions.
 *
 * Return: 0; what @each returned. */
int capo_plan_ask_all(const struct capo_plan_question *q, size_t n, unsigned at_once,
                      int (*each)(size_t i, int rc, struct capo_plan_answer *answer,
                                  const char *why, void *arg),
                      void *arg);

/** capo_plan_interrupt() - for signal handlers: every current or later question ends with -EINTR
 * and is cleaned up. */
void capo_plan_interrupt(int signal);

void capo_plan_answer_finish(struct capo_plan_answer *a);

/** capo_plan_graph_find() - by id; @node: -1: the first node that has it. NULL: NCCL found none. */
const struct capo_plan_graph *capo_plan_graph_find(const struct capo_plan_answer *a, int node,
                                                   int id);

/** capo_plan_find_libnccl() - find a libnccl.so.2 if none was named
 *
 * Searches CAPO_NCCL, LD_LIBRARY_PATH, an active virtual environment, the CUDA toolkit, system
 * folders, Python's nvidia-nccl packages.
 *
 * Return: 0; -ENOENT. */
int capo_plan_find_libnccl(char *path, size_t room);

/** capo_plan_setting_passes() - is an environment variable ("NCCL_ALGO=Ring") passed on to the
 * asked NCCL? Not if it is one that capo replaces (topology, plugins, network, logging). */
bool capo_plan_setting_passes(const char *var);

/** capo_plan_machine_gpus() - the GPUs of a topology, by ascending number
 * @devs: CAPO_PLAN_GPUS_MAX entries
 *
 * Return: their number; -EINVAL and other negative errno with @why. */
int capo_plan_machine_gpus(const char *topo, const char *platform, uint16_t *devs, char *why,
                           size_t room);

/** capo_plan_ranks_parse() - convert an allocation (profiles/machine/gpus.h) to ranks
 * @of: the machine; its `most` is ignored
 * @out: @room entries; @n is set to their number
 *
 * Return: as capo_gpus_parse(). */
int capo_plan_ranks_parse(const char *text, bool counts, const struct capo_gpus_of *of,
                          struct capo_plan_gpu *out, size_t room, size_t *n, char *why,
                          size_t why_room);

/** capo_plan_gpus_print() - "{1,2,3} + {0,1,2,3,4}". Return: @text. */
const char *capo_plan_gpus_print(const struct capo_plan_gpu *gpus, size_t n, char *text,
                                 size_t room);

/** capo_plan_sizes_parse() - "1K..1G*2" (geometric), "64K..1M+64K" (arithmetic), "4K,1M", or
 * several of these with commas; without a step, *2. Return: the number of sizes; -EINVAL with @why;
 * -E2BIG: more than @room. */
long capo_plan_sizes_parse(const char *text, uint64_t *out, size_t room, char *why,
                           size_t why_room);
