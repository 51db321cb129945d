/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one decision. Each tuner/abi/tuner_vN.c turns its arguments into the calls below and nothing
 * else; what to choose is decided here, from things that are equal on all ranks.
 *
 * From ABI v3 on an answer is a mark in NCCL's cost table (capo_mark_...); v1 and v2 return the
 * numbers of algorithm and protocol (capo_name_...). Of each there are three, from the few
 * instructions that most questions need to all that there is: quick (inlined into the adapter),
 * looked_up (a table look-up decides, but not into the first six cells), considered (sweeping,
 * conditions on the question, somebody else to ask).
 */
#ifndef CAPO_CHOOSE_H
#define CAPO_CHOOSE_H

#include <stdbool.h>

#include "capo/call_kinds.h"
#include "capo/seam.h"
#include "core/profile/profile_table.h"
#include "core/base/util.h"
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
        bool plain; /* a table look-up is the whole decision, and where it has none nobody else is
                       asked */
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

/**
 * capo_tuner_open() - a communicator is made
 * @out: set only on success
 *
 * Loads the profile at the first call of the process. Fails only where going on could hang the job:
 * this rank cannot load what the others were configured to load, or memory is out. The reason is
 * printed and given to NCCL's log.
 *
 * Return: an ncclResult_t.
 */
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

/* The slow paths of the inline functions below. capo_mark_considered: any communicator, any
 * cost table, with the arguments of its caller in their places. capo_mark_looked_up: a look-up
 * decides, the cost table is [n_algos][3]. */
capo_nccl_result capo_mark_considered(const struct capo_tuner *t, int func, size_t bytes,
                                      int pipe_ops, float *table, int n_algos, int n_protos,
                                      int reg_buff, int *channels);
capo_nccl_result capo_mark_looked_up(const struct capo_tuner *t, const struct capo_table *rows,
                                     size_t bytes, float *table, int n_algos, int *channels);
capo_nccl_result capo_tuner_decided(const struct capo_tuner *t, uint32_t word);

static inline uint32_t capo_float_bits(float x)
{
        uint32_t bits;

        __builtin_memcpy(&bits, &x, sizeof bits);
        return bits;
}

/* NCCL marks a pair that is not available with -1. Read as an unsigned number, the bits of a
 * float from 0 to infinity are at most those of infinity. Those of negative numbers and of NaN
 * are larger; so are those of -0.0, which is never a prediction. */
static inline bool capo_cell_available(float cell)
{
        return capo_float_bits(cell) <= 0x7f800000;
}

/**
 * capo_mark_quick() - answer one question of ABI v3 or later through the cost table
 *
 * No opinion: nothing is written. Else the entry gets 0.0, the smallest time there is, unless NCCL
 * marked it as not available; all others keep what NCCL predicted. NCCL takes the first of equal
 * values (enqueue.cc, topoGetAlgoInfo), so an earlier entry that is 0.0 as well - NCCL's own
 * predictions never are - is lifted a little.
 *
 * Here is the plain case: a row for Tree or Ring, the first six entries, decides and nobody else is
 * to be asked. Five factors whose product is not 0 are all not 0, and a multiplication takes its
 * operand straight from memory.
 */
static inline capo_nccl_result capo_mark_quick(const struct capo_tuner *t, int func, size_t bytes,
                                               int pipe_ops, float *table, int n_algos,
                                               int n_protos, int reg_buff, int *channels)
{
        const struct capo_table *rows;
        uint32_t word, cell;

        if (unlikely((unsigned)func >= CAPO_NCCL_COLLS || !t))
                return CAPO_NCCL_SUCCESS;
        if (unlikely(n_algos < CAPO_ALGOS_QUICK) || unlikely(!t->plain) ||
            unlikely(n_protos != CAPO_NCCL_PROTOS))
                return capo_mark_considered(t, func, bytes, pipe_ops, table, n_algos, n_protos,
                                            reg_buff, channels);
        rows = t->table[func];
        word = capo_table_word(rows, bytes);
        cell = word & 255;
        if (unlikely(cell >= CAPO_CELLS_QUICK) ||
            unlikely(!(capo_float_bits(table[0] * table[1] * table[2] * table[3] * table[4]) << 1)))
                return capo_mark_looked_up(t, rows, bytes, table, n_algos, channels);
        if (unlikely(!capo_cell_available(table[cell])))
                return CAPO_NCCL_SUCCESS; /* here and now: NCCL's choice stands */
        table[cell] = 0.0f;
        if (word >> 8 & 255)
                *channels = word >> 8 & 255;
        if (unlikely(t->decided != NULL))
                return capo_tuner_decided(t, word);
        return CAPO_NCCL_SUCCESS;
}

/* Likewise what does not fit below: any communicator; a plain one, but none of the first six cells.
 */
capo_nccl_result capo_name_considered(const struct capo_tuner *t, int func, size_t bytes,
                                      int collnet, int nvls, int pipe_ops, int *algo, int *proto,
                                      int *channels);
capo_nccl_result capo_name_looked_up(const struct capo_tuner *t, int func, size_t bytes, int nvls,
                                     int *algo, int *proto, int *channels);

/** capo_name_quick() - answer one question of ABI v1 or v2: both outputs or none, taken unchecked
 * by NCCL 2.19 to 2.21, so only what is safe on any machine is answered. */
static inline capo_nccl_result capo_name_quick(const struct capo_tuner *t, int func, size_t bytes,
                                               int collnet, int nvls, int pipe_ops, int *algo,
                                               int *proto, int *channels)
{
        uint32_t word, cell;

        if (unlikely((unsigned)func >= CAPO_NCCL_COLLS || !t))
                return CAPO_NCCL_SUCCESS;
        if (unlikely(!t->plain))
                return capo_name_considered(t, func, bytes, collnet, nvls, pipe_ops, algo, proto,
                                            channels);
        word = capo_table_word(t->table[func], bytes);
        cell = word & 255;
        if (unlikely(cell >= CAPO_CELLS_QUICK) || unlikely(!(t->direct[func] >> cell & 1)))
                return capo_name_looked_up(t, func, bytes, nvls, algo, proto, channels);
        *algo = cell >= CAPO_NCCL_PROTOS;
        *proto = (int)(cell >= CAPO_NCCL_PROTOS ? cell - CAPO_NCCL_PROTOS : cell);
        if (word >> 8 & 255)
                *channels = word >> 8 & 255;
        if (unlikely(t->decided != NULL))
                return capo_tuner_decided(t, word);
        return CAPO_NCCL_SUCCESS;
}

#endif
