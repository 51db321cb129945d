/* SPDX-License-Identifier: Apache-2.0 */
/* Code that several versions of the tuner interface share. In a header, because each
 * file of a version stands alone: in the plugin, and in those that tests and capo plan make. */
#pragma once

#include "tuner/choose.h"

static_assert(offsetof(struct capo_tuner_v6, get_coll_info) ==
                              offsetof(struct capo_tuner_v4, get_coll_info) &&
                      offsetof(struct capo_tuner_v6, finalize) ==
                              offsetof(struct capo_tuner_v2, destroy) &&
                      offsetof(struct capo_tuner_v6, init) == offsetof(struct capo_tuner_v5, init),
              "a newer version begins like an older one");

static inline uint32_t capo_float_bits(float x)
{
        uint32_t bits;

        __builtin_memcpy(&bits, &x, sizeof bits);
        return bits;
}

/* NCCL marks a pair that is not available with -1. Read as an unsigned number, the bits of a
 * float from 0 to infinity are at most those of infinity. Those of negative numbers and of NaN
 * are larger; so are those of -0.0, which is never a prediction. */
static inline bool capo_cell_available(float cell) { return capo_float_bits(cell) <= 0x7f800000; }

/** capo_mark_quick() - answer one question of ABI v3 or later through the cost table
 *
 * No opinion: nothing is written. Else the entry gets 0.0, the smallest time there is, unless NCCL
 * marked it as not available; all others keep what NCCL predicted. NCCL takes the first of equal
 * values (enqueue.cc, topoGetAlgoInfo), so an earlier entry that is 0.0 as well - NCCL's own
 * predictions never are - is lifted a little.
 *
 * Here is the plain case: a row for Tree or Ring, the first six entries, decides and nobody else is
 * to be asked. Five factors whose product is not 0 are all not 0, and a multiplication takes its
 * operand straight from memory. */
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

/* v4 on: getCollInfo. */
static inline capo_nccl_result capo_adapt_mark(void *context, int func, size_t bytes, int pipe_ops,
                                               float **table, int n_algos, int n_protos,
                                               int reg_buff, int *channels)
{
        return capo_mark_quick(context, func, bytes, pipe_ops, (float *)table, n_algos, n_protos,
                               reg_buff, channels);
}

/* init with what NCCL tells from v5 on; v2 to v4 tell less. */
static inline capo_nccl_result capo_adapt_open(int abi, void **context, uint64_t comm_id,
                                               size_t n_ranks, size_t n_nodes, capo_nccl_log log,
                                               const struct capo_nvl_info *nvl,
                                               struct capo_nccl_constants *constants)
{
        const struct capo_tuner_info info = {abi, n_ranks, n_nodes, comm_id, nvl, constants, log};

        return capo_tuner_open(&info, (struct capo_tuner **)context);
}

/* The init of a version, which @told's is alike. */
#define CAPO_TUNER_INIT(v, told)                                            \
        static capo_nccl_result init_tuner_v##v CAPO_TUNER_INIT_##told      \
        {                                                                   \
                return capo_adapt_open(v, context, CAPO_TUNER_TOLD_##told); \
        }                                                                   \
        extern struct capo_tuner_v##v ncclTunerPlugin_v##v;
#define CAPO_TUNER_INIT_2 (size_t n_ranks, size_t n_nodes, capo_nccl_log log, void **context)
#define CAPO_TUNER_TOLD_2 0, n_ranks, n_nodes, log, NULL, NULL
#define CAPO_TUNER_INIT_5                                                                     \
        (void **context, uint64_t comm_id, size_t n_ranks, size_t n_nodes, capo_nccl_log log, \
         struct capo_nvl_info *nvl, struct capo_nccl_constants *constants)
#define CAPO_TUNER_TOLD_5 comm_id, n_ranks, n_nodes, log, nvl, constants

/* ---- somebody else's ---- */

/* v2 to v4. */
static inline capo_nccl_result capo_their_open_v2(const void *plugin,
                                                  const struct capo_tuner_info *info,
                                                  void **context)
{
        const struct capo_tuner_v2 *p = plugin;

        return p->init(info->n_ranks, info->n_nodes, info->log, context);
}

/* v5 on. */
static inline capo_nccl_result capo_their_open_v5(const void *plugin,
                                                  const struct capo_tuner_info *info,
                                                  void **context)
{
        const struct capo_tuner_v5 *p = plugin;

        return p->init(context, info->comm_id, info->n_ranks, info->n_nodes, info->log,
                       (struct capo_nvl_info *)info->nvl, info->constants);
}

/* v2 on. */
static inline capo_nccl_result capo_their_close(const void *plugin, void *context)
{
        const struct capo_tuner_v2 *p = plugin;

        return p->destroy(context);
}

/* v4 on. */
static inline capo_nccl_result capo_their_mark(const void *plugin, void *context, int func,
                                               size_t bytes, int pipe_ops, float *table,
                                               int n_algos, int n_protos, int reg_buff,
                                               int *channels)
{
        const struct capo_tuner_v4 *p = plugin;

        return p->get_coll_info(context, func, bytes, pipe_ops, (float **)table, n_algos, n_protos,
                                reg_buff, channels);
}
