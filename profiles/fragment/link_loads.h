/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the channels that NCCL made put on the links under them, and so how fast they can go at
 * most. The ceilings of profiles/fragment/fragment.h ask for the best that any rings, chains or
 * trees could do; this asks for the ones there are.
 */
#ifndef CAPO_FRAGMENT_LOADS_H
#define CAPO_FRAGMENT_LOADS_H

#include "profiles/fragment/fragment.h"
#include "profiles/plan/plan.h"

#define CAPO_NODE_GPUS_MAX 72 /* of what NCCL counts as a node: a rack's */

/* What NCCL counts as a node: a machine's GPUs, or a part of them that NVLink does not join with
 * the rest, or the trays of an NVLink domain. */
struct fragment_domain {
        int machine;                               /* struct capo_alloc_rank.node */
        int n_gpus, gpus[CAPO_NODE_GPUS_MAX];      /* indexes in the topology */
        const struct capo_plan_graph *ring, *tree; /* as NCCL found them there; not owned */
};

struct fragment_attained {
        double ring_gbs, tree_gbs; /* bus bandwidth in NCCL's sense: Ring's all-reduce is n / 2(n -
                                      1) of it, Tree's half */
        char ring_full[64],
                tree_full[64]; /* the link that is full first: "GPU 0 to GPU 3", "NIC mlx5_0 out" */
};

/**
 * fragment_loads() - the rate at which the first link is full
 * @domains:    by machine, those of one machine together; in the order of their lowest ranks
 * @n_channels: as many of each graph's channels are used: the least that any node found
 *
 * A ring channel carries its share once along each of its edges. A tree channel carries its share
 * up and down: each edge in both directions, and over the NICs once for the parent and once for
 * each child that the node has in NCCL's double binary tree. Paths: NVLink, over one other GPU of
 * the node where there is none, else PCIe; to a NIC behind another PCIe root the sender goes by
 * NVLink to a GPU beside it (PXN), the receiver does not (src/graph/connect.cc, paths.cc,
 * transport/net.cc of NCCL 2.28).
 *
 * Return: 0; -EINVAL the graphs or PCI speeds are missing; -ENOMEM.
 */
int fragment_loads(const struct capo_topology *t, const struct fragment_domain *domains,
                   int n_domains, int n_channels, struct fragment_attained *out);

#endif
