/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ceilings of one allocation, from the pieces of pack.h. Three kinds of network occur:
 *
 *   links straight between GPUs     everything exact in whole numbers, trees from pack_arborescences()
 *   one switch with equal ports     closed forms, and trees written down (72 GPUs take no time)
 *   relays in between (PCI, NICs)   broadcast and all-gather by cuts, exact, their trees after the relays have been
 *                                   replaced by direct links that carry as much; all-reduce as a linear program over
 *                                   trees whose links are paths through relays: attained by the trees it returns, and
 *                                   proved by its prices to one part in 1e9
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "profiles/fragment/lp.h"
#include "profiles/fragment/net.h"
#include "profiles/machine/platform.h"

static double gbs(struct pack_rate r, double unit_gbs)
{
        return (double)r.num / (double)r.den * unit_gbs;
}

static int trees_new(int n_ranks, int n_trees, struct pack_trees *out)
{
        *out = (struct pack_trees){.n_ranks = n_ranks, .n_trees = n_trees};
        out->trees = calloc((size_t)n_trees + 1, sizeof *out->trees);
        out->edges = calloc((size_t)n_trees * (size_t)n_ranks + 1, sizeof *out->edges);
        if (out->trees && out->edges)
                return 0;
        pack_trees_free(out);
        return -ENOMEM;
}

/* --- one switch --- */

/* Every GPU the centre of one tree: n trees, equal shares. */
static int spokes(int n, struct pack_rate each, struct pack_trees *out)
{
        int r = trees_new(n, n, out);

        for (int c = 0; c < n && !r; c++) {
                struct pack_edge *e = out->edges + c * (n - 1);

                out->trees[c] = (struct pack_tree){each, c};
                for (int v = 0; v < n; v++) {
                        if (v != c)
                                *e++ = (struct pack_edge){(int16_t)c, (int16_t)v};
                }
        }
        return r;
}

static int star(int64_t port, int n, bool trees, struct capo_ceilings *c)
{
        struct pack_rate gather = pack_rate_make(port, n - 1), reduce = pack_rate_make(port, 2 * (n - 1));
        int r;

        c->broadcast_gbs = (double)port * c->unit_gbs;
        c->allgather_gbs = n * gbs(gather, c->unit_gbs);
        c->allreduce_gbs = n * gbs(reduce, c->unit_gbs);
        if (!trees)
                return 0;
        r = trees_new(n, 1, &c->broadcast); /* one chain: each GPU receives all and sends all */
        for (int v = 0; v < n - 1 && !r; v++)
                c->broadcast.edges[v] = (struct pack_edge){(int16_t)v, (int16_t)(v + 1)};
        if (!r)
                c->broadcast.trees[0].rate = (struct pack_rate){port, 1};
        if (!r)
                r = spokes(n, gather, &c->allgather);
        if (!r)
                r = spokes(n, reduce, &c->allreduce);
        return r;
}

/* --- direct links --- */

static int direct(const struct pack_net *net, bool trees, struct capo_ceilings *c)
{
        int n = net->n, r;
        _cleanup_free_ int64_t *cap = malloc(sizeof *cap * (size_t)(n * n) + 1);
        _cleanup_free_ int64_t *root = calloc((size_t)n + 1, sizeof *root);
        struct pack_rate broadcast, gather, reduce;

        if (!cap || !root)
                return -ENOMEM;
        if ((r = pack_broadcast(net, &broadcast)) < 0 || (r = pack_gather(net, &gather)) < 0 ||
            (r = pack_strength(net, &reduce, cap)) < 0)
                return r;
        c->broadcast_gbs = gbs(broadcast, c->unit_gbs);
        c->allgather_gbs = n * gbs(gather, c->unit_gbs);
        c->allreduce_gbs = gbs(reduce, c->unit_gbs);
        if (!trees || !broadcast.num)
                return 0;
        root[0] = reduce.num;
        r = pack_arborescences(n, cap, root, reduce.den, &c->allreduce);
        root[0] = broadcast.num;
        if (!r)
                r = pack_arborescences(n, net->cap, root, 1, &c->broadcast);
        for (int v = 0; v < n; v++)
                root[v] = gather.num;
        for (int i = 0; i < n * n; i++)
                cap[i] = net->cap[i] * gather.den;
        if (!r)
                r = pack_arborescences(n, cap, root, gather.den, &c->allgather);
        return r;
}

/* --- relays --- */

struct relay_tree {
        const struct pack_net *net;
        int *link;   /* n * n: number of the link or -1 */
        double *far; /* n_ranks * n: price from a rank to every vertex through relays */
        int *before; /* n_ranks * n: vertex before it on that path */
        double *at;  /* for Prim, one per rank: price of joining, where, and done; for Dijkstra done, one per vertex */
        int *parent;
        bool *done;
};

/* Dijkstra from rank s; paths do not run through other ranks (those could keep a copy, and do as ends). */
static void paths(struct relay_tree *w, int s, const double *price)
{
        int n = w->net->n, ranks = w->net->n_ranks;
        double *far = w->far + s * n;
        int *before = w->before + s * n;
        bool *done = w->done;

        for (int v = 0; v < n; v++) {
                far[v] = v == s ? 0 : INFINITY;
                before[v] = -1;
                done[v] = false;
        }
        for (;;) {
                int u = -1;

                for (int v = 0; v < n; v++) {
                        if (!done[v] && far[v] < INFINITY && (u < 0 || far[v] < far[u]))
                                u = v;
                }
                if (u < 0)
                        return;
                done[u] = true;
                if (u < ranks && u != s)
                        continue;
                for (int v = 0; v < n; v++) {
                        int l = w->link[u * n + v];

                        if (l >= 0 && far[u] + price[l] < far[v]) {
                                far[v] = far[u] + price[l];
                                before[v] = u;
                        }
                }
        }
}

/*
 * The cheapest spanning tree of the ranks, each of its edges a path: Prim's algorithm over the prices of paths. Two
 * paths may use one link; it is then counted, and paid for, twice, as the tree would use it twice.
 */
static double cheapest_tree(void *user, const double *price, double *use, void *thing)
{
        struct relay_tree *w = user;
        int n = w->net->n, ranks = w->net->n_ranks, *parent = w->parent;
        struct pack_edge *edges = thing;
        bool *in = w->done;
        double total = 0, *at = w->at;

        for (int s = 0; s < ranks; s++)
                paths(w, s, price);
        for (int v = 0; v < ranks; v++) {
                at[v] = w->far[v];
                parent[v] = 0;
                in[v] = !v;
        }
        for (int k = 1; k < ranks; k++) {
                int u = -1;

                for (int v = 0; v < ranks; v++) {
                        if (!in[v] && (u < 0 || at[v] < at[u]))
                                u = v;
                }
                if (at[u] == INFINITY)
                        return -1;
                total += at[u];
                in[u] = true;
                edges[k - 1] = (struct pack_edge){(int16_t)parent[u], (int16_t)u};
                for (int v = u, s = parent[u]; v != s; v = w->before[s * n + v])
                        use[w->link[w->before[s * n + v] * n + v]] += 1;
                for (int v = 0; v < ranks; v++) {
                        if (!in[v] && w->far[u * n + v] < at[v]) {
                                at[v] = w->far[u * n + v];
                                parent[v] = u;
                        }
                }
        }
        return total;
}

static int relayed_allreduce(const struct pack_net *net, bool trees, double unit_gbs, double *value,
                             struct pack_trees *out)
{
        size_t n = (size_t)net->n, ranks = (size_t)net->n_ranks;
        _cleanup_free_ int *link = malloc(sizeof *link * n * n), *before = malloc(sizeof *before * n * ranks);
        _cleanup_free_ double *far = malloc(sizeof *far * n * ranks), *cap = malloc(sizeof *cap * n * n),
                              *at = malloc(sizeof *at * ranks);
        _cleanup_free_ int *parent = malloc(sizeof *parent * ranks);
        _cleanup_free_ bool *done = malloc(n);
        struct relay_tree w = {
                .net = net, .link = link, .far = far, .before = before, .at = at, .parent = parent, .done = done};
        struct lp_result result;
        int n_links = 0, r;

        if (!link || !before || !far || !cap || !at || !parent || !done)
                return -ENOMEM;
        for (size_t u = 0; u < n; u++) {
                link[u * n + u] = -1;
                for (size_t v = 0; v < u; v++) {
                        link[u * n + v] = link[v * n + u] = net->cap[u * n + v] ? n_links : -1;
                        if (net->cap[u * n + v])
                                cap[n_links++] = (double)net->cap[u * n + v];
                }
        }
        r = lp_pack(n_links, cap, cheapest_tree, &w, sizeof(struct pack_edge) * (ranks ? ranks : 1), &result);
        if (r == -ENOMEM)
                return r;
        *value = result.value * unit_gbs;
        r = trees ? trees_new((int)ranks, result.n_parts, out) : 0;
        for (int i = 0; trees && !r && i < result.n_parts; i++) {
                out->trees[i].rate = pack_rate_make((int64_t)floor(result.parts[i].amount * 1e6), 1000000);
                memcpy(out->edges + (size_t)i * (ranks - 1), result.parts[i].thing,
                       sizeof(struct pack_edge) * (ranks - 1));
        }
        lp_result_free(&result);
        return r;
}

/* Trees whose edges are ways through relays: the relays are replaced by direct links that carry as much, in units of
 * 1 / den, and the trees are packed in those. */
static int relayed_rooted(const struct pack_net *net, const int64_t *root, int64_t den, struct pack_trees *out,
                          struct pack_ways *ways)
{
        int n = net->n_ranks, r;
        _cleanup_free_ int64_t *cap = malloc(sizeof *cap * (size_t)(n * n) + 1);

        if (!cap)
                return -ENOMEM;
        r = pack_unrelay(net, den, root, cap, ways);
        return r < 0 ? r : pack_arborescences(n, cap, root, den, out);
}

static int rooted_trees(const struct pack_net *net, struct capo_ceilings *c)
{
        int n = net->n_ranks, r;
        _cleanup_free_ int64_t *root = calloc((size_t)n + 1, sizeof *root);
        struct pack_rate broadcast, gather;

        if (!root)
                return -ENOMEM;
        if ((r = pack_broadcast(net, &broadcast)) < 0 || (r = pack_gather(net, &gather)) < 0 || !broadcast.num)
                return r;
        root[0] = broadcast.num;
        c->hybrid_broadcast_den = 1;
        c->hybrid_allgather_den = gather.den;
        r = relayed_rooted(net, root, 1, &c->hybrid_broadcast, &c->hybrid_broadcast_ways);
        for (int v = 0; v < n; v++)
                root[v] = gather.num;
        return r < 0 ? r : relayed_rooted(net, root, gather.den, &c->hybrid_allgather, &c->hybrid_allgather_ways);
}

/* NVLink is missing between some, or a relay is not a plain star: cuts and the linear program. */
static int relayed(const struct pack_net *net, bool trees, double unit_gbs, double *broadcast, double *gather,
                   double *reduce, struct pack_trees *reduce_trees)
{
        struct pack_rate b, g;
        int r;

        if ((r = pack_broadcast(net, &b)) < 0 || (r = pack_gather(net, &g)) < 0)
                return r;
        *broadcast = gbs(b, unit_gbs);
        *gather = net->n_ranks * gbs(g, unit_gbs);
        *reduce = 0;
        return b.num ? relayed_allreduce(net, trees, unit_gbs, reduce, reduce_trees) : 0;
}

/* Do the switches of this machine add and copy? */
static bool adds(const struct capo_topology *t)
{
        const struct capo_wire_kind *wire = capo_wire_kind(CAPO_WIRE_NVLINK, t->gpus[0].sm, 0);

        return t->n_switches && wire && wire->adds;
}

/* NVLink SHARP: each GPU's shard is fetched summed by the switch, then stored to all by it. A GPU sends its buffer once
 * and its shard once, and receives as much: port / (1 + 1/n). */
static double nvls(const struct capo_topology *t, int64_t port, int n, double unit_gbs)
{
        return port && n > 1 && adds(t) ? (double)port * unit_gbs / (1 + 1.0 / n) : 0;
}

double capo_ceiling(const struct capo_ceilings *c, enum capo_coll coll, enum capo_ceiling_of *of)
{
        bool links = c->connected, reduce = coll == CAPO_COLL_ALLREDUCE;
        double broadcast = links ? c->broadcast_gbs : c->hybrid_broadcast_gbs,
               gather = links ? c->allgather_gbs : c->hybrid_allgather_gbs,
               all = links ? c->allreduce_gbs : c->hybrid_allreduce_gbs,
               in_switch = links ? c->nvls_gbs : c->nvls_across_gbs;
        double gbs = reduce ? all : coll == CAPO_COLL_ALLGATHER || coll == CAPO_COLL_REDUCESCATTER ? gather : broadcast;

        *of = links ? CAPO_CEILING_LINKS : CAPO_CEILING_ALL;
        if (reduce && in_switch > gbs) {
                *of = links ? CAPO_CEILING_SWITCH : CAPO_CEILING_ALL_SWITCH;
                gbs = in_switch;
        }
        if (gbs > 0)
                return gbs;
        *of = CAPO_CEILING_NONE;
        return 0;
}

const char *capo_ceiling_text(enum capo_ceiling_of of)
{
        static const char *const texts[] = {"", "", ", the switches adding", " with PCIe and NICs",
                                            " with PCIe and NICs, the switches adding"};

        return texts[of];
}

int capo_ceilings(const struct capo_topology *t, const struct capo_alloc *a, unsigned what, struct capo_ceilings *out)
{
        struct capo_ceilings c = {.n_ranks = a->n_ranks,
                                  .shapes = {.rings = -1, .ring_gbs = -1, .ring_split_gbs = -1, .chain_gbs = -1},
                                  .hybrid_broadcast_gbs = -1,
                                  .hybrid_allgather_gbs = -1,
                                  .hybrid_allreduce_gbs = -1};
        bool trees = what & CAPO_CEILING_TREES;
        struct pack_net net = {0};
        int64_t port;
        int r;

        if (a->n_ranks < 1)
                return -EINVAL;
        r = fragment_net(t, a, false, &net, &c.unit_gbs, NULL);
        if (r < 0)
                return r;
        port = fragment_star(&net);
        if (a->n_ranks < 2)
                r = 0;
        else if (port)
                r = star(port, a->n_ranks, trees, &c);
        else if (net.n == net.n_ranks)
                r = direct(&net, trees, &c);
        else
                r = relayed(&net, trees, c.unit_gbs, &c.broadcast_gbs, &c.allgather_gbs, &c.allreduce_gbs,
                            &c.allreduce);
        c.connected = a->n_ranks == 1 || c.broadcast_gbs > 0;
        c.nvls_gbs = nvls(t, port, a->n_ranks, c.unit_gbs);
        if (!r && what & CAPO_CEILING_RINGS)
                r = fragment_shapes(&net, c.unit_gbs, t->brick_gbs, &c.shapes);
        free(net.cap);
        if (!r && what & CAPO_CEILING_HYBRID && t->pci_known && a->n_ranks > 1) {
                net.cap = NULL;
                r = fragment_net(t, a, true, &net, &c.hybrid_unit_gbs, trees ? &c.hybrid_names : NULL);
                if (!r)
                        r = relayed(&net, trees, c.hybrid_unit_gbs, &c.hybrid_broadcast_gbs, &c.hybrid_allgather_gbs,
                                    &c.hybrid_allreduce_gbs, &c.hybrid_allreduce);
                c.nvls_across_gbs = !r && adds(t) ? c.hybrid_broadcast_gbs : 0;
                if (!r && trees)
                        r = rooted_trees(&net, &c);
                free(net.cap);
        }
        if (r < 0)
                capo_ceilings_free(&c);
        else
                *out = c;
        return r;
}

void capo_ceilings_free(struct capo_ceilings *c)
{
        pack_trees_free(&c->broadcast);
        pack_trees_free(&c->allgather);
        pack_trees_free(&c->allreduce);
        pack_trees_free(&c->hybrid_allreduce);
        pack_trees_free(&c->hybrid_broadcast);
        pack_trees_free(&c->hybrid_allgather);
        pack_ways_free(&c->hybrid_broadcast_ways);
        pack_ways_free(&c->hybrid_allgather_ways);
        free(steal(&c->hybrid_names));
}
