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

#include "core/base/calls.h"
#include "core/base/nccl.h"
#include "core/base/util.h"
#include "profiles/fragment/graph.h"
#include "profiles/fragment/net.h"

/* The largest speed at which the parts give n pieces. */
static double speed_for(const struct lp_result *r, int n)
{
        double best = 0;

        for (int i = 0; i < r->n_parts; i++) {
                for (int k = 1; k <= n; k++) { /* the limit is always some part divided evenly */
                        double s = r->parts[i].amount / k;
                        int have = 0;

                        for (int j = 0; j < r->n_parts; j++)
                                have += (int)floor(r->parts[j].amount / s + 1e-6);
                        if (have >= n && s > best)
                                best = s;
                }
        }
        return best;
}

/* Each chain or ring in both directions. */
static void fill(const struct lp_result *r, int n, int pairs, double speed, struct rails_thing *channels)
{
        int made = 0;

        for (int i = 0; i < r->n_parts && made < pairs; i++) {
                const int8_t *order = r->parts[i].thing;

                for (int k = (int)floor(r->parts[i].amount / speed + 1e-6); k > 0 && made < pairs; k--, made++) {
                        for (int g = 0; g < n; g++) {
                                channels[2 * made].order[g] = order[g];
                                channels[2 * made + 1].order[g] = order[n - 1 - g];
                        }
                }
        }
}

const struct capo_plan_graph *graph_own(const struct fragment_nccl *own, int node, int id)
{
        for (size_t i = 0; i < own->answer.n_graphs; i++) {
                if (own->answer.graphs[i].node == node && own->answer.graphs[i].id == id)
                        return &own->answer.graphs[i];
        }
        return NULL;
}

static int gpu_by_dev(const struct capo_topology *t, const struct capo_alloc *a, int node, long dev)
{
        int place = 0;

        for (int i = 0; i < a->n_ranks; i++) {
                if (a->ranks[i].node == node && t->gpus[a->ranks[i].gpu].dev == dev)
                        return place;
                place += a->ranks[i].node == node;
        }
        return -1;
}

bool graph_own_channel(const struct capo_plan_graph *g, size_t channel, const struct capo_topology *t,
                       const struct capo_alloc *a, struct rails_thing *out)
{
        const char *p = channel < g->n_paths ? g->paths[channel] : "";
        int n = 0, n_nics = 0;

        *out = (struct rails_thing){.nic_in = -1, .nic_out = -1};
        for (p += strspn(p, " "); *p; p += strspn(p, " ")) {
                bool nic = !strncmp(p, "net", 3);
                char *end;
                long dev = strtol(p + 3 * nic, &end, 10);
                int gpu = nic ? 0 : gpu_by_dev(t, a, g->node, dev);

                if (end == p + 3 * nic || gpu < 0 || n == GRAPH_GPUS || dev > 127)
                        return false;
                if (!nic)
                        out->order[n++] = (int8_t)gpu;
                else if (n_nics++ == 0)
                        out->nic_in = (int8_t)dev;
                else
                        out->nic_out = (int8_t)dev;
                p = end;
        }
        return n > 0;
}

/* NCCL's own rings, each divided into as many as make n channels. Return: the speed of one; 0: it has none. */
static double divide_own(const struct capo_plan_graph *g, const struct capo_topology *t, const struct capo_alloc *a,
                         int n, struct rails_thing *channels)
{
        int have = g ? g->n_channels : 0, parts = have > 0 ? (n + have - 1) / have : 0;

        if (!parts || g->n_paths < (size_t)have)
                return 0;
        for (int i = 0; i < n; i++) {
                if (!graph_own_channel(g, (size_t)(i % have), t, a, &channels[i]))
                        return 0;
        }
        return g->speed_intra / parts;
}

static int none(char *why, size_t room, const char *text)
{
        snprintf(why, room, "%s", text);
        return 0;
}

int graph_choose(const struct capo_topology *t, const struct capo_alloc *a, const struct fragment_nccl *own,
                 struct graph_plan *out, char *why, size_t room)
{
        const struct capo_plan_graph *ring = graph_own(own, 0, 0), *tree = graph_own(own, 0, 1);
        struct lp_result chains = {0}, rings = {0};
        int n = a->n_ranks, made = 0, r;
        struct pack_net net;
        double unit_gbs;
        bool direct;

        if (a->n_nodes > 1)
                return graph_between(t, a, own, out, why, room);
        if (n < 2 || n > GRAPH_GPUS)
                return none(why, room, n < 2 ? "one GPU has no channels" : "more than 12 GPUs of one machine");
        if (!ring || !tree || own->nodes != 1)
                return none(why, room,
                            "NCCL goes over NICs inside the machine: NVLink does not join all of these GPUs");
        r = fragment_net(t, a, false, &net, &unit_gbs, NULL);
        if (r < 0)
                return r;
        direct = net.n == net.n_ranks;
        r = direct ? fragment_tours(&net, false, &chains)
                   : none(why, room, "all GPUs are on a switch: NCCL's own graph uses every link");
        if (!r && n > 2 && direct)
                r = fragment_tours(&net, true, &rings);
        free(net.cap);
        for (int pairs = 1; !r && 2 * pairs <= GRAPH_CHANNELS && chains.n_parts; pairs++) {
                struct graph_plan *g = &out[made];
                double s = speed_for(&chains, pairs), q = rings.n_parts ? speed_for(&rings, pairs) : 0;
                struct rails_thing divided[GRAPH_CHANNELS];
                double own_speed;

                memset(g, 0, sizeof *g);
                g->n_nodes = 1;
                g->n_channels = 2 * pairs;
                g->nodes[0].n_gpus = n;
                g->nodes[0].pattern = tree->pattern;
                g->tree.speed_intra = s * unit_gbs;
                snprintf(g->tree.intra, sizeof g->tree.intra, "NVL");
                fill(&chains, n, pairs, s, g->nodes[0].tree);
                if (q > 0) {
                        g->ring.speed_intra = q * unit_gbs;
                        snprintf(g->ring.intra, sizeof g->ring.intra, "NVL");
                        fill(&rings, n, pairs, q, g->nodes[0].ring);
                }
                own_speed = divide_own(ring, t, a, g->n_channels, divided);
                if (own_speed > g->ring.speed_intra * (1 - 1e-9)) {
                        memcpy(g->nodes[0].ring, divided, sizeof divided);
                        g->ring.speed_intra = own_speed;
                        g->ring.same = ring->same_channels;
                        snprintf(g->ring.intra, sizeof g->ring.intra, "%.7s", ring->type_intra);
                }
                if (g->ring.speed_intra <= 0 || g->tree.speed_intra <= 0)
                        continue;
                g->ring.speed_inter = g->ring.speed_intra;
                g->tree.speed_inter = g->tree.speed_intra;
                snprintf(g->ring.inter, sizeof g->ring.inter, "%.7s", ring->type_inter);
                snprintf(g->tree.inter, sizeof g->tree.inter, "%.7s", ring->type_inter);
                g->tree_gbs = g->tree.speed_intra * g->n_channels / 2;
                g->ring_gbs = capo_ring_allreduce_gbs(g->ring.speed_intra * g->n_channels, n);
                made++;
        }
        if (!r && !made && direct)
                r = none(why, room, "NVLink does not join all of these GPUs in a chain");
        lp_result_free(&chains);
        lp_result_free(&rings);
        return r < 0 ? r : made;
}

static const char *word_of(int id)
{
        return capo_algo_word(id ? CAPO_ALGO_TREE : CAPO_ALGO_RING);
}

static const struct rails_thing *channels_of(const struct graph_plan *g, int node, int id)
{
        return id ? g->nodes[node].tree : g->nodes[node].ring;
}

static void write_device(FILE *f, const char *what, int dev, int nccl_version)
{
        fprintf(f,
                capo_nccl_has(nccl_version, CAPO_NCCL_GRAPH_DEV_HEX) ? "      <%s dev=\"0x%x\"/>\n"
                                                                     : "      <%s dev=\"%d\"/>\n",
                what, dev);
}

static void write_side(FILE *f, int id, const struct graph_plan *g, int node, const struct capo_topology *t,
                       const struct capo_alloc *a, int nccl_version)
{
        const struct graph_side *s = id ? &g->tree : &g->ring;
        const struct graph_node *n = &g->nodes[node];

        fprintf(f,
                "  <graph id=\"%d\" pattern=\"%d\" crossnic=\"%d\" nchannels=\"%d\" speedintra=\"%.7g\" "
                "speedinter=\"%.7g\" latencyinter=\"%g\" typeintra=\"%s\" typeinter=\"%s\" samechannels=\"%d\">\n",
                id, id ? n->pattern : 4, s->cross, g->n_channels, s->speed_intra, s->speed_inter, g->latency_inter,
                s->intra, s->inter, s->same);
        for (int c = 0; c < g->n_channels; c++) {
                const struct rails_thing *channel = &channels_of(g, node, id)[c];
                bool outside = g->n_nodes > 1;

                fputs("    <channel>\n", f);
                if (outside)
                        write_device(f, "net", channel->nic_in, nccl_version);
                for (int k = 0; k < n->n_gpus; k++)
                        write_device(f, "gpu", t->gpus[a->ranks[n->first + channel->order[k]].gpu].dev, nccl_version);
                if (outside)
                        write_device(f, "net", channel->nic_out, nccl_version);
                fputs("    </channel>\n", f);
        }
        fputs("  </graph>\n", f);
}

int graph_write(FILE *f, const struct graph_plan *g, int node, const struct capo_topology *t,
                const struct capo_alloc *a, int nccl_version)
{
        fputs("<graphs version=\"1\">\n", f);
        write_side(f, 0, g, node, t, a, nccl_version);
        write_side(f, 1, g, node, t, a, nccl_version);
        fputs("</graphs>\n", f);
        return ferror(f) ? -EIO : 0;
}

static bool same_channel(const struct rails_thing *a, const struct rails_thing *b, int n, bool nics)
{
        return !memcmp(a->order, b->order, (size_t)n) &&
               (!nics || (a->nic_in == b->nic_in && a->nic_out == b->nic_out));
}

bool graph_accepted(const struct graph_plan *g, const struct capo_topology *t, const struct capo_alloc *a,
                    const struct fragment_nccl *with, char *why, size_t room)
{
        for (int i = 0; i < 2 * g->n_nodes; i++) {
                int node = i / 2, id = i % 2;
                const struct capo_plan_graph *seen = graph_own(with, node, id);

                if (!seen || seen->n_channels != g->n_channels) {
                        snprintf(why, room, "NCCL made %d %s channels of the file's %d on machine %d",
                                 seen ? seen->n_channels : 0, word_of(id), g->n_channels, node);
                        return false;
                }
                for (int c = 0; c < g->n_channels; c++) {
                        struct rails_thing got;

                        if (!graph_own_channel(seen, (size_t)c, t, a, &got) ||
                            !same_channel(&got, &channels_of(g, node, id)[c], g->nodes[node].n_gpus, g->n_nodes > 1)) {
                                snprintf(why, room, "NCCL's %s channel %d on machine %d is \"%.80s\", not the file's",
                                         word_of(id), c, node, (size_t)c < seen->n_paths ? seen->paths[c] : "");
                                return false;
                        }
                }
        }
        return true;
}
