/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels between machines. NCCL joins channel c of every machine to channel c of the next (rings) and to channel c of
 * its parent (trees), takes the smallest number of channels and the lowest speed that any machine has, and asks no
 * machine to be like another. So each machine's channels are laid by themselves (rails.c), the slowest machine sets the
 * speed, and the others are asked to do with its NICs: what goes out by the second NIC here comes in by the second NIC
 * there, and no switch between rails is crossed.
 *
 * Speeds are written as NCCL's search would write them, because its cost model reads them so: of a ring what it
 * carries; of a tree between two machines the NIC's share outside and twice that inside; of a tree among more, twice
 * what the channel carries on both (search.cc, tuning.cc).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "profiles/fragment/graph.h"

#define GAIN_LEAST 1.02 /* over what NCCL's own channels could carry on the same links */

struct machines {
        int n;
        struct rails *rails[GRAPH_NODES];
        int first[GRAPH_NODES], n_gpus[GRAPH_NODES], pattern[GRAPH_NODES];
};

static int none(char *why, size_t room, const char *text)
{
        snprintf(why, room, "%s", text);
        return 0;
}

static void finish(struct machines *m)
{
        for (int i = 0; i < m->n; i++)
                rails_free(m->rails[i]);
}

static int prepare(struct machines *m, const struct capo_topology *t, const struct capo_alloc *a,
                   const struct fragment_nccl *own, char *why, size_t room)
{
        int e = 0;

        if (a->n_nodes > GRAPH_NODES)
                return none(why, room, "more than 16 machines") - ENOTSUP;
        for (int i = 0; i < a->n_ranks; i++) {
                if (!m->n_gpus[a->ranks[i].node]++)
                        m->first[a->ranks[i].node] = i;
        }
        for (int node = 0; node < a->n_nodes && !e; node++) {
                const struct capo_plan_graph *tree = graph_own(own, node, 1);

                if (!tree || !graph_own(own, node, 0))
                        return none(why, room, "NCCL showed no graph of one of the machines") - ENOTSUP;
                m->pattern[node] = tree->pattern;
                e = rails_new(t, a, node, a->n_nodes, tree->pattern, &m->rails[node], why, room);
                m->n += !e;
        }
        return e;
}

/* What NCCL's own channels of a shape could carry in all, if each ran as fast as all links let them. */
static double own_total(const struct machines *m, const struct fragment_nccl *own, int id,
                        const struct capo_topology *t, const struct capo_alloc *a)
{
        double least = INFINITY;
        int n = 0;

        for (int node = 0; node < m->n; node++) {
                const struct capo_plan_graph *g = graph_own(own, node, id);

                n = !node || g->n_channels < n ? g->n_channels : n;
        }
        for (int node = 0; node < m->n; node++) {
                const struct capo_plan_graph *g = graph_own(own, node, id);
                struct rails_thing things[GRAPH_CHANNELS * 2];
                double fits;

                if (n > (int)N_ELEMENTS(things))
                        return 0;
                for (int c = 0; c < n; c++) {
                        if (!graph_own_channel(g, (size_t)c, t, a, &things[c]))
                                return 0;
                        if (id)
                                things[c].nic_out = things[c].nic_in;
                }
                fits = rails_fits(m->rails[node], id ? RAILS_TREE : RAILS_RING, things, n);
                least = fits < least ? fits : least;
        }
        return least < INFINITY ? least * n : 0;
}

static int aligned(const struct graph_plan *g)
{
        int count = 0;

        for (int c = 0; c < g->n_channels; c++) {
                bool good = true;

                for (int node = 0; node < g->n_nodes; node++) {
                        const struct graph_node *next = &g->nodes[(node + 1) % g->n_nodes];

                        good &= g->nodes[node].ring[c].nic_out == next->ring[c].nic_in;
                }
                count += good;
        }
        return count;
}

static void describe(const struct machines *m, const struct graph_plan *g, enum rails_shape shape,
                     struct graph_side *side)
{
        enum way_type intra = WAY_LOC, inter = WAY_LOC;

        side->same = true;
        side->cross = false;
        for (int node = 0; node < g->n_nodes; node++) {
                const struct rails_thing *c = shape == RAILS_RING ? g->nodes[node].ring : g->nodes[node].tree;

                for (int k = 0; k < g->n_channels; k++) {
                        rails_types(m->rails[node], shape, &c[k], &intra, &inter);
                        side->same &= !memcmp(c[k].order, c[0].order, (size_t)g->nodes[node].n_gpus);
                        side->cross |= c[k].nic_in != c[k].nic_out;
                }
        }
        snprintf(side->intra, sizeof side->intra, "%s", way_type_name(intra));
        snprintf(side->inter, sizeof side->inter, "%s", way_type_name(inter));
}

/* A machine whose GPUs are those of an earlier one has its channels, too. */
static int twin(const struct machines *m, const struct capo_alloc *a, int node)
{
        for (int other = 0; other < node; other++) {
                bool same = m->n_gpus[other] == m->n_gpus[node] && m->pattern[other] == m->pattern[node];

                for (int i = 0; i < m->n_gpus[node] && same; i++)
                        same = a->ranks[m->first[other] + i].gpu == a->ranks[m->first[node] + i].gpu;
                if (same)
                        return other;
        }
        return -1;
}

static struct rails_thing *channels_of(struct graph_plan *g, int node, enum rails_shape shape)
{
        return shape == RAILS_RING ? g->nodes[node].ring : g->nodes[node].tree;
}

/*
 * The other machines' channels once more, by the NICs that the slowest machine took: so that the network is left where
 * it was entered. Kept where that is not slower. Machines an odd number of steps away turn in and out round.
 */
static int align(const struct machines *m, enum rails_shape shape, int slowest, double least, struct graph_plan *g)
{
        int n = g->n_channels;

        for (int node = 0; node < m->n; node++) {
                struct rails_thing nics[GRAPH_CHANNELS], channels[GRAPH_CHANNELS];
                double speed;

                memcpy(nics, channels_of(g, slowest, shape), sizeof nics);
                for (int c = 0; c < n && (node - slowest) % 2; c++) {
                        int8_t in = nics[c].nic_in;

                        nics[c].nic_in = nics[c].nic_out;
                        nics[c].nic_out = in;
                }
                speed = node == slowest ? 0 : rails_route(m->rails[node], shape, true, nics, n, channels);
                if (speed < 0)
                        return -ENOMEM;
                if (speed >= least * (1 - 1e-9))
                        memcpy(channels_of(g, node, shape), channels, sizeof channels);
        }
        return 0;
}

/* Channels of one shape on every machine. Return: the speed of the slowest; 0 none; -ENOMEM. */
static double route(const struct machines *m, const struct capo_alloc *a, enum rails_shape shape, bool cross,
                    struct graph_plan *g)
{
        double least = INFINITY, speed[GRAPH_NODES];
        int slowest = 0;

        for (int node = 0; node < m->n && least > 0; node++) {
                int other = twin(m, a, node);

                if (other >= 0) {
                        memcpy(channels_of(g, node, shape), channels_of(g, other, shape), sizeof g->nodes[node].ring);
                        speed[node] = speed[other];
                } else {
                        speed[node] = rails_route(m->rails[node], shape, cross, NULL, g->n_channels,
                                                  channels_of(g, node, shape));
                }
                if (speed[node] < least) {
                        least = speed[node];
                        slowest = node;
                }
        }
        return least > 0 && align(m, shape, slowest, least, g) < 0 ? -ENOMEM : least;
}

/* One candidate. Return: 1; 0 where some machine has not so many channels; -ENOMEM. */
static int make(const struct machines *m, const struct capo_alloc *a, int n, bool cross, struct graph_plan *g)
{
        double ring, tree;

        memset(g, 0, sizeof *g);
        g->n_nodes = m->n;
        g->n_channels = n;
        for (int node = 0; node < m->n; node++) {
                g->nodes[node].n_gpus = m->n_gpus[node];
                g->nodes[node].first = m->first[node];
                g->nodes[node].pattern = m->pattern[node];
        }
        ring = route(m, a, RAILS_RING, cross, g);
        tree = ring > 0 ? route(m, a, RAILS_TREE, false, g) : 0;
        if (ring < 0 || tree < 0)
                return -ENOMEM;
        if (!(ring > 0 && tree > 0))
                return 0;
        describe(m, g, RAILS_RING, &g->ring);
        describe(m, g, RAILS_TREE, &g->tree);
        g->ring.speed_intra = g->ring.speed_inter = ring;
        g->tree.speed_intra = 2 * tree;
        g->tree.speed_inter = m->n == 2 ? tree : 2 * tree;
        g->n_aligned = aligned(g);
        g->ring_gbs = capo_ring_allreduce_gbs(ring * n, a->n_ranks);
        g->tree_gbs = tree * n;
        return 1;
}

static double best_of(double ring_gbs, double tree_gbs)
{
        return ring_gbs > tree_gbs ? ring_gbs : tree_gbs;
}

int graph_between(const struct capo_topology *t, const struct capo_alloc *a, const struct fragment_nccl *own,
                  struct graph_plan *out, char *why, size_t room)
{
        struct machines m = {0};
        double own_gbs, most = 0;
        int made = 0, e;

        if (own->nodes != a->n_nodes) {
                snprintf(why, room, "NCCL counts %d nodes on %d machines: NVLink does not join all GPUs of one of them",
                         own->nodes, a->n_nodes);
                return 0;
        }
        e = prepare(&m, t, a, own, why, room);
        if (!e) {
                own_gbs = best_of(capo_ring_allreduce_gbs(own_total(&m, own, 0, t, a), a->n_ranks),
                                  own_total(&m, own, 1, t, a));
                for (int i = 0; i < GRAPH_CANDIDATES && e >= 0; i++) {
                        struct graph_plan *g = &out[made];

                        e = make(&m, a, 1 + i / 2, i % 2, g);
                        if (e <= 0)
                                continue;
                        g->own_gbs = own_gbs;
                        g->latency_inter = graph_own(own, 0, 0)->latency_inter;
                        most = best_of(most, best_of(g->ring_gbs, g->tree_gbs));
                        made += best_of(g->ring_gbs, g->tree_gbs) >= GAIN_LEAST * own_gbs;
                }
                if (!made)
                        snprintf(
                                why, room,
                                "NCCL's own channels can carry %.1f GB/s of all-reduce on their links, and others %.1f",
                                own_gbs, most);
        }
        finish(&m);
        return e == -ENOTSUP ? 0 : e == -ENOMEM ? e : made;
}
