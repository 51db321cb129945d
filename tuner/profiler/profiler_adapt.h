/* SPDX-License-Identifier: Apache-2.0 */
/* Code that several versions of the profiler interface share. In a header, because each
 * file of a version stands alone: in the plugin, and in those that tests make. */
#pragma once

#include "capo/kernels.h"
#include "tuner/profiler/profiler.h"

/* init with what NCCL tells from v5 on; older versions tell less. */
static inline capo_nccl_result capo_adapt_profiler(int abi, void **context, uint64_t comm_id,
                                                   int *mask, const char *comm_name, int n_nodes,
                                                   int n_ranks, int rank, capo_nccl_log log)
{
        const struct capo_profiler_info info = {abi,     comm_name, comm_id, n_nodes,
                                                n_ranks, rank,      log};

        return capo_profiler_open(&info, (struct capo_profiler **)context, mask);
}

/* The init of a version, which @told's is alike, and the table that NCCL finds. */
#define CAPO_PROFILER_INIT(v, told)                                                \
        static capo_nccl_result init_profiler_v##v CAPO_PROFILER_INIT_##told       \
        {                                                                          \
                return capo_adapt_profiler(v, context, CAPO_PROFILER_TOLD_##told); \
        }                                                                          \
        extern struct capo_profiler_v##v ncclProfiler_v##v;
#define CAPO_PROFILER_TABLE(v, start)                                                         \
        capo_plugin_name, init_profiler_v##v, start, capo_profiler_stop, capo_profiler_state, \
                capo_profiler_finish
#define CAPO_PROFILER_TOLD_1 0, mask, NULL, -1, -1, -1, NULL /* nothing of the communicator */
#define CAPO_PROFILER_TOLD_4 comm_id, mask, comm_name, n_nodes, n_ranks, rank, log
#define CAPO_PROFILER_TOLD_5 CAPO_PROFILER_TOLD_4

/* Somebody else's init: v1 to v3, and v5 on. */
static inline capo_nccl_result capo_their_init_v1(const void *plugin,
                                                  const struct capo_profiler_info *info,
                                                  void **context, int *mask)
{
        const struct capo_profiler_v1 *p = plugin;

        return p->init(context, mask);
}

static inline capo_nccl_result capo_their_init_v5(const void *plugin,
                                                  const struct capo_profiler_info *info,
                                                  void **context, int *mask)
{
        const struct capo_profiler_v5 *p = plugin;

        return p->init(context, info->comm_hash, mask, info->comm_name, info->n_nodes,
                       info->n_ranks, info->rank, info->log);
}

/** capo_event_call() - enum capo_call_id of NCCL's spelling (src/misc/strings, ncclFuncToString and
 * so on); CAPO_CALL_NONE for a name that we do not know. */
uint8_t capo_event_call(const char *s);

/** capo_event_algo_proto() - enum capo_algo << 4 | enum capo_proto of it. */
uint8_t capo_event_algo_proto(const char *algo, const char *proto);

/* A Coll event @d of v2 on; @hash, @most: its communicator and channels, by version. */
#define CAPO_EVENT_RAN(d, hash, most)                                                           \
        ((struct capo_seam_ran){.comm_hash = (hash),                                            \
                                .count = (d)->coll.count,                                       \
                                .call = capo_event_call((d)->coll.func),                        \
                                .algo_proto =                                                   \
                                        capo_event_algo_proto((d)->coll.algo, (d)->coll.proto), \
                                .channels = (most)})

/* The same of v4 to v6: a kernel that has no channels is a symmetric one; what stands where
 * algorithm and protocol do is nothing. */
#define CAPO_EVENT_RAN_V4(d, hash)                                                              \
        ((d)->coll.n_channels ? CAPO_EVENT_RAN(d, hash, (d)->coll.n_channels)                   \
                              : (struct capo_seam_ran){.comm_hash = (hash),                     \
                                                       .count = (d)->coll.count,                \
                                                       .call = capo_event_call((d)->coll.func), \
                                                       .algo_proto = CAPO_KERNEL_SYMK})

/* And of a collective by copy engines, v6 on. */
#define CAPO_EVENT_COPIED(d, hash)                                     \
        ((struct capo_seam_ran){.comm_hash = (hash),                   \
                                .count = (d)->ce.count,                \
                                .call = capo_event_call((d)->ce.func), \
                                .algo_proto = CAPO_KERNEL_COPY_ENGINE})
