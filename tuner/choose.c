/* SPDX-License-Identifier: Apache-2.0 */
/* Answering the questions that are more than a table look-up. */
#include <float.h>

#include "capo/algorithms.h"
#include "capo/collectives.h"
#include "core/base/calls.h"
#include "tuner/chain.h"
#include "tuner/choose.h"
#include "tuner/chunk.h"
#include "tuner/process.h"
#include "tuner/sweep.h"

static_assert(CAPO_ALGO_RING == CAPO_ALGOS_QUICK, "Tree and Ring are the first two");

/* Defined by the recorder in libcapo.so, which makes this one give way. */
__attribute__((weak)) const struct capo_seam *capo_seam;
struct capo_choice (*capo_sweep_choose)(const struct capo_sweep_ask *ask);

bool capo_tuner_safe(const struct capo_tuner *t, int func, struct capo_choice c, int nvls)
{
        if (c.algo == CAPO_ALGO_RING || (c.algo == CAPO_ALGO_TREE && func == CAPO_COLL_ALLREDUCE))
                return c.proto != CAPO_PROTO_LL128;
        if (c.proto != CAPO_PROTO_SIMPLE || !nvls)
                return false;
        if (c.algo == CAPO_ALGO_NVLS)
                return func == CAPO_COLL_ALLREDUCE ||
                       (t->n_nodes == 1 &&
                        (func == CAPO_COLL_ALLGATHER || func == CAPO_COLL_REDUCESCATTER));
        return c.algo == CAPO_ALGO_NVLS_TREE && func == CAPO_COLL_ALLREDUCE && t->n_nodes > 1;
}

/* What the cost table shows about links; see core/profile/match.h. */
static void see_links(const struct capo_tuner *t, struct capo_question *q, const float *table,
                      int n_algos, int n_protos)
{
        double traffic =
                (double)q->bytes * capo_busbw_factor(capo_coll_kind(q->coll), (unsigned)t->n_ranks);
        const float *ring, *tree;

        if (!table || n_algos < CAPO_ALGO_RING || n_protos < CAPO_PROTO_SIMPLE)
                return;
        tree = table + (CAPO_ALGO_TREE - 1) * n_protos;
        ring = table + (CAPO_ALGO_RING - 1) * n_protos;
        if (ring[CAPO_PROTO_LL128 - 1] >= 0)
                q->link = CAPO_LINK_NVLINK;
        else if (ring[CAPO_PROTO_SIMPLE - 1] >= 0)
                q->link = CAPO_LINK_OTHER;
        if (q->bytes < CAPO_GBS_MIN_BYTES)
                return;
        if (ring[CAPO_PROTO_SIMPLE - 1] > 0)
                q->ring_gbs = traffic / 1000 / (double)ring[CAPO_PROTO_SIMPLE - 1];
        if (tree[CAPO_PROTO_SIMPLE - 1] > 0)
                q->tree_gbs = traffic / 1000 / (double)tree[CAPO_PROTO_SIMPLE - 1];
}

/* NCCL names the communicator from 2.28 on. That a row was not taken is logged, too: for some calls
 * NCCL asks twice, and the last answer counts. */
static struct capo_choice try_choice(const struct capo_tuner *t, struct capo_choice c,
                                     const float *table, int n_algos, int n_protos)
{
        struct capo_trial_ask ask = {
                .comm = t->comm_id, .table = table, .n_algos = n_algos, .n_protos = n_protos};

        if (!capo_seam->simulates())
                ask.nth = ++*t->asked;
        c = capo_trial_choose(t->trial, &ask, c);
        if (!c.algo && t->decided)
                t->decided(0);
        return c;
}

/* Which call the sweep is asked about. From 2.28 on NCCL names the communicator, and its questions
 * are counted, as for trials. The recorder would not do: a rank that does not block is asked on a
 * thread of NCCL's, where no call is known. Before 2.28, the recorder's count of collectives. */
static bool number_call(const struct capo_tuner *t, struct capo_seam_call *call)
{
        if (!t->comm_id)
                return capo_seam->current(0, call);
        *call = (struct capo_seam_call){.comm_uid = t->comm_id};
        if (!capo_seam->simulates())
                call->seq = ++*t->asked;
        return true;
}

static struct capo_choice pick_choice(const struct capo_tuner *t, struct capo_question *q,
                                      const float *table, int n_algos, int n_protos)
{
        const struct capo_tables *tables = t->tables;
        struct capo_choice choice;

        q->ring_gbs = q->tree_gbs = -1;
        if (t->sweeps) {
                struct capo_sweep_ask ask = {.question = *q,
                                             .table = table,
                                             .n_algos = n_algos,
                                             .n_protos = n_protos,
                                             .chunks = t->chunks != NULL,
                                             .n_ranks = t->n_ranks,
                                             .n_nodes = t->n_nodes};

                if (number_call(t, &ask.call)) {
                        struct capo_choice c = capo_sweep_choose(&ask);

                        if (c.algo)
                                return c;
                        if (t->decided) /* NCCL may ask twice for a call: the last answer counts */
                                t->decided(0);
                }
        }
        if (!tables)
                return (struct capo_choice){0};
        if (tables->asks_links)
                see_links(t, q, table, n_algos, n_protos);
        choice = capo_tables_find(tables, q);
        if (t->trial)
                choice = try_choice(t, choice, table, n_algos, n_protos);
        return capo_tables_chunk(t->chunks ? t->chunks->rows : NULL, choice);
}

static bool choice_is_available(struct capo_choice c, const float *table, int n_algos, int n_protos)
{
        return c.algo && c.algo <= n_algos && c.proto <= n_protos &&
               table[(c.algo - 1) * n_protos + c.proto - 1] >= 0;
}

/* Write the choice where it is available, and before all else. */
static capo_nccl_result apply_choice(const struct capo_tuner *t, struct capo_choice c, float *table,
                                     int n_algos, int n_protos, int *channels)
{
        int at = (c.algo - 1) * n_protos + c.proto - 1;

        if (!choice_is_available(c, table, n_algos, n_protos))
                return CAPO_NCCL_SUCCESS;
        for (int i = 0; i < at; i++) {
                if (table[i] == 0)
                        table[i] = FLT_MIN;
        }
        table[at] = 0.0f;
        if (c.channels)
                *channels = c.channels;
        return t->decided ? capo_tuner_decided(t, capo_choice_pack(c)) : CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_mark_looked_up(const struct capo_tuner *t, const struct capo_table *rows,
                                     size_t bytes, float *table, int n_algos, int *channels)
{
        return apply_choice(t, capo_table_find(rows, bytes), table, n_algos, CAPO_NCCL_PROTOS,
                            channels);
}

capo_nccl_result capo_mark_considered(const struct capo_tuner *t, int func, size_t bytes,
                                      int pipe_ops, float *table, int n_algos, int n_protos,
                                      int reg_buff, int *channels)
{
        struct capo_question q = {.coll = (uint8_t)func,
                                  .bytes = bytes,
                                  .pipe_ops = pipe_ops,
                                  .reg_buff = (int8_t)reg_buff};
        struct capo_choice c = t->plain ? capo_table_find(t->table[func], bytes)
                                        : pick_choice(t, &q, table, n_algos, n_protos);

        if (unlikely(t->chunks != NULL))
                capo_chunks_note(t->chunks, func, bytes,
                                 choice_is_available(c, table, n_algos, n_protos)
                                         ? c
                                         : (struct capo_choice){0});
        if (!c.rule && t->chain) { /* a row that says "leave to NCCL" is an opinion */
                capo_chain_mark(t->chain, func, bytes, pipe_ops, table, n_algos, n_protos, reg_buff,
                                channels);
                return CAPO_NCCL_SUCCESS;
        }
        return apply_choice(t, c, table, n_algos, n_protos, channels);
}

capo_nccl_result capo_tuner_decided(const struct capo_tuner *t, uint32_t word)
{
        t->decided((uint16_t)(word >> 16));
        return CAPO_NCCL_SUCCESS;
}

static capo_nccl_result name_choice(const struct capo_tuner *t, int func, struct capo_choice c,
                                    int nvls, int *algo, int *proto, int *channels)
{
        if (!c.algo || capo_process.direct_blocked || !capo_tuner_safe(t, func, c, nvls))
                return CAPO_NCCL_SUCCESS;
        *algo = c.algo - 1;
        *proto = c.proto - 1;
        if (c.channels)
                *channels = c.channels;
        return t->decided ? capo_tuner_decided(t, capo_choice_pack(c)) : CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_name_looked_up(const struct capo_tuner *t, int func, size_t bytes, int nvls,
                                     int *algo, int *proto, int *channels)
{
        return name_choice(t, func, capo_table_find(t->table[func], bytes), nvls, algo, proto,
                           channels);
}

capo_nccl_result capo_name_considered(const struct capo_tuner *t, int func, size_t bytes,
                                      int collnet, int nvls, int pipe_ops, int *algo, int *proto,
                                      int *channels)
{
        struct capo_question q = {
                .coll = (uint8_t)func, .bytes = bytes, .pipe_ops = pipe_ops, .reg_buff = -1};
        struct capo_choice c = pick_choice(t, &q, NULL, 0, 0);

        if (!c.rule && !c.algo && t->chain) {
                capo_chain_name(t->chain, func, bytes, collnet, nvls, pipe_ops, algo, proto,
                                channels);
                return CAPO_NCCL_SUCCESS;
        }
        return name_choice(t, func, c, nvls, algo, proto, channels);
}

void capo_tuner_chunk(const struct capo_tuner *t, int func, size_t bytes, int algo, int proto,
                      int channels, size_t *chunk)
{
        if (t->chunks && capo_chunks_answer(t->chunks, func, bytes, algo, proto, chunk))
                return;
        if (t->chain)
                capo_chain_chunk(t->chain, func, bytes, algo, proto, channels, chunk);
}
