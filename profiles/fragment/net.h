/* SPDX-License-Identifier: Apache-2.0 */
/* From a machine and an allocation to a network of pack.h. */
#ifndef CAPO_FRAGMENT_NET_H
#define CAPO_FRAGMENT_NET_H

#include "profiles/fragment/fragment.h"
#include "profiles/fragment/lp.h"

struct fragment_name {
        char text[40];
};

/**
 * fragment_net() - the allocation's links
 * @hybrid:   false: NVLink (xGMI) among the GPUs, all NVSwitches of a machine as one relay; true: PCI, CPUs and NICs
 *            too, and one network between all NICs
 * @unit_gbs: what capacity 1 stands for; capacities have no common divisor
 * @names:    NULL, or what each vertex is: "0:3" GPU 3 of machine 0, "0:0000:03:00.0" a bridge, "0:cpu1", "0:switch",
 *            "network"; free()
 *
 * Relays that lead nowhere are left out, and those with two neighbours become a direct link.
 * Return: 0; -ENOMEM.
 */
int fragment_net(const struct capo_topology *t, const struct capo_alloc *a, bool hybrid, struct pack_net *out,
                 double *unit_gbs, struct fragment_name **names);

/** fragment_cpu_link_gbs() - the link between this CPU and another of its machine, each direction. */
double fragment_cpu_link_gbs(const struct capo_topology_cpu *cpu);

/** fragment_nic_counts() - interfaces below 1 GB/s are for management, unless there is nothing faster. */
bool fragment_nic_counts(const struct capo_topology *t, size_t nic);

/** fragment_star() - port capacity when every rank hangs on one relay by equal links and by nothing else; else 0. */
int64_t fragment_star(const struct pack_net *net);

#define TOUR_GPUS 12 /* the table behind rings and chains has 12 * 2^12 cells */

/** fragment_tours() - rings (@closed) or chains through all GPUs, packed as full as they go
 * @out: each thing is the order of ranks, int8_t [n]; the caller ends it with lp_result_free()
 * Return: 0; -EINVAL relays, fewer than 2 (rings: 3) or more than TOUR_GPUS GPUs; -ENOMEM. */
int fragment_tours(const struct pack_net *net, bool closed, struct lp_result *out);

/** fragment_shapes() - rings and chains; the net has no relays, or is a star of ports of @bricks bricks. */
int fragment_shapes(const struct pack_net *net, double unit_gbs, double brick_gbs, struct capo_shapes *out);

#endif
