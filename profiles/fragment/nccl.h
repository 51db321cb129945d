/* SPDX-License-Identifier: Apache-2.0 */
/* What real NCCL would do with an allocation, beside the ceilings: profiles/plan/plan.h asked in the ceilings' terms. */
#ifndef CAPO_FRAGMENT_NCCL_H
#define CAPO_FRAGMENT_NCCL_H

#include "profiles/fragment/fragment.h"
#include "profiles/plan/plan.h"

#define FRAGMENT_NCCL_BYTES (1ull << 30) /* large enough that latency is nothing */
#define FRAGMENT_NCCL_SIZES 64

enum { FRAGMENT_BROADCAST, FRAGMENT_ALLGATHER, FRAGMENT_ALLREDUCE, FRAGMENT_COLLS };

struct fragment_nccl {
        int version; /* 22809; 0: not asked, and why_not says why */
        int nodes;   /* as NCCL counts them: a machine that falls apart over NVLink may count as two */
        struct fragment_nccl_row {
                double gbs; /* algorithm bandwidth by NCCL's model at FRAGMENT_NCCL_BYTES; negative: not known */
                double best_gbs[2]; /* all-reduce: the best Tree and the best Ring of its cost table; negative: none */
                uint8_t algo, proto, channels;
                char what[40]; /* "Ring Simple 4 ch" */
        } broadcast, allgather, allreduce;
        struct fragment_nccl_size { /* the same at the sizes asked for */
                uint64_t bytes;
                struct fragment_nccl_row row[FRAGMENT_COLLS];
        } * sizes;
        size_t n_sizes;
        char ring[80], tree[80];        /* "2 x 20 GB/s NVB" */
        struct capo_plan_answer answer; /* graphs and the rest; fragment_nccl_finish() */
        char why_not[512];
};

/* What is asked, beside the allocation. */
struct fragment_nccl_ask {
        const char *tools; /* as capo_plan_question.tools */
        const char *libnccl;
        const char *topo;               /* the NCCL XML the topology was read from */
        const char *platform;           /* completes it; NULL nothing */
        const char *const *graph_files; /* NCCL_GRAPH_FILE of each machine; NULL: NCCL searches by itself */
        size_t n_graph_files;
        const uint64_t *sizes; /* beside FRAGMENT_NCCL_BYTES; at most FRAGMENT_NCCL_SIZES */
        size_t n_sizes;
};

/** fragment_nccl_ask() - Return: 0; negative errno with out->why_not set and everything else empty. */
int fragment_nccl_ask(const struct fragment_nccl_ask *ask, const struct capo_topology *t, const struct capo_alloc *a,
                      struct fragment_nccl *out);
void fragment_nccl_finish(struct fragment_nccl *n);

#endif
