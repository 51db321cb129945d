/* SPDX-License-Identifier: Apache-2.0 */
/* Code that several versions of the tuner interface share. In a header, because each
 * file of a version stands alone: in the plugin, and in those that tests and capo plan make. */
#ifndef CAPO_TUNER_ADAPT_H
#define CAPO_TUNER_ADAPT_H

#include "tuner/choose.h"

static_assert(offsetof(struct capo_tuner_v6, get_coll_info) ==
                              offsetof(struct capo_tuner_v4, get_coll_info) &&
                      offsetof(struct capo_tuner_v6, finalize) ==
                              offsetof(struct capo_tuner_v2, destroy) &&
                      offsetof(struct capo_tuner_v6, init) == offsetof(struct capo_tuner_v5, init),
              "a newer version begins like an older one");

/* v4 on: getCollInfo. */
static inline capo_nccl_result capo_adapt_mark(void *context, int func, size_t bytes, int pipe_ops,
                                               float **table, int n_algos, int n_protos,
                                               int reg_buff, int *channels)
{
        return capo_mark_quick(context, func, bytes, pipe_ops, (float *)table, n_algos, n_protos,
                               reg_buff, channels);
}

/* v5 on: init. */
static inline capo_nccl_result capo_adapt_open(int abi, void **context, uint64_t comm_id,
                                               size_t n_ranks, size_t n_nodes, capo_nccl_log log,
                                               const struct capo_nvl_info *nvl,
                                               struct capo_nccl_constants *constants)
{
        const struct capo_tuner_info info = {abi, n_ranks, n_nodes, comm_id, nvl, constants, log};

        return capo_tuner_open(&info, (struct capo_tuner **)context);
}

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

#endif
