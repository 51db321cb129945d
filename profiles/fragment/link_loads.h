/* SPDX-License-Identifier: Apache-2.0 */
/* The load that NCCL's channels put on the links, and thus the highest rate they can reach. The
 * ceilings of profiles/fragment/fragment.h are for the best possible rings, chains or trees; this
 * is for the actual ones. */
#pragma once

#include "profiles/fragment/fragment.h"
#include "profiles/plan/plan.h"

#define CAPO_NODE_GPUS_MAX 72 /* GPUs of one NCCL node, at most: a rack */

/* What NCCL counts as a node: the GPUs of a machine, or a part of them without NVLink to the rest,
 * or the trays of an NVLink domain. */
struct fragment_domain {
        int machine;                               /* struct capo_alloc_rank.node */
        int n_gpus, gpus[CAPO_NODE_GPUS_MAX];      /* indices in the topology */
        const struct capo_plan_graph *ring, *tree; /* as NCCL found them there; not owned */
};

struct fragment_attained {
        double ring_gbs, tree_gbs; /* bus bandwidth as NCCL defines it: all-reduce has n / 2(n - 1)
                                      of it with Ring, half of it with Tree */
        char ring_full[64], tree_full[64]; /* the link that is saturated first: "GPU 0 to GPU 3",
                                              "NIC mlx5_0 out" */
};

/** fragment_loads() - the rate at which the first link is saturated
 * @domains: by machine, those of one machine together; in the order of their lowest ranks
 * @n_channels: the channels used of each graph: the fewest that any node found
 *
 * A ring channel carries its share once along each of its edges. A tree channel carries its share
 * up and down: each edge in both directions, and over the NICs once for the parent and once for
 * each child that the node has in NCCL's double binary tree. Paths: NVLink; over one other GPU of
 * the node if there is no direct one; else PCIe. To a NIC behind another PCIe root the sender uses
 * NVLink to a GPU beside the NIC (PXN); the receiver does not (src/graph/connect.cc, paths.cc,
 * transport/net.cc of NCCL 2.28).
 *
 * Return: 0; -EINVAL: the graphs or PCI speeds are missing. */
int fragment_loads(const struct capo_topology *t, const struct fragment_domain *domains,
                   int n_domains, int n_channels, struct fragment_attained *out);
