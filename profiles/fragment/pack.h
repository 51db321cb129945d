/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mathematics of what a set of links can carry, in whole numbers.
 *
 * A network has `n` vertices; the first `n_ranks` are GPUs, the rest are relays: switches, PCI bridges, CPUs, NICs,
 * which pass data on but neither copy nor add it. cap[u * n + v] is the capacity from u to v in units; full duplex, so
 * it is symmetric unless a function says otherwise. All results are exact.
 *
 *   broadcast, reduce           Edmonds: as many link-disjoint trees from the root as the smallest cut allows. Links
 *                               are full duplex, so the smallest cut, and the answer, are the same for every root.
 *   all-gather, reduce-scatter  every rank is the root of the same share x. A set S of vertices that holds some ranks
 *                               but not all must send x for each of its ranks: x = min capacity leaving S / ranks in
 *                               S, and trees that attain it exist (Edmonds' theorem with several roots; with relays
 *                               because the links in and out of each balance: Bang-Jensen, Frank, Jackson 1995).
 *   all-reduce                  each tree takes the sums up one direction of its links and the result down the other,
 *                               so trees are undirected. Tutte and Nash-Williams: min over partitions of capacity
 *                               between parts / (parts - 1).
 */
#ifndef CAPO_FRAGMENT_PACK_H
#define CAPO_FRAGMENT_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack_net {
        int n, n_ranks;
        int64_t *cap; /* n * n */
};

/* A rate in units: num / den, lowest terms. */
struct pack_rate {
        int64_t num, den;
};

struct pack_edge {
        int16_t from, to; /* parent to child for rooted trees */
};

/* A tree that reaches all ranks; its n_ranks - 1 edges follow those of the tree before it in pack_trees.edges. */
struct pack_tree {
        struct pack_rate rate; /* units */
        int root;
};

struct pack_trees {
        int n_ranks, n_trees;
        struct pack_tree *trees;
        struct pack_edge *edges; /* (n_ranks - 1) per tree; between ranks, relays in between are not listed */
};

void pack_trees_free(struct pack_trees *t);

/** pack_rate_make() - num / den in lowest terms. */
struct pack_rate pack_rate_make(int64_t num, int64_t den);

/* Each returns 0, or -ENOMEM. A net whose ranks are not connected has rate 0. */

/** pack_broadcast() - rate of broadcast or reduce, any root. */
int pack_broadcast(const struct pack_net *net, struct pack_rate *out);

/** pack_gather() - x, the rate each rank's own data spreads at; the algorithm bandwidth is n_ranks times that. */
int pack_gather(const struct pack_net *net, struct pack_rate *out);

/** pack_strength() - rate of all-reduce; the net must have no relays (-EINVAL). @oriented: NULL, or room for n * n:
 * capacities, scaled by out->den, with each link's split between its two directions so that `out->num` trees from rank
 * 0 can be packed in them. */
int pack_strength(const struct pack_net *net, struct pack_rate *out, int64_t *oriented);

/* A way between two ranks through relays (or none), and how much of the direct link between them goes over it. */
struct pack_way {
        int64_t amount;
        int n;             /* vertices, both ranks among them */
        int16_t *vertices; /* owned */
};

struct pack_ways {
        int n_ways;
        struct pack_way *ways;
};

void pack_ways_free(struct pack_ways *w);

/**
 * pack_unrelay() - replace the relays by direct links between ranks that carry as much
 * @net:   relays' links in and out must balance (symmetric capacities do)
 * @scale: capacities are multiplied by it first
 * @root:  each rank's own rate after scaling (NULL: each 0), the demand to preserve: the sum of roots reaches every
 *         rank
 * @out:   n_ranks * n_ranks capacities, in general not symmetric
 * @ways:  NULL, or the ways those capacities go; together they use no link of the net beyond its scaled capacity
 *
 * Return: 0; -ENOMEM; -EDOM the demand was not feasible to begin with.
 */
int pack_unrelay(const struct pack_net *net, int64_t scale, const int64_t *root, int64_t *out, struct pack_ways *ways);

/** pack_arborescences() - spanning trees with root[v] of them rooted at v
 * @cap:  n * n, whole numbers, any direction; too small for the demand is -EDOM
 * @den:  rates of the trees are divided by it
 */
int pack_arborescences(int n, const int64_t *cap, const int64_t *root, int64_t den, struct pack_trees *out);

#endif
