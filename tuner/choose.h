/* SPDX-License-Identifier: Apache-2.0 */
/* The one decision. Each tuner/abi/tuner_vN.c turns its arguments into the calls below and nothing
 * else; what to choose is decided here, from things that are equal on all ranks.
 *
 * From ABI v3 on an answer is a mark in NCCL's cost table (capo_mark_...); v1 and v2 return the
 * numbers of algorithm and protocol (capo_name_...). Of each there are three, from the few
 * instructions that most questions need to all that there is: quick (tuner/abi/tuner_adapt.h),
 * looked_up (a table look-up decides, but not into the first six cells), considered (sweeping,
 * conditions on the question, somebody else to ask). */
#pragma once

#include "capo/seam.h"
#include "tuner/plugin.h"
#include "tuner/trial.h"

struct capo_other;

/* Cells that are answered on the spot: those of NCCL's first two algorithms, Tree and Ring. */
#define CAPO_ALGOS_QUICK 2
#define CAPO_CELLS_QUICK (CAPO_ALGOS_QUICK * CAPO_NCCL_PROTOS)

/* One communicator. The first line is all that a plain decision touches. */
struct capo_tuner {
        const struct capo_table *table[CAPO_NCCL_COLLS]; /* never NULL: `empty` has no opinion */
        void (*decided)(uint16_t rule);                  /* tell the recorder; NULL without one */
        struct capo_other *chain; /* whom to ask where we have no opinion; NULL nobody */
        bool plain; /* a table look-up is the whole decision, and nobody else is asked */
        uint8_t direct[CAPO_NCCL_COLLS]; /* bit n: cell n, one of the first six, may be answered
                                       through ABI v1 and v2 */

        const struct capo_tables *tables; /* NULL: no profile */
        uint64_t comm_id;
        int n_ranks, n_nodes;
        struct capo_chunks
                *chunks;         /* NULL: no row says a chunk, or this NCCL does not ask for it */
        bool own_tables;         /* not shared: free them */
        struct capo_tuner *next; /* of those that override calls (tuner/call_limits.c) */
        bool overrides;
        const struct capo_trial *trial; /* of the profile's rows; NULL none */
        bool sweeps;                    /* a sweep chooses */
        uint64_t n_asked, *asked;       /* how often NCCL has asked, for the sweep and the trials */
} __attribute__((aligned(64)));

/** capo_tuner_open() - a communicator is made
 * @out: set only on success
 *
 * Loads the profile at the first call of the process. Fails only where going on could hang the job:
 * this rank cannot load what the others were configured to load, or memory is out. The reason is
 * printed and given to NCCL's log.
 *
 * Return: an ncclResult_t. */
capo_nccl_result capo_tuner_open(const struct capo_tuner_info *info, struct capo_tuner **out);
capo_nccl_result capo_tuner_close(void *tuner); /* struct capo_tuner, as NCCL hands it back */

/** capo_tuner_chunk() - ABI v6: a row's chunk (tuner/chunk.h), or what a chained tuner says. */
void capo_tuner_chunk(const struct capo_tuner *tuner, int func, size_t bytes, int algo, int proto,
                      int channels, size_t *chunk);

/** capo_tuner_safe() - may @choice be named through ABI v1 or v2? @nvls: what NCCL's flag says.
 *
 * NCCL 2.19 to 2.21 run what a tuner returns. Ring and Tree with LL and Simple exist on every
 * machine; NVLS where the flag says so; LL128 corrupts data on links that split 128-byte stores,
 * and nothing here tells those links apart; CollNet has conditions of its own. (2.19.1 to 2.21.5:
 * enqueue.cc getAlgoInfo, graph/tuning.cc.) */
bool capo_tuner_safe(const struct capo_tuner *tuner, int func, struct capo_choice choice, int nvls);

/* The slow paths of capo_mark_quick() (tuner/abi/tuner_adapt.h). capo_mark_considered: any
 * communicator, any cost table, with the arguments of its caller in their places.
 * capo_mark_looked_up: a look-up decides, the cost table is [n_algos][3]. */
capo_nccl_result capo_mark_considered(const struct capo_tuner *t, int func, size_t bytes,
                                      int pipe_ops, float *table, int n_algos, int n_protos,
                                      int reg_buff, int *channels);
capo_nccl_result capo_mark_looked_up(const struct capo_tuner *t, const struct capo_table *rows,
                                     size_t bytes, float *table, int n_algos, int *channels);
capo_nccl_result capo_tuner_decided(const struct capo_tuner *t, uint32_t word);

/* Those of capo_name_quick(): any communicator; a plain one, but none of the first six cells. */
capo_nccl_result capo_name_considered(const struct capo_tuner *t, int func, size_t bytes,
                                      int collnet, int nvls, int pipe_ops, int *algo, int *proto,
                                      int *channels);
capo_nccl_result capo_name_looked_up(const struct capo_tuner *t, int func, size_t bytes, int nvls,
                                     int *algo, int *proto, int *channels);
