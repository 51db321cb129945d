/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every way to take k GPUs of a machine, or k of one node and l of another: each is a question to
 * NCCL; those that NCCL treats alike, figure for figure, are one group. For two nodes all pairs of
 * subsets are meant: those that the symmetry of the machine makes equal are asked once, unless all
 * are wanted.
 */
#ifndef CAPO_FRAGMENT_SPLITS_H
#define CAPO_FRAGMENT_SPLITS_H

#include "profiles/fragment/bound.h"

struct split_cell { /* what NCCL does with one ask */
        uint8_t algo, proto, channels;
        double us, busbw;
};

struct split {           /* an allocation, and what became of it */
        uint32_t set[2]; /* bit i: i-th GPU of the machine */
        uint32_t stands_for;
        struct capo_plan_gpu *gpus;
        size_t n_gpus;
        int rc;
        int nodes; /* as NCCL counts */
        char ring[64], tree[64];
        struct split_cell *cells;    /* as the question's asks */
        struct fragment_bound bound; /* class and ceilings; class "" where the file has no links */
        size_t group;
        char why[256];
};

struct split_group {      /* splits that NCCL treats alike */
        size_t first;     /* index of one of them */
        size_t count;     /* how many allocations, those that symmetry spares included */
        double low, high; /* ceilings of the last ask over them, bus bandwidth; high 0: not known */
        enum capo_ceiling_of of;
        bool hybrid; /* of some of them PCIe and NICs are in it */
        const char *classes[4];
        size_t n_classes;
        bool more_classes;
};

struct splits {
        /* asked */
        const struct capo_plan_question *question; /* its GPUs are filled in per split */
        const uint16_t *devs; /* the machine's GPUs by rising number, 32 at most */
        size_t n_devs;
        int k[2]; /* k[1] 0: one node */
        bool all; /* also what symmetry makes equal */
        unsigned at_once;
        void (*progress)(size_t done, size_t of); /* may be NULL */

        /* found */
        struct split *splits;
        size_t n_splits, n_all; /* asked; meant */
        int version;
        struct split_group *groups; /* fastest first, by the last ask */
        size_t n_groups;
        size_t done;
};

/** splits_ask() - Return: 0; negative errno with @why, and splits_finish() even then. */
int splits_ask(struct splits *s, char *why, size_t room);
void splits_finish(struct splits *s);

#endif
