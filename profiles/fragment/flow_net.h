/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the network of tree_pack.h from a machine and an allocation. */
#pragma once

#include "profiles/fragment/fragment.h"
#include "profiles/fragment/tree_pack.h"

/** fragment_net() - the links of an allocation
 * @hybrid: false: NVLink (xGMI) among the GPUs, with all NVSwitches of a machine as one relay;
 * true: also PCI, CPUs and NICs, and one network between all NICs
 * @unit_gbs: set to the value of capacity 1; capacities have no common divisor
 *
 * Relays that lead nowhere are removed. Those with two neighbours become a direct link. */
void fragment_net(const struct capo_topology *t, const struct capo_alloc *a, bool hybrid,
                  struct pack_net *out, double *unit_gbs);

/** fragment_cpu_link_gbs() - the link between this CPU and another one of its machine, per
 * direction. */
double fragment_cpu_link_gbs(const struct capo_topology_cpu *cpu);

/** fragment_star() - the port capacity, if every rank has one equal link to the same relay and no
 * other link; else 0. */
int64_t fragment_star(const struct pack_net *net);

/** fragment_shapes() - rates of rings and chains. The net must have no relays, or be a star with
 * ports. @brick_gbs: rate of one link. */
void fragment_shapes(const struct pack_net *net, double unit_gbs, double brick_gbs,
                     struct capo_shapes *out);
