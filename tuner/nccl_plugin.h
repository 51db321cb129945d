/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's tuner plugin ABI in our own words, versions 1 to 6. Layouts: nccl src/include/nccl_tuner.h
 * of 2.19.1 and 2.21.5 (v1, v2), src/include/plugin/tuner/tuner_v2.h .. tuner_v6.h of 2.30.7 (v2 ..
 * v6). They have not changed between releases.
 *
 *   v1  2.19-2.20      no context                    v4  2.24+ (native to 2.27)   regBuff
 *   v2  2.21+          context                       v5  2.28.3+                  domains,
 *       constants
 *   v3  2.22+          cost table                    v6  2.30.3+                  getChunkSize
 *
 * NCCL asks for the newest it knows, then older ones, and takes the first found. The symbol is an
 * object, not a function. A newer version's layout stands in its own file, tuner/abi/tuner_vN.c. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "capo/call_kinds.h"

/* ncclResult_t, as far as a plugin returns it (nccl.h). */
enum { CAPO_NCCL_SUCCESS = 0, CAPO_NCCL_SYSTEM_ERROR = 2, CAPO_NCCL_INVALID_USAGE = 5 };
typedef int capo_nccl_result;

/* ncclDebugLogLevel and the flag bits used here (nccl_common.h). */
enum { CAPO_NCCL_LOG_WARN = 2, CAPO_NCCL_LOG_INFO = 3 };
enum { CAPO_NCCL_INIT = 1, CAPO_NCCL_TUNING = 0x40, CAPO_NCCL_ALL = ~0 };
typedef void (*capo_nccl_log)(int level, unsigned long flags, const char *file, int line,
                              const char *format, ...);

/* NCCL's numbers: algorithms TREE 0 .. PAT 6, protocols LL 0, LL128 1, SIMPLE 2: capo's - 1. */

struct capo_nvl_info { /* ncclNvlDomainInfo_v5_t: nodes as NCCL counts them, ranks on the smallest
                          and largest */
        int n_domains, min_ranks, max_ranks;
};

struct capo_nccl_constants { /* ncclTunerConstants_v5_t; microseconds and GB/s */
        double base_latency[CAPO_NCCL_ALGOS][CAPO_NCCL_PROTOS];
        double hw_latency[3][CAPO_NCCL_ALGOS][CAPO_NCCL_PROTOS]; /* NVLink, PCI, NET */
        double ll_bw[4][3]; /* Volta .. Blackwell; 1, 2, more nodes */
        double ring_ll128_bw[4][3];
        double tree_ll128_bw[4][3];
        double tree_bw[4][3];
        double nvls_tree_bw[4][3];
};
static_assert(offsetof(struct capo_nccl_constants, hw_latency) == 168, "tuner_v5.h");
static_assert(offsetof(struct capo_nccl_constants, ll_bw) == 672, "tuner_v5.h");
static_assert(offsetof(struct capo_nccl_constants, ring_ll128_bw) == 768, "tuner_v5.h");
static_assert(offsetof(struct capo_nccl_constants, tree_ll128_bw) == 864, "tuner_v5.h");
static_assert(offsetof(struct capo_nccl_constants, tree_bw) == 960, "tuner_v5.h");
static_assert(offsetof(struct capo_nccl_constants, nvls_tree_bw) == 1056, "tuner_v5.h");
static_assert(sizeof(struct capo_nccl_constants) == 1152, "tuner_v5.h");
static_assert(sizeof(struct capo_nvl_info) == 12, "tuner_v5.h");

struct capo_tuner_v1 {
        const char *name;
        capo_nccl_result (*init)(size_t n_ranks, size_t n_nodes, capo_nccl_log log);
        capo_nccl_result (*get_coll_info)(int func, size_t bytes, int collnet, int nvls,
                                          int pipe_ops, int *algo, int *proto, int *channels);
        capo_nccl_result (*destroy)(void);
};

struct capo_tuner_v2 {
        const char *name;
        capo_nccl_result (*init)(size_t n_ranks, size_t n_nodes, capo_nccl_log log, void **context);
        capo_nccl_result (*get_coll_info)(void *context, int func, size_t bytes, int collnet,
                                          int nvls, int pipe_ops, int *algo, int *proto,
                                          int *channels);
        capo_nccl_result (*destroy)(void *context);
};

/* `table` is declared float ** and is one flat row-major array float[n_algos][n_protos]. */
struct capo_tuner_v3 {
        const char *name;
        capo_nccl_result (*init)(size_t n_ranks, size_t n_nodes, capo_nccl_log log, void **context);
        capo_nccl_result (*get_coll_info)(void *context, int func, size_t bytes, int pipe_ops,
                                          float **table, int n_algos, int n_protos, int *channels);
        capo_nccl_result (*destroy)(void *context);
};

struct capo_tuner_v4 {
        const char *name;
        capo_nccl_result (*init)(size_t n_ranks, size_t n_nodes, capo_nccl_log log, void **context);
        capo_nccl_result (*get_coll_info)(void *context, int func, size_t bytes, int pipe_ops,
                                          float **table, int n_algos, int n_protos, int reg_buff,
                                          int *channels);
        capo_nccl_result (*destroy)(void *context);
};

struct capo_tuner_v5 {
        const char *name;
        capo_nccl_result (*init)(void **context, uint64_t comm_id, size_t n_ranks, size_t n_nodes,
                                 capo_nccl_log log, struct capo_nvl_info *nvl,
                                 struct capo_nccl_constants *constants);
        capo_nccl_result (*get_coll_info)(void *context, int func, size_t bytes, int pipe_ops,
                                          float **table, int n_algos, int n_protos, int reg_buff,
                                          int *channels);
        capo_nccl_result (*finalize)(void *context);
};

struct capo_tuner_v6 {
        const char *name;
        capo_nccl_result (*init)(void **context, uint64_t comm_id, size_t n_ranks, size_t n_nodes,
                                 capo_nccl_log log, struct capo_nvl_info *nvl,
                                 struct capo_nccl_constants *constants);
        capo_nccl_result (*get_coll_info)(void *context, int func, size_t bytes, int pipe_ops,
                                          float **table, int n_algos, int n_protos, int reg_buff,
                                          int *channels);
        capo_nccl_result (*finalize)(void *context);
        capo_nccl_result (*get_chunk_size)(void *context, int func, size_t bytes, int algo,
                                           int proto, int channels, size_t *chunk);
};
static_assert(sizeof(struct capo_tuner_v1) == 32 && sizeof(struct capo_tuner_v2) == 32,
              "name and three functions");
static_assert(sizeof(struct capo_tuner_v3) == 32 && sizeof(struct capo_tuner_v4) == 32,
              "name and three functions");
static_assert(sizeof(struct capo_tuner_v5) == 32 && sizeof(struct capo_tuner_v6) == 40,
              "v6 has getChunkSize");
