/* SPDX-License-Identifier: Apache-2.0 */
/* Rings and chains, from which NCCL builds its channels. How many rings of whole bricks fit is a
 * search (small, and exact up to 8 GPUs). If rings share bricks, it is a packing whose oracle
 * solves the travelling salesman's problem with Held and Karp's table over sets of GPUs. */
#include <math.h>

#include "core/base/xalloc.h"
#include "profiles/fragment/lp.h"
#include "profiles/fragment/flow_net.h"

#define TOUR_GPUS 12 /* the table for rings and chains has 12 * 2^12 cells */

struct tour {
        int n, n_links;
        bool closed;                    /* a ring, or a chain */
        int link[TOUR_GPUS][TOUR_GPUS]; /* number of the link, or -1 */
        double *cost;                   /* [set * n + last] */
        int8_t *before;
};

/* The cheapest ring or chain through all GPUs, by Held and Karp's dynamic programming. cost[set][v]
 * is the price of the cheapest chain that passes every GPU of `set` once and ends at v. The part
 * before v is such a chain through the set without v, so
 *
 *      cost[{v}][v] = 0
 *      cost[set][v] = min over u in set - v of cost[set - v][u] + price of the link u - v
 *
 * Sets are visited in rising order, so subsets come first. A ring is a chain that begins at GPU 0
 * and also pays for the link back from its end. `before` keeps the best u, from which the links are
 * read backwards. n^2 2^n steps: 590,000 for 12 GPUs, instead of 12! orders. */
static double cheapest_tour(void *user, const double *price, double *use)
{
        struct tour *w = user;
        int n = w->n, full = (1 << n) - 1, last = -1;
        double best = INFINITY;

        for (int set = 1; set <= full; set++) {
                for (int v = 0; v < n; v++) {
                        double *c = &w->cost[set * n + v];
                        int rest = set & ~(1 << v);

                        *c = INFINITY;
                        if (!(set >> v & 1) || (w->closed && !(set & 1)))
                                continue;
                        if (!rest) {
                                *c = w->closed && v ? INFINITY : 0;
                                continue;
                        }
                        if (w->closed && !v)
                                continue; /* a ring starts at 0 */
                        for (int u = 0; u < n; u++) {
                                double d;

                                if (!(rest >> u & 1) || w->link[u][v] < 0)
                                        continue;
                                d = w->cost[rest * n + u] + price[w->link[u][v]];
                                if (d < *c) {
                                        *c = d;
                                        w->before[set * n + v] = (int8_t)u;
                                }
                        }
                }
        }
        for (int v = 0; v < n; v++) {
                double d = w->cost[full * n + v];

                if (w->closed)
                        d += v && w->link[v][0] >= 0 ? price[w->link[v][0]] : INFINITY;
                if (d < best) {
                        best = d;
                        last = v;
                }
        }
        if (last < 0)
                return -1;
        if (w->closed)
                use[w->link[last][0]] += 1;
        for (int set = full, v = last; set;) {
                int u = w->before[set * n + v];

                if (set & (set - 1))
                        use[w->link[u][v]] += 1;
                set &= ~(1 << v);
                v = u;
        }
        return best;
}

/* As many rings as possible out of whole bricks: extend a path from GPU 0 and remove its bricks,
 * close it, start the next ring in the rest; then backtrack. A ring is tried in one direction only.
 * The same rings in another order are tried again, which costs only time. Two bounds end most tries
 * early: every GPU needs two bricks per further ring (cannot_improve()), and at most half the
 * bricks of the poorest GPU are rings (`most`), where the search stops. After 2,000,000 steps the
 * best so far is reported as "at least". */
struct search {
        int n, best, most;
        long steps;
        int left[8][8];
        int path[8];
        int made;
};

static void extend_ring(struct search *s, int depth, unsigned seen);

static bool cannot_improve(const struct search *s)
{
        int least = 1 << 20;

        for (int u = 0; u < s->n; u++) {
                int d = 0;

                for (int v = 0; v < s->n; v++)
                        d += s->left[u][v];
                least = d / 2 < least ? d / 2 : least;
        }
        return s->made + least <= s->best;
}

static void next_ring(struct search *s)
{
        if (s->made > s->best)
                s->best = s->made;
        if (s->best >= s->most || cannot_improve(s))
                return;
        s->path[0] = 0;
        extend_ring(s, 1, 1);
}

static void extend_ring(struct search *s, int depth, unsigned seen)
{
        int u = s->path[depth - 1];

        if (s->best >= s->most || ++s->steps > 2000000)
                return;
        if (depth == s->n) {
                if (s->left[u][0] > 0 && s->path[1] < u) { /* each ring in one direction only */
                        s->left[u][0]--;
                        s->left[0][u]--;
                        s->made++;
                        next_ring(s);
                        s->made--;
                        s->left[u][0]++;
                        s->left[0][u]++;
                }
                return;
        }
        for (int v = 1; v < s->n; v++) {
                if (seen >> v & 1 || s->left[u][v] <= 0)
                        continue;
                s->left[u][v]--;
                s->left[v][u]--;
                s->path[depth] = v;
                {
                        int keep[8];

                        memcpy(keep, s->path, sizeof keep);
                        extend_ring(s, depth + 1, seen | 1u << v);
                        memcpy(s->path, keep, sizeof keep);
                }
                s->left[u][v]++;
                s->left[v][u]++;
        }
}

static int count_rings(const struct pack_net *net, double per_brick, bool *exact)
{
        struct search s = {.n = net->n, .most = 1 << 20};

        if (net->n > 8)
                return -1;
        for (int u = 0; u < s.n; u++) {
                int bricks = 0;

                for (int v = 0; v < s.n; v++) {
                        s.left[u][v] =
                                (int)floor((double)net->cap[u * net->n + v] * per_brick + 1e-9);
                        bricks += s.left[u][v];
                }
                s.most = bricks / 2 < s.most ? bricks / 2 : s.most;
        }
        next_ring(&s);
        *exact = s.steps <= 2000000;
        return s.best;
}

/* The largest packing of rings (@closed) or chains through all GPUs. */
static void pack_tours(const struct pack_net *net, bool closed, double unit_gbs, double *out)
{
        int n = net->n;
        struct tour w = {.n = n, .closed = closed};
        double cap[TOUR_GPUS * TOUR_GPUS], most;

        for (int u = 0; u < n; u++) {
                w.link[u][u] = -1;
                for (int v = 0; v < u; v++) {
                        w.link[u][v] = w.link[v][u] = net->cap[u * n + v] ? w.n_links : -1;
                        if (net->cap[u * n + v])
                                cap[w.n_links++] = (double)net->cap[u * n + v];
                }
        }
        w.cost = xmalloc(sizeof *w.cost * (size_t)n << n);
        w.before = xcalloc((size_t)n << n, sizeof *w.before);
        lp_pack(w.n_links, cap, cheapest_tour, &w, &most);
        free(w.cost);
        free(w.before);
        *out = most * unit_gbs;
}

void fragment_shapes(const struct pack_net *net, double unit_gbs, double brick_gbs,
                     struct capo_shapes *out)
{
        int64_t port = fragment_star(net);
        struct capo_shapes s = {.rings = -1, .ring_gbs = -1, .ring_split_gbs = -1, .chain_gbs = -1};
        int n = net->n_ranks;
        double per_brick = brick_gbs > 0 ? unit_gbs / brick_gbs : 0;

        if (port && n >= 2) { /* any order of GPUs is a ring: one brick out of each and one in */
                int bricks = (int)floor((double)port * per_brick + 1e-9);

                s.ring = true;
                s.rings = n == 2 ? bricks : bricks / 2;
                s.rings_exact = true;
                s.ring_gbs = s.ring_split_gbs = (double)port * unit_gbs;
                /* inner GPUs of a chain use two links, its ends one: the ends rotate */
                s.chain_gbs = (double)port * unit_gbs * n / (2.0 * (n - 1));
        } else if (net->n == n && n == 2) {
                s.ring = net->cap[1] > 0;
                s.rings = (int)floor((double)net->cap[1] * per_brick + 1e-9);
                s.rings_exact = true;
                s.ring_gbs = s.ring_split_gbs = s.chain_gbs = (double)net->cap[1] * unit_gbs;
        } else if (net->n == n && n > 2 && n <= TOUR_GPUS) {
                pack_tours(net, true, unit_gbs, &s.ring_split_gbs);
                pack_tours(net, false, unit_gbs, &s.chain_gbs);
                s.ring_split_gbs *= 2; /* each ring works in both directions */
                s.ring = s.ring_split_gbs > 0;
                s.rings = s.ring ? count_rings(net, per_brick, &s.rings_exact) : 0;
                s.rings_exact |= !s.ring;
                s.ring_gbs = s.rings >= 0 ? 2.0 * s.rings * brick_gbs : -1;
        }
        *out = s;
}
