/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of NCCL's plugin interfaces, in both directions. Each file tuner/abi/tuner_vN.c and
 * tuner/profiler/profiler_vN.c has two parts. The object that NCCL finds turns its arguments into
 * calls of tuner/choose.h or tuner/profiler/profiler.h. The functions declared here call another
 * plugin of that version. include/capo/plugin_abis.def is the list. */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "tuner/nccl_plugin.h"

/* First member of each of our objects, and how we know another copy of ourselves. */
extern const char capo_plugin_name[];

/** capo_plugin_is_ours() - has a plugin our name? @name: as it has it; NULL is nobody's. */
static inline bool capo_plugin_is_ours(const char *name)
{
        return name && !strcmp(name, capo_plugin_name);
}

/* What was found in a loaded library. */
enum capo_plugin_found { CAPO_PLUGIN_NONE, CAPO_PLUGIN_OURSELVES, CAPO_PLUGIN_FOUND };

/* What NCCL tells a tuner at init, over all versions. */
struct capo_tuner_info {
        int abi;
        size_t n_ranks, n_nodes;
        uint64_t comm_id;                      /* v5 on: commHash; else 0 */
        const struct capo_nvl_info *nvl;       /* v5 on; else NULL */
        struct capo_nccl_constants *constants; /* v5 on: may be changed; else NULL */
        capo_nccl_log log;                     /* may be NULL */
};

/* @plugin is an object of that version, @context what its init gave (v1: nothing). What a version
 * does not have is NULL. */
struct capo_tuner_abi {
        int version;
        const void *own; /* the object NCCL finds in this library */
        capo_nccl_result (*open)(const void *plugin, const struct capo_tuner_info *info,
                                 void **context);
        capo_nccl_result (*close)(const void *plugin, void *context);
        /* v1 and v2: two numbers; both or none are set */
        capo_nccl_result (*name)(const void *plugin, void *context, int func, size_t bytes,
                                 int collnet, int nvls, int pipe_ops, int *algo, int *proto,
                                 int *channels);
        /* v3 on: the cost table, flat [n_algos][n_protos] */
        capo_nccl_result (*mark)(const void *plugin, void *context, int func, size_t bytes,
                                 int pipe_ops, float *table, int n_algos, int n_protos,
                                 int reg_buff, int *channels);
        capo_nccl_result (*chunk)(
                const void *plugin, void *context, int func, size_t bytes, int algo, int proto,
                int channels, size_t *chunk); /* v6 on; plugins may leave it out: nothing is done */
};

/* What NCCL tells a profiler at init. */
struct capo_profiler_info {
        int abi;
        const char *comm_name; /* v4 on; may be NULL */
        uint64_t comm_hash;    /* v4 on */
        int n_nodes, n_ranks, rank;
        capo_nccl_log log;
};

struct capo_profiler_abi {
        int version;
        int events; /* the oldest version whose events are laid out like these */
        const void *own;
        capo_nccl_result (*init)(const void *plugin, const struct capo_profiler_info *info,
                                 void **context, int *mask);
};
