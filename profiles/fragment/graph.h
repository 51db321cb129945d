/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graph files (NCCL_GRAPH_FILE) for an allocation, one per machine: rings and chains that use the links NCCL's own
 * search left idle, with speeds that the links really have. NCCL takes rings and chains only, all channels of a graph
 * equally fast, as many channels for trees as for rings, and as many on every machine; so these are chosen together.
 */
#ifndef CAPO_FRAGMENT_GRAPH_H
#define CAPO_FRAGMENT_GRAPH_H

#include <stdio.h>

#include "profiles/fragment/nccl.h"
#include "profiles/fragment/rails.h"

#define GRAPH_CHANNELS   16 /* NCCL doubles them after the search, and has 32 up to 2.24 */
#define GRAPH_GPUS       12 /* of one machine */
#define GRAPH_NODES      16
#define GRAPH_CANDIDATES (2 * GRAPH_CHANNELS)

/* What a graph says of all its channels; the same on every machine, because NCCL takes the worst of them. */
struct graph_side {
        double speed_intra, speed_inter; /* GB/s of a channel */
        char intra[8], inter[8];         /* NVL, PXN, ...: the worst hop */
        bool cross;                      /* a ring leaves by another NIC than it came in */
        bool same;                       /* all channels of every machine take the same order */
};

struct graph_node {
        int n_gpus, first;                                             /* ranks first .. first + n_gpus - 1 */
        int pattern;                                                   /* of NCCL's tree graph there */
        struct rails_thing ring[GRAPH_CHANNELS], tree[GRAPH_CHANNELS]; /* GPUs from 0; NICs only between machines */
};

struct graph_plan {
        int n_nodes, n_channels;
        struct graph_side ring, tree;
        double latency_inter;
        int n_aligned;             /* ring channels that meet the same NIC number at both ends of every hop */
        double tree_gbs, ring_gbs; /* all-reduce by the links' rates: no model */
        double own_gbs;            /* the same for NCCL's own channels; 0 on one machine, where it is not asked */
        struct graph_node nodes[GRAPH_NODES];
};

/**
 * graph_choose() - the candidates, by rising number of channels
 * @own: NCCL's answer without a file (its rings serve where the links have none)
 * @out: room for GRAPH_CANDIDATES
 *
 * Between machines only candidates are made that use links better than NCCL's own channels do when those run as fast as
 * their links allow: a file that only promises more for the same channels gains nothing.
 *
 * Return: how many; 0 none (a switch, no NVLink between all, one GPU, links that are full already: @why says which);
 * -ENOMEM.
 */
int graph_choose(const struct capo_topology *t, const struct capo_alloc *a, const struct fragment_nccl *own,
                 struct graph_plan *out, char *why, size_t room);

/** graph_between() - the same, for several machines (graph_choose() asks it). */
int graph_between(const struct capo_topology *t, const struct capo_alloc *a, const struct fragment_nccl *own,
                  struct graph_plan *out, char *why, size_t room);

/** graph_write() - the file of one machine, as NCCL reads it. GPU numbers are hexadecimal from 2.21.5 on. Return: 0;
 * -EIO. */
int graph_write(FILE *f, const struct graph_plan *g, int node, const struct capo_topology *t,
                const struct capo_alloc *a, int nccl_version);

/** graph_accepted() - did NCCL take the channels as they are in the files, on every machine? Return: true, or false
 * with @why. */
bool graph_accepted(const struct graph_plan *g, const struct capo_topology *t, const struct capo_alloc *a,
                    const struct fragment_nccl *with, char *why, size_t room);

/* --- shared by the two choosers --- */

/** graph_own() - NCCL's graph @id of a machine, or NULL. */
const struct capo_plan_graph *graph_own(const struct fragment_nccl *own, int node, int id);

/** graph_own_channel() - one channel of it: "net0 1 2 3 net0" back to GPUs and NICs (-1 none). */
bool graph_own_channel(const struct capo_plan_graph *g, size_t channel, const struct capo_topology *t,
                       const struct capo_alloc *a, struct rails_thing *out);

#endif
