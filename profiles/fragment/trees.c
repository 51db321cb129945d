/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trees behind the rates: Lovasz's proof of Edmonds' theorem, with multiplicities (Berczi and Frank 2010). A batch
 * is a partial tree of which `count` equal copies are being grown.
 *
 * All batches can be finished in what is left exactly if every set S of vertices has, coming in from outside, at least
 * the counts of all batches that have not reached S yet: each copy has to come in once. That holds at the start,
 * because the rates were chosen so, and it is kept true: a link u -> v is used for a batch only as often as every set
 * that holds v but not u can spare it. The set that can spare least is a smallest cut, so the number is one maximum
 * flow (may_serve). Lovasz proved that as long as a batch is not finished, some link can serve it at least once; so the
 * loop never has to take a link back, and it ends. A batch that can only be served in part is divided in two. To end
 * with few trees, the largest batch grows first, along the link that serves most copies.
 *
 * Relays (pack_unrelay) neither begin nor end a tree, so they can be done away with beforehand: where data comes to
 * relay w from u and goes on to t, that much of u -> w and w -> t is replaced by a direct link u -> t ("splitting
 * off"). It keeps all demands as long as no set loses what it needs (may_split: again cuts), and because as much leads
 * into a relay as out of it, everything that matters can be split off one pair after the other (Bang-Jensen, Frank,
 * Jackson 1995).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/util.h"
#include "profiles/fragment/flow.h"
#include "profiles/fragment/pack.h"

struct batch {
        int64_t count;
        int root, n_in;
        bool *in;                /* vertices reached */
        struct pack_edge *edges; /* n_in - 1 of them */
};

struct packing {
        int n, n_batches;
        int64_t *left; /* capacities not used yet */
        struct batch *batches;
        struct flow flow;
};

static struct batch *add_batch(struct packing *p, int root, int64_t count)
{
        struct batch *b;

        if (capo_array_room(&p->batches, (size_t)p->n_batches, sizeof *b) < 0)
                return NULL;
        b = &p->batches[p->n_batches];
        *b = (struct batch){.count = count, .root = root, .n_in = 1};
        b->in = calloc((size_t)p->n, 1);
        b->edges = calloc((size_t)p->n, sizeof *b->edges);
        p->n_batches++;
        if (!b->in || !b->edges)
                return NULL;
        b->in[root] = true;
        return b;
}

/*
 * How many copies of batch @k the link from -> to may serve: the smallest cut between its ends in what is left, where
 * another batch that has reached one side only adds its count to the cut, less all those counts. In the flow each other
 * batch is a vertex of its own: `from` can send it its count, and it passes that on to every vertex that it has
 * reached.
 */
static int64_t may_serve(struct packing *p, int k, int from, int to)
{
        struct flow *f = &p->flow;
        int64_t others = 0, most = p->left[from * p->n + to], got;
        int extra = p->n;

        if (most > p->batches[k].count)
                most = p->batches[k].count;
        flow_begin(f, p->n + p->n_batches);
        if (f->no_memory)
                return 0;
        for (int u = 0; u < p->n; u++) {
                for (int v = u + 1; v < p->n; v++) {
                        int64_t there = p->left[u * p->n + v], back = p->left[v * p->n + u];

                        if (there || back)
                                flow_add(f, u, v, there, back);
                }
        }
        for (int i = 0; i < p->n_batches; i++, extra++) {
                const struct batch *b = &p->batches[i];

                if (i == k || b->n_in == p->n)
                        continue;
                others += b->count;
                flow_add(f, from, extra, b->count, 0);
                for (int v = 0; v < p->n; v++) {
                        if (b->in[v])
                                flow_add(f, extra, v, FLOW_INFINITE, 0);
                }
        }
        got = flow_max(f, from, to, others + most) - others;
        return got < 0 ? 0 : got < most ? got : most;
}

/* Depth of a vertex in a partial tree: among links that serve equally, the shallower one. */
static int depth(const struct batch *b, int v)
{
        int d = 0;

        for (int i = b->n_in - 2; i >= 0; i--) { /* edges were added from the root on: walk back up */
                if (b->edges[i].to == v) {
                        v = b->edges[i].from;
                        d++;
                }
        }
        return d;
}

static int grow_once(struct packing *p, int k)
{
        int best_from = -1, best_to = -1, best_depth = 0, n = p->n;
        int64_t best = 0;
        struct batch *b = &p->batches[k];

        for (int u = 0; u < n && !p->flow.no_memory; u++) {
                if (!b->in[u])
                        continue;
                for (int v = 0; v < n; v++) {
                        int64_t limit = p->left[u * n + v], got;
                        int d;

                        if (b->in[v] || !limit)
                                continue;
                        d = depth(b, u);
                        if (limit > b->count)
                                limit = b->count;
                        if (limit < best || (limit == best && d >= best_depth))
                                continue; /* cannot be better */
                        got = may_serve(p, k, u, v);
                        if (got > best || (got == best && got && d < best_depth)) {
                                best = got;
                                best_from = u;
                                best_to = v;
                                best_depth = d;
                        }
                }
        }
        if (p->flow.no_memory)
                return -ENOMEM;
        if (!best)
                return -EDOM;
        if (best < b->count) { /* the rest of the copies goes on without this link */
                struct batch *rest = add_batch(p, b->root, b->count - best);

                b = &p->batches[k];
                if (!rest)
                        return -ENOMEM;
                rest->n_in = b->n_in;
                memcpy(rest->in, b->in, (size_t)n);
                memcpy(rest->edges, b->edges, sizeof *b->edges * (size_t)n);
                b->count = best;
        }
        b->edges[b->n_in - 1] = (struct pack_edge){(int16_t)best_from, (int16_t)best_to};
        b->in[best_to] = true;
        b->n_in++;
        p->left[best_from * n + best_to] -= best;
        return 0;
}

static int by_rate(const void *a, const void *b)
{
        const struct batch *x = a, *y = b;

        return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : x->root - y->root;
}

static int finish(struct packing *p, int64_t den, struct pack_trees *out)
{
        int per_tree = p->n - 1;
        struct pack_trees t = {.n_ranks = p->n};

        t.trees = calloc((size_t)p->n_batches + 1, sizeof *t.trees);
        t.edges = calloc((size_t)p->n_batches * (size_t)per_tree + 1, sizeof *t.edges);
        if (!t.trees || !t.edges) {
                pack_trees_free(&t);
                return -ENOMEM;
        }
        qsort(p->batches, (size_t)p->n_batches, sizeof *p->batches, by_rate);
        for (int i = 0; i < p->n_batches; i++) {
                const struct batch *b = &p->batches[i];
                int same = 0;

                while (same < t.n_trees &&
                       (t.trees[same].root != b->root ||
                        memcmp(t.edges + same * per_tree, b->edges, sizeof *b->edges * (size_t)per_tree) != 0))
                        same++;
                if (same < t.n_trees) { /* divided once, but grown alike */
                        struct pack_rate *r = &t.trees[same].rate;

                        *r = pack_rate_make(r->num * (den / r->den) + b->count, den);
                        continue;
                }
                t.trees[t.n_trees] = (struct pack_tree){pack_rate_make(b->count, den), b->root};
                memcpy(t.edges + t.n_trees * per_tree, b->edges, sizeof *b->edges * (size_t)per_tree);
                t.n_trees++;
        }
        *out = t;
        return 0;
}

int pack_arborescences(int n, const int64_t *cap, const int64_t *root, int64_t den, struct pack_trees *out)
{
        struct packing p = {.n = n, .left = malloc(sizeof *p.left * (size_t)(n * n) + 1)};
        int r = p.left ? 0 : -ENOMEM;

        if (!r)
                memcpy(p.left, cap, sizeof *cap * (size_t)(n * n));
        for (int v = 0; v < n && !r; v++) {
                if (root[v] > 0 && !add_batch(&p, v, root[v]))
                        r = -ENOMEM;
        }
        while (!r) {
                int k = -1;

                for (int i = 0; i < p.n_batches; i++) {
                        if (p.batches[i].n_in < n && (k < 0 || p.batches[i].count > p.batches[k].count))
                                k = i;
                }
                if (k < 0)
                        break;
                while (!r && p.batches[k].n_in < n)
                        r = grow_once(&p, k);
        }
        if (!r)
                r = finish(&p, den, out);
        for (int i = 0; i < p.n_batches; i++) {
                free(p.batches[i].in);
                free(p.batches[i].edges);
        }
        free(p.batches);
        free(p.left);
        flow_free(&p.flow);
        return r;
}

/* --- relays --- */

/*
 * By how much the detour u -> w -> t may be made a direct link u -> t: sets that hold u and t but not w, or w but
 * neither of them, lose that much of what leaves them, and every set that holds the roots' source and not all ranks
 * must keep
 * @demand.
 */
static int64_t may_split(struct flow *f, const int64_t *cap, int n, int n_ranks, const int64_t *root, int64_t demand,
                         int u, int w, int t, int64_t most)
{
        int s = n, z = n + 1;

        for (int v = 0; v < n_ranks && most; v++) {
                for (int pass = 0; pass < 2 && most; pass++) {
                        int64_t got;

                        if (!pass && (v == u || v == t))
                                continue;
                        flow_begin(f, n + 2);
                        if (f->no_memory)
                                return 0;
                        for (int a = 0; a < n; a++) {
                                for (int b = a + 1; b < n; b++) {
                                        if (cap[a * n + b] || cap[b * n + a])
                                                flow_add(f, a, b, cap[a * n + b], cap[b * n + a]);
                                }
                        }
                        for (int a = 0; a < n_ranks; a++)
                                flow_add(f, s, a, root[a], 0);
                        flow_add(f, v, z, FLOW_INFINITE, 0);
                        if (!pass) {
                                flow_add(f, s, u, FLOW_INFINITE, 0);
                                flow_add(f, s, t, FLOW_INFINITE, 0);
                                flow_add(f, w, z, FLOW_INFINITE, 0);
                        } else {
                                flow_add(f, s, w, FLOW_INFINITE, 0);
                                flow_add(f, u, z, FLOW_INFINITE, 0);
                                flow_add(f, t, z, FLOW_INFINITE, 0);
                        }
                        got = flow_max(f, s, z, demand + most) - demand;
                        if (got < most)
                                most = got < 0 ? 0 : got;
                }
        }
        return most;
}

void pack_ways_free(struct pack_ways *w)
{
        for (int i = 0; i < w->n_ways; i++)
                free(w->ways[i].vertices);
        free(w->ways);
        memset(w, 0, sizeof *w);
}

/* A way made of @a and @b, which ends where the other begins; @b NULL: a link. */
static int add_way(struct pack_ways *w, int64_t amount, const int16_t *a, int n_a, const int16_t *b, int n_b)
{
        struct pack_way *way;

        if (capo_array_room(&w->ways, (size_t)w->n_ways, sizeof *way) < 0)
                return -ENOMEM;
        way = &w->ways[w->n_ways];
        way->amount = amount;
        way->n = n_a + (b ? n_b - 1 : 0);
        way->vertices = malloc(sizeof *way->vertices * (size_t)way->n);
        if (!way->vertices)
                return -ENOMEM;
        memcpy(way->vertices, a, sizeof *a * (size_t)n_a);
        if (b)
                memcpy(way->vertices + n_a, b + 1, sizeof *b * (size_t)(n_b - 1));
        w->n_ways++;
        return 0;
}

static int next_way(const struct pack_ways *w, int i, int from, int to)
{
        for (; i < w->n_ways; i++) {
                const struct pack_way *way = &w->ways[i];

                if (way->amount && way->vertices[0] == from && way->vertices[way->n - 1] == to)
                        return i;
        }
        return -1;
}

/* The ways u -> w and w -> t, as far as @amount goes, become ways u -> t. */
static int join_ways(struct pack_ways *w, int u, int by, int t, int64_t amount)
{
        int i = 0, k = 0;

        while (amount) {
                int64_t part;
                int r;

                i = next_way(w, i, u, by);
                k = next_way(w, k, by, t);
                if (i < 0 || k < 0)
                        return -EDOM;
                part = w->ways[i].amount < w->ways[k].amount ? w->ways[i].amount : w->ways[k].amount;
                part = part < amount ? part : amount;
                r = add_way(w, part, w->ways[i].vertices, w->ways[i].n, w->ways[k].vertices, w->ways[k].n);
                if (r < 0)
                        return r;
                w->ways[i].amount -= part;
                w->ways[k].amount -= part;
                amount -= part;
        }
        return 0;
}

static int link_ways(const int64_t *cap, int n, struct pack_ways *w)
{
        int r = 0;

        memset(w, 0, sizeof *w);
        for (int u = 0; u < n && !r; u++) {
                for (int v = 0; v < n && !r; v++) {
                        int16_t ends[2] = {(int16_t)u, (int16_t)v};

                        if (cap[u * n + v])
                                r = add_way(w, cap[u * n + v], ends, 2, NULL, 0);
                }
        }
        return r;
}

/* Only those between ranks stay. */
static void finish_ways(struct pack_ways *w, int ranks)
{
        int kept = 0;

        for (int i = 0; i < w->n_ways; i++) {
                struct pack_way *way = &w->ways[i];

                if (way->amount && way->vertices[0] < ranks && way->vertices[way->n - 1] < ranks)
                        w->ways[kept++] = *way;
                else
                        free(way->vertices);
        }
        w->n_ways = kept;
}

int pack_unrelay(const struct pack_net *net, int64_t scale, const int64_t *root, int64_t *out, struct pack_ways *ways)
{
        int n = net->n, ranks = net->n_ranks, r;
        _cleanup_free_ int64_t *cap = malloc(sizeof *cap * (size_t)(n * n) + 1);
        struct flow f = {0};
        int64_t demand = 0;

        if (!cap)
                return -ENOMEM;
        for (int i = 0; i < n * n; i++)
                cap[i] = net->cap[i] * scale;
        for (int v = 0; v < ranks; v++)
                demand += root[v];
        r = ways ? link_ways(cap, n, ways) : 0;
        for (int w = n - 1; w >= ranks && !r; w--) {
                for (int t = 0; t < n; t++) {
                        for (int u = 0; u < n && cap[w * n + t] && !r; u++) {
                                int64_t most = cap[u * n + w] < cap[w * n + t] ? cap[u * n + w] : cap[w * n + t];

                                if (u == t || !most)
                                        continue;
                                most = may_split(&f, cap, n, ranks, root, demand, u, w, t, most);
                                cap[u * n + w] -= most;
                                cap[w * n + t] -= most;
                                cap[u * n + t] += most;
                                if (ways)
                                        r = join_ways(ways, u, w, t, most);
                        }
                }
                for (int v = 0; v < n; v++) /* what is left went in a circle, or was not needed */
                        cap[w * n + v] = cap[v * n + w] = 0;
        }
        for (int u = 0; u < ranks; u++)
                memcpy(out + u * ranks, cap + u * n, sizeof *out * (size_t)ranks);
        flow_free(&f);
        if (ways && !r)
                finish_ways(ways, ranks);
        else if (ways)
                pack_ways_free(ways);
        return r ? r : f.no_memory ? -ENOMEM : 0;
}
