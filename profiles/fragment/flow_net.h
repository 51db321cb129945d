/* SPDX-License-Identifier: Apache-2.0 */
/* From a machine and an allocation to a network of tree_pack.h. */
#ifndef CAPO_FRAGMENT_NET_H
#define CAPO_FRAGMENT_NET_H

#include "profiles/fragment/fragment.h"
#include "profiles/fragment/tree_pack.h"

/**
 * fragment_net() - the allocation's links
 * @hybrid:   false: NVLink (xGMI) among the GPUs, all NVSwitches of a machine as one relay; true:
 *            PCI, CPUs and NICs too, and one network between all NICs
 * @unit_gbs: what capacity 1 stands for; capacities have no common divisor
 *
 * Relays that lead nowhere are left out, and those with two neighbours become a direct link.
 * Return: 0; -ENOMEM.
 */
int fragment_net(const struct capo_topology *t, const struct capo_alloc *a, bool hybrid,
                 struct pack_net *out, double *unit_gbs);

/** fragment_cpu_link_gbs() - the link between this CPU and another of its machine, each direction.
 */
double fragment_cpu_link_gbs(const struct capo_topology_cpu *cpu);

/** fragment_star() - port capacity when every rank hangs on one relay by equal links and by nothing
 * else; else 0. */
int64_t fragment_star(const struct pack_net *net);

/** fragment_shapes() - rings and chains; the net has no relays, or is a star of ports of @bricks
 * bricks. */
int fragment_shapes(const struct pack_net *net, double unit_gbs, double brick_gbs,
                    struct capo_shapes *out);

#endif
