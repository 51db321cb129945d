/* SPDX-License-Identifier: Apache-2.0 */
/* All ways to take k GPUs of a machine, or k of one node and l of another. NCCL is asked about
 * each. Splits with identical answers are one group. For two nodes, pairs of subsets that are equal
 * by the machine's symmetry are asked once, unless `all` is set. */
#pragma once

#include "profiles/fragment/bound.h"

struct split_cell { /* NCCL's answer to one ask */
        uint8_t algo, proto, channels;
        double us, busbw;
};

struct split {           /* an allocation and its answer */
        uint32_t set[2]; /* bit i: the machine's i-th GPU */
        uint32_t stands_for;
        struct capo_plan_gpu *gpus;
        size_t n_gpus;
        int rc;
        int nodes; /* as NCCL counts */
        char ring[64], tree[64];
        struct split_cell *cells;    /* one per ask of the question */
        struct fragment_bound bound; /* class and ceilings; class "": the topology has no links */
        size_t group;
        char why[256];
};

struct split_group {      /* splits with identical answers */
        size_t first;     /* index of one of them */
        size_t count;     /* number of allocations, including those skipped by symmetry */
        double low, high; /* range of ceilings of the last ask, bus bandwidth; high 0: not known */
        enum capo_ceiling_of of;
        bool hybrid; /* for some of them it includes PCIe and NICs */
        const char *classes[4];
        size_t n_classes;
        bool more_classes;
};

struct splits {
        /* set by the caller */
        const struct capo_plan_question *question; /* its GPUs are set per split */
        const uint16_t *devs;                      /* the machine's GPUs, ascending; 32 at most */
        size_t n_devs;
        int k[2]; /* k[1] 0: one node */
        bool all; /* do not use symmetry */
        unsigned at_once;
        void (*progress)(size_t done, size_t of); /* may be NULL */

        /* results */
        struct split *splits;
        size_t n_splits, n_all; /* asked; represented */
        int version;
        struct split_group *groups; /* fastest first, by the last ask */
        size_t n_groups;
        size_t done;
};

/** splits_ask() - Return: 0; negative errno with @why. */
int splits_ask(struct splits *s, char *why, size_t room);
