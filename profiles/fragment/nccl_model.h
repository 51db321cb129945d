/* SPDX-License-Identifier: Apache-2.0 */
/* What real NCCL would do with an allocation, beside the ceilings: profiles/plan/plan.h asked in
 * the ceilings' terms. */
#ifndef CAPO_FRAGMENT_NCCL_H
#define CAPO_FRAGMENT_NCCL_H

#include "profiles/fragment/fragment.h"
#include "profiles/plan/plan.h"

/* A machine that NCCL can be asked about. */
struct fragment_machine {
        const char *tools, *libnccl, *topo,
                *platform;             /* as in struct capo_plan_question; one file for all nodes */
        const struct capo_topology *t; /* the same machine, read */
        int domain; /* machines that share an NVLink domain (MNNVL); 0: NVLink ends at the machine
                     */
        const struct capo_topology
                *tray; /* `t` is a domain of these (fragment_trays.h); NULL: no */
};

struct fragment_nccl {
        int version; /* 22809; 0: not asked, and why_not says why */
        int nodes;   /* as NCCL counts them: a machine that falls apart over NVLink may count as two
                      */
        struct fragment_nccl_row {
                double gbs; /* algorithm bandwidth by NCCL's model at 1 GiB; negative: not known */
                char what[40]; /* "Ring Simple 4 ch" */
        } broadcast, allgather, allreduce;
        char ring[80], tree[80]; /* "2 x 20 GB/s NVB" */
        char why_not[512];
};

/** fragment_ask() - capo_plan_ask() on that machine, with the graphs; @gpus as plan.h has them. */
int fragment_ask(const struct fragment_machine *m, const struct capo_plan_gpu *gpus, int n,
                 const struct capo_plan_ask *asks, size_t n_asks, struct capo_plan_answer *out,
                 char *why, size_t room);

/** fragment_nccl_ask() - Return: 0; negative errno with out->why_not set and everything else empty.
 */
int fragment_nccl_ask(const struct fragment_machine *m, const struct capo_alloc *a,
                      struct fragment_nccl *out);

#endif
