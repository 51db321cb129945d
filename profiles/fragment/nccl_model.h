/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's own choice and time for an allocation, in the terms of the ceilings: a wrapper of
 * profiles/plan/plan.h. */
#pragma once

#include "profiles/fragment/fragment.h"
#include "profiles/plan/plan.h"

/* A machine for questions to NCCL. */
struct fragment_machine {
        const char *tools, *libnccl, *topo,
                *platform;             /* as in struct capo_plan_question; one file for all nodes */
        const struct capo_topology *t; /* the same machine, parsed */
        int domain;                    /* machines that share an NVLink domain (MNNVL); 0: none */
        const struct capo_topology *tray; /* `t` is a domain of these; else NULL */
};

struct fragment_advice;

struct fragment_nccl {
        int version; /* 22809; 0: not asked, with the reason in why_not */
        int nodes;   /* as NCCL counts them: parts that NVLink does not connect may be two */
        struct fragment_nccl_row {
                double gbs; /* algorithm bandwidth by NCCL's model at 1 GiB; negative: not known */
                char what[40]; /* "Ring Simple 4 ch" */
        } broadcast, allgather, allreduce;
        char ring[80], tree[80];              /* "2 x 20 GB/s NVB" */
        const struct fragment_advice *advice; /* NULL: not asked */
        char why_not[512];
};

/** fragment_ask() - capo_plan_ask() for that machine, with graphs; @gpus as in plan.h. */
int fragment_ask(const struct fragment_machine *m, const struct capo_plan_gpu *gpus, int n,
                 const struct capo_plan_ask *asks, size_t n_asks, struct capo_plan_answer *out,
                 char *why, size_t room);

/* What it is about, the all-reduce first. */
enum { FRAGMENT_NCCL_ASKS = 3 };
void fragment_nccl_asks(int n_ranks, struct capo_plan_ask asks[FRAGMENT_NCCL_ASKS]);
void fragment_nccl_fill(const struct capo_plan_answer *answer, struct fragment_nccl *out);

/** fragment_nccl_ask() - Return: 0; negative errno with out->why_not set and all else empty. */
int fragment_nccl_ask(const struct fragment_machine *m, const struct capo_alloc *a,
                      struct fragment_nccl *out);
