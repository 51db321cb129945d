/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph file (NCCL_GRAPH_FILE) for one machine's allocation: rings and chains that use the links NCCL's own search
 * left idle, with speeds that the links really have. NCCL takes rings and chains only, all channels of a graph equally
 * fast, and as many channels for trees as for rings; so these are chosen together.
 */
#ifndef CAPO_FRAGMENT_GRAPH_H
#define CAPO_FRAGMENT_GRAPH_H

#include <stdio.h>

#include "profiles/fragment/nccl.h"

#define GRAPH_CHANNELS 16 /* NCCL doubles them after the search, and has 32 up to 2.24 */
#define GRAPH_GPUS     12

struct graph_side {
        double speed;                          /* GB/s of a channel */
        char type[8];                          /* NVL, NVB, ... of the worst hop */
        int order[GRAPH_CHANNELS][GRAPH_GPUS]; /* ranks of the allocation */
};

struct graph_plan {
        int n_gpus, n_channels;
        struct graph_side ring, tree;
        int tree_pattern; /* as NCCL's own */
        char type_inter[8];
        double tree_gbs, ring_gbs; /* all-reduce, links' rates: no model */
};

/**
 * graph_choose() - the candidates, by rising number of channels
 * @own: NCCL's answer without a file (its rings serve where the links have none)
 * @out: room for GRAPH_CHANNELS
 *
 * Return: how many; 0 none (a switch, no NVLink between all, one GPU, several machines: @why says which); -ENOMEM.
 */
int graph_choose(const struct capo_topology *t, const struct capo_alloc *a, const struct fragment_nccl *own,
                 struct graph_plan *out, char *why, size_t room);

/** graph_write() - as NCCL reads it. GPU numbers are hexadecimal from 2.21.5 on. Return: 0; -EIO. */
int graph_write(FILE *f, const struct graph_plan *g, const struct capo_topology *t, const struct capo_alloc *a,
                int nccl_version);

/** graph_accepted() - did NCCL take the channels as they are in the file? Return: true, or false with @why. */
bool graph_accepted(const struct graph_plan *g, const struct capo_topology *t, const struct capo_alloc *a,
                    const struct fragment_nccl *with, char *why, size_t room);

#endif
