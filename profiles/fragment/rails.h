/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How channels between machines can lie on one machine: in by a NIC, through all its GPUs, out by a NIC. Which links
 * each takes, and how many fit.
 */
#ifndef CAPO_FRAGMENT_RAILS_H
#define CAPO_FRAGMENT_RAILS_H

#include "profiles/fragment/fragment.h"
#include "profiles/fragment/ways.h"

#define RAILS_GPUS 12 /* the table behind the search has 12 * 2^12 cells */

/* One channel on one machine. GPUs by their place among the machine's own in the allocation, NICs as the topology has
 * them. */
struct rails_thing {
        int8_t order[RAILS_GPUS];
        int8_t nic_in, nic_out; /* a tree has one NIC for both directions */
};

/*
 * What a channel of rate 1 (GB/s each way) loads. A ring comes in by a NIC, passes the GPUs once and leaves. A tree
 * carries sums up and results down its chain; outside it is NCCL's double binary tree (connect.cc, trees.cc): between
 * two machines the first GPU sends and receives each byte once; among more, a machine has two children in one of the
 * two trees, a parent in both, and the second GPU serves one child (pattern 1) or the first GPU all (pattern 3).
 */
enum rails_shape { RAILS_RING, RAILS_TREE };

struct rails;

/**
 * rails_new() - links of machine @node of the allocation, and how NCCL goes over them
 * @n_nodes: machines that take part: decides how a tree loads its NIC
 * @pattern: of NCCL's tree graph on this machine (1, 2 or 3)
 *
 * Return: 0; -ENOTSUP @why says why: no PCI speeds, no NIC, more than RAILS_GPUS GPUs; -ENOMEM.
 */
int rails_new(const struct capo_topology *t, const struct capo_alloc *a, int node, int n_nodes, int pattern,
              struct rails **out, char *why, size_t room);
void rails_free(struct rails *r);

/**
 * rails_route() - @n channels that fit together at a high equal rate
 * @cross: a ring may leave by another NIC than it came in
 * @nics:  NULL, or n channels whose NICs these must have, too
 *
 * Return: the rate in GB/s each way, as rails_fits() has it; 0: no channel reaches all GPUs, or a NIC of @nics does not
 * count; negative -ENOMEM.
 */
double rails_route(struct rails *r, enum rails_shape shape, bool cross, const struct rails_thing *nics, int n,
                   struct rails_thing *out);

/** rails_fits() - the greatest equal rate at which these channels fit together; 0: one of them cannot be. */
double rails_fits(const struct rails *r, enum rails_shape shape, const struct rails_thing *things, int n);

/** rails_types() - the worst hop inside and to the NICs; both only grow. */
void rails_types(const struct rails *r, enum rails_shape shape, const struct rails_thing *thing, enum way_type *intra,
                 enum way_type *inter);

#endif
