/* SPDX-License-Identifier: Apache-2.0 */
/* Another tuner plugin, called through the newest version that both it and this NCCL know. */
#pragma once

#include "tuner/plugin.h"

struct capo_other {
        const struct capo_tuner_abi *abi; /* NULL: there is none */
        const void *plugin;
        void *context;
};

/** capo_other_find() - find it in @library, from what NCCL's release that speaks @abi looks for,
 * the newest first; our own object and another copy of ourselves are passed over. *out only where
 * it is found. */
enum capo_plugin_found capo_other_find(void *library, int abi, struct capo_other *out);

/* One communicator of it; the functions of the version's file. */
capo_nccl_result capo_other_open(struct capo_other *o, const struct capo_tuner_info *info);
capo_nccl_result capo_other_close(struct capo_other *o);

/** capo_other_mark() - ask it about a cost table. A plugin that names two numbers instead (v2) has
 * them made a 0.0 in the table, as in NCCL's own adapter (plugin/tuner/tuner_v2.cc): only where the
 * entry is available. */
capo_nccl_result capo_other_mark(struct capo_other *o, int func, size_t bytes, int pipe_ops,
                                 float *table, int n_algos, int n_protos, int reg_buff,
                                 int *channels);

/** capo_other_name() - ask it where there is no table; one that needs a table is not asked. */
capo_nccl_result capo_other_name(struct capo_other *o, int func, size_t bytes, int collnet,
                                 int nvls, int pipe_ops, int *algo, int *proto, int *channels);

/** capo_other_chunk() - *@chunk is left where the version or the plugin has no opinion. */
capo_nccl_result capo_other_chunk(struct capo_other *o, int func, size_t bytes, int algo, int proto,
                                  int channels, size_t *chunk);
