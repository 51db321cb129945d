/* SPDX-License-Identifier: Apache-2.0 */
/* The capacity of a set of links for each collective, in whole numbers.
 *
 * A network has `n` vertices. The first `n_ranks` are GPUs; the rest are relays (switches, PCI
 * bridges, CPUs, NICs), which forward data but neither copy nor add it. cap[u * n + v] is the
 * capacity from u to v in units; it is symmetric, because links are full duplex. All results are
 * exact, except all-reduce with relays: one part in 1e9.
 *
 *   broadcast, reduce           Edmonds: as many link-disjoint trees from the root as the smallest
 *                               cut allows. Links are full duplex, so the smallest cut, and the
 *                               answer, are the same for every root.
 *   all-gather, reduce-scatter  every rank is the root of the same share x. A set S of vertices
 *                               that holds some ranks but not all must send x for each of its
 *                               ranks: x = min capacity leaving S / ranks in S, and trees that
 *                               attain it exist (Edmonds' theorem with several roots; with relays
 *                               because the links in and out of each balance: Bang-Jensen, Frank,
 *                               Jackson 1995).
 *   all-reduce                  each tree takes the sums up one direction of its links and the
 *                               result down the other, so trees are undirected. Tutte and
 *                               Nash-Williams: min over partitions of capacity between parts /
 *                               (parts - 1). With relays their edges are paths through them. */
#pragma once

#include "core/base/util.h"

struct pack_net {
        int n, n_ranks;
        int64_t *cap; /* n * n */
};

/* A rate in units: num / den, lowest terms. */
struct pack_rate {
        int64_t num, den;
};

/** pack_gcd() - greatest common divisor; with 0, the other number. */
int64_t pack_gcd(int64_t a, int64_t b);

/** pack_rate_make() - num / den in lowest terms. */
struct pack_rate pack_rate_make(int64_t num, int64_t den);

/* If the ranks are not connected, the rate is 0. */

/** pack_broadcast() - rate of broadcast or reduce, any root. */
void pack_broadcast(const struct pack_net *net, struct pack_rate *out);

/** pack_gather() - the rate x at which each rank's own data spreads; the algorithm bandwidth is
 * n_ranks times x. */
void pack_gather(const struct pack_net *net, struct pack_rate *out);

/** pack_allreduce() - rate of all-reduce. */
void pack_allreduce(const struct pack_net *net, double *out);
