/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's search finds the fastest equal channels and stops; what is left of the links stays idle, and few channels
 * limit trees (its model gives a channel at most 26.5 GB/s on V100). The packing of chains is a better start: amounts w
 * of each chain. A chain that carries w both ways is, in NCCL's terms, two channels of speed w, one per direction of
 * its order. For each number of channels N the speed is the largest s with sum of 2 floor(w / s) >= N; rings likewise,
 * or NCCL's own rings divided into more and slower ones.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "profiles/fragment/graph.h"
#include "profiles/fragment/net.h"

/* The largest speed at which the parts give n pairs of channels. */
static double speed_for(const struct lp_result *r, int pairs)
{
        double best = 0;

        for (int i = 0; i < r->n_parts; i++) {
                for (int k = 1; k <= pairs; k++) { /* the limit is always some part divided evenly */
                        double s = r->parts[i].amount / k;
                        int have = 0;

                        for (int j = 0; j < r->n_parts; j++)
                                have += (int)floor(r->parts[j].amount / s + 1e-6);
                        if (have >= pairs && s > best)
                                best = s;
                }
        }
        return best;
}

static void fill(const struct lp_result *r, int n, int pairs, double speed, struct graph_side *side)
{
        int made = 0;

        for (int i = 0; i < r->n_parts && made < pairs; i++) {
                const int8_t *order = r->parts[i].thing;

                for (int k = (int)floor(r->parts[i].amount / speed + 1e-6); k > 0 && made < pairs; k--, made++) {
                        for (int g = 0; g < n; g++) {
                                side->order[2 * made][g] = order[g];
                                side->order[2 * made + 1][g] = order[n - 1 - g];
                        }
                }
        }
}

static const struct capo_plan_graph *own_graph(const struct fragment_nccl *own, int id)
{
        for (size_t i = 0; i < own->answer.n_graphs; i++) {
                if (own->answer.graphs[i].id == id)
                        return &own->answer.graphs[i];
        }
        return NULL;
}

/* NCCL prints device numbers; back to ranks. */
static bool own_order(const struct capo_plan_graph *g, size_t path, const struct capo_topology *t,
                      const struct capo_alloc *a, int *order)
{
        const char *p = g->paths[path];

        for (int k = 0; k < a->n_ranks; k++) {
                char *end;
                long dev = strtol(p, &end, 10);
                int rank = -1;

                if (end == p)
                        return false;
                p = end;
                for (int i = 0; i < a->n_ranks; i++) {
                        if (t->gpus[a->ranks[i].gpu].dev == dev)
                                rank = i;
                }
                if (rank < 0)
                        return false;
                order[k] = rank;
        }
        return true;
}

/* NCCL's own rings, each divided into as many as make n channels. */
static bool divide_own(const struct capo_plan_graph *g, const struct capo_topology *t, const struct capo_alloc *a,
                       int n, struct graph_side *side)
{
        int have = g ? g->n_channels : 0, parts = have > 0 ? (n + have - 1) / have : 0;

        if (!parts || g->n_paths < (size_t)have)
                return false;
        for (int i = 0; i < n; i++) {
                if (!own_order(g, (size_t)(i % have), t, a, side->order[i]))
                        return false;
        }
        side->speed = g->speed_intra / parts;
        snprintf(side->type, sizeof side->type, "%.7s", g->type_intra);
        return true;
}

static int none(char *why, size_t room, const char *text)
{
        snprintf(why, room, "%s", text);
        return 0;
}

int graph_choose(const struct capo_topology *t, const struct capo_alloc *a, const struct fragment_nccl *own,
                 struct graph_plan *out, char *why, size_t room)
{
        const struct capo_plan_graph *ring = own_graph(own, 0), *tree = own_graph(own, 1);
        struct lp_result chains = {0}, rings = {0};
        int n = a->n_ranks, made = 0, r;
        struct pack_net net;
        double unit_gbs;
        bool direct;

        if (a->n_nodes > 1)
                return none(why, room, "several machines: only one machine's graph is written");
        if (n < 2 || n > GRAPH_GPUS)
                return none(why, room, n < 2 ? "one GPU has no channels" : "more than 12 GPUs");
        if (!ring || !tree || own->nodes != 1)
                return none(why, room,
                            "NCCL goes over NICs inside the machine: NVLink does not join all of these GPUs");
        r = fragment_net(t, a, false, &net, &unit_gbs);
        if (r < 0)
                return r;
        direct = net.n == net.n_ranks;
        r = direct ? fragment_tours(&net, false, &chains)
                   : none(why, room, "all GPUs are on a switch: NCCL's own graph uses every link");
        if (!r && n > 2 && direct)
                r = fragment_tours(&net, true, &rings);
        free(net.cap);
        for (int pairs = 1; !r && 2 * pairs <= GRAPH_CHANNELS && chains.n_parts; pairs++) {
                struct graph_plan g = {.n_gpus = n, .n_channels = 2 * pairs, .tree_pattern = tree->pattern};
                double s = speed_for(&chains, pairs), q = rings.n_parts ? speed_for(&rings, pairs) : 0;
                struct graph_side divided = {0};

                g.tree.speed = s * unit_gbs;
                snprintf(g.tree.type, sizeof g.tree.type, "NVL");
                fill(&chains, n, pairs, s, &g.tree);
                if (q > 0) {
                        g.ring.speed = q * unit_gbs;
                        snprintf(g.ring.type, sizeof g.ring.type, "NVL");
                        fill(&rings, n, pairs, q, &g.ring);
                }
                if (divide_own(ring, t, a, g.n_channels, &divided) && divided.speed > g.ring.speed * (1 + 1e-9))
                        g.ring = divided;
                if (g.ring.speed <= 0 || g.tree.speed <= 0)
                        continue;
                snprintf(g.type_inter, sizeof g.type_inter, "%.7s", ring->type_inter);
                g.tree_gbs = g.tree.speed * g.n_channels / 2;
                g.ring_gbs = capo_ring_allreduce_gbs(g.ring.speed * g.n_channels, n);
                out[made++] = g;
        }
        if (!r && !made && direct)
                r = none(why, room, "NVLink does not join all of these GPUs in a chain");
        lp_result_free(&chains);
        lp_result_free(&rings);
        return r < 0 ? r : made;
}

static void write_side(FILE *f, int id, int pattern, const struct graph_plan *g, const struct graph_side *s,
                       const struct capo_topology *t, const struct capo_alloc *a, int nccl_version)
{
        fprintf(f,
                "  <graph id=\"%d\" pattern=\"%d\" crossnic=\"0\" nchannels=\"%d\" speedintra=\"%g\" speedinter=\"%g\" "
                "latencyinter=\"0\" typeintra=\"%s\" typeinter=\"%s\" samechannels=\"0\">\n",
                id, pattern, g->n_channels, s->speed, s->speed, s->type, g->type_inter);
        for (int c = 0; c < g->n_channels; c++) {
                fputs("    <channel>\n", f);
                for (int k = 0; k < g->n_gpus; k++) {
                        int dev = t->gpus[a->ranks[s->order[c][k]].gpu].dev;

                        fprintf(f, nccl_version >= 22105 ? "      <gpu dev=\"0x%x\"/>\n" : "      <gpu dev=\"%d\"/>\n",
                                dev);
                }
                fputs("    </channel>\n", f);
        }
        fputs("  </graph>\n", f);
}

int graph_write(FILE *f, const struct graph_plan *g, const struct capo_topology *t, const struct capo_alloc *a,
                int nccl_version)
{
        fputs("<graphs version=\"1\">\n", f);
        write_side(f, 0, 4, g, &g->ring, t, a, nccl_version);
        write_side(f, 1, g->tree_pattern, g, &g->tree, t, a, nccl_version);
        fputs("</graphs>\n", f);
        return ferror(f) ? -EIO : 0;
}

bool graph_accepted(const struct graph_plan *g, const struct capo_topology *t, const struct capo_alloc *a,
                    const struct fragment_nccl *with, char *why, size_t room)
{
        for (int id = 0; id < 2; id++) {
                const struct capo_plan_graph *seen = own_graph(with, id);
                const struct graph_side *want = id ? &g->tree : &g->ring;

                if (!seen || seen->n_channels != g->n_channels) {
                        snprintf(why, room, "NCCL made %d %s channels of the file's %d", seen ? seen->n_channels : 0,
                                 id ? "tree" : "ring", g->n_channels);
                        return false;
                }
                for (int c = 0; c < g->n_channels && (size_t)c < seen->n_paths; c++) {
                        int order[GRAPH_GPUS];

                        if (!own_order(seen, (size_t)c, t, a, order) ||
                            memcmp(order, want->order[c], sizeof *order * (size_t)g->n_gpus) != 0) {
                                snprintf(why, room, "NCCL's %s channel %d is \"%.80s\", not the file's",
                                         id ? "tree" : "ring", c, seen->paths[c]);
                                return false;
                        }
                }
        }
        return true;
}
