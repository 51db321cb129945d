/* SPDX-License-Identifier: Apache-2.0 */
/* What real NCCL would do with an allocation, beside the ceilings: profiles/plan/plan.h asked in the ceilings' terms. */
#ifndef CAPO_FRAGMENT_NCCL_H
#define CAPO_FRAGMENT_NCCL_H

#include "profiles/fragment/fragment.h"
#include "profiles/plan/plan.h"

struct fragment_nccl {
        int version; /* 22809; 0: not asked, and why_not says why */
        int nodes;   /* as NCCL counts them: a machine that falls apart over NVLink may count as two */
        struct fragment_nccl_row {
                double gbs;    /* algorithm bandwidth by NCCL's model at 1 GiB; negative: not known */
                char what[40]; /* "Ring Simple 4 ch" */
        } broadcast, allgather, allreduce;
        char ring[80], tree[80]; /* "2 x 20 GB/s NVB" */
        char why_not[512];
};

/* What is asked, beside the allocation. */
struct fragment_nccl_ask {
        const char *tools; /* as capo_plan_question.tools */
        const char *libnccl;
        const char *topo;     /* the NCCL XML the topology was read from */
        const char *platform; /* completes it; NULL nothing */
};

/** fragment_nccl_ask() - Return: 0; negative errno with out->why_not set and everything else empty. */
int fragment_nccl_ask(const struct fragment_nccl_ask *ask, const struct capo_topology *t, const struct capo_alloc *a,
                      struct fragment_nccl *out);

#endif
