/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcast is one cut. All-gather is a ratio, found by Newton's steps: guess x, use flows to find
 * a set that cannot send that much, take that set's ratio as the next x. Each guess is some set's
 * ratio, so it is never below the answer; it only falls, so no set comes twice and it ends. If no
 * set objects, x is a set's ratio and feasible, so it is exact. All-reduce is a linear program over
 * trees whose edges are paths through relays: attained by the trees that it finds, and proved by
 * its prices.
 *
 * Fractions are avoided in the flows: for x = num / den, all capacities are multiplied by den, and
 * x is num. */
#include <math.h>

#include "core/base/xalloc.h"
#include "profiles/fragment/lp.h"
#include "profiles/fragment/tree_pack.h"

/* Dinic's algorithm. set_levels() numbers the vertices by their distance from the source over arcs
 * with capacity left. push_flow() then fills every path that rises one level per arc; `at`
 * remembers the exhausted arcs of a vertex, so that none is tried twice. Each round's distance is
 * larger, so there are fewer rounds than vertices. When the sink is out of reach, the vertices with
 * a level are the source's side of the smallest cut with the fewest vertices there. Networks have tens of
 * vertices. */

#define FLOW_INFINITE (INT64_MAX / 4)

struct flow_arc {
        int to, next; /* next arc of the same vertex, or -1; arc i ^ 1 is the reverse */
        int64_t cap, left;
};

struct flow {
        int n, n_arcs;
        int *head, *level, *at, *queue;
        struct flow_arc *arcs;
};

static struct flow flow_new(int n)
{
        struct flow f = {.n = n, .head = xmalloc(4 * sizeof *f.head * (size_t)n)};

        f.level = f.head + n;
        f.at = f.level + n;
        f.queue = f.at + n;
        for (int i = 0; i < n; i++)
                f.head[i] = -1;
        return f;
}

static void flow_free(struct flow *f) { xfree(f->head, f->arcs); }

/* Add an arc; @back is the capacity of its reverse (0: one-way). */
static void flow_add(struct flow *f, int from, int to, int64_t cap, int64_t back)
{
        *xadd(f->arcs, f->n_arcs) = (struct flow_arc){.to = to, .next = f->head[from], .cap = cap};
        f->head[from] = f->n_arcs - 1;
        *xadd(f->arcs, f->n_arcs) = (struct flow_arc){.to = from, .next = f->head[to], .cap = back};
        f->head[to] = f->n_arcs - 1;
}

static bool set_levels(struct flow *f, int s, int t)
{
        int first = 0, last = 0;

        for (int i = 0; i < f->n; i++)
                f->level[i] = -1;
        f->level[s] = 0;
        f->queue[last++] = s;
        while (first < last) {
                int v = f->queue[first++];

                for (int a = f->head[v]; a >= 0; a = f->arcs[a].next) {
                        int w = f->arcs[a].to;

                        if (f->arcs[a].left > 0 && f->level[w] < 0) {
                                f->level[w] = f->level[v] + 1;
                                f->queue[last++] = w;
                        }
                }
        }
        return f->level[t] >= 0;
}

static int64_t push_flow(struct flow *f, int v, int t, int64_t most)
{
        int64_t done = 0;

        if (v == t)
                return most;
        for (int *a = &f->at[v]; *a >= 0; *a = f->arcs[*a].next) {
                struct flow_arc *arc = &f->arcs[*a];
                int64_t got;

                if (arc->left <= 0 || f->level[arc->to] != f->level[v] + 1)
                        continue;
                got = push_flow(f, arc->to, t, most - done < arc->left ? most - done : arc->left);
                arc->left -= got;
                f->arcs[*a ^ 1].left += got;
                done += got;
                if (done == most) /* keep *a: this arc may have capacity left */
                        return done;
        }
        return done;
}

/* Value of a maximum flow; stops at @enough. Capacities do not change: each call
 * starts anew. */
static int64_t flow_max(struct flow *f, int s, int t, int64_t enough)
{
        int64_t total = 0;

        for (int i = 0; i < f->n_arcs; i++)
                f->arcs[i].left = f->arcs[i].cap;
        while (total < enough && set_levels(f, s, t)) {
                memcpy(f->at, f->head, sizeof *f->at * (size_t)f->n);
                total += push_flow(f, s, t, enough - total);
        }
        return total;
}

int64_t pack_gcd(int64_t a, int64_t b)
{
        while (b) {
                int64_t c = a % b;

                a = b;
                b = c;
        }
        return a;
}

struct pack_rate pack_rate_make(int64_t num, int64_t den)
{
        int64_t g = pack_gcd(num, den);

        return g ? (struct pack_rate){num / g, den / g} : (struct pack_rate){0, 1};
}

static void add_links(struct flow *f, const struct pack_net *net, int64_t scale)
{
        for (int u = 0; u < net->n; u++) {
                for (int v = u + 1; v < net->n; v++) {
                        int64_t there = net->cap[u * net->n + v], back = net->cap[v * net->n + u];

                        if (there || back)
                                flow_add(f, u, v, scale * there, scale * back);
                }
        }
}

void pack_broadcast(const struct pack_net *net, struct pack_rate *out)
{
        struct flow f = flow_new(net->n);
        int64_t least = FLOW_INFINITE;

        add_links(&f, net, 1);
        for (int t = 1; t < net->n_ranks; t++)
                least = flow_max(&f, 0, t, least);
        *out = net->n_ranks > 1 ? (struct pack_rate){least, 1} : (struct pack_rate){0, 1};
        flow_free(&f);
}

/* Capacity that leaves the set `in`, and the ranks inside. */
static void cut_capacity(const struct pack_net *net, const bool *in, int64_t *cap, int64_t *ranks)
{
        *cap = *ranks = 0;
        for (int u = 0; u < net->n; u++) {
                if (!in[u])
                        continue;
                *ranks += u < net->n_ranks;
                for (int v = 0; v < net->n; v++)
                        *cap += in[v] ? 0 : net->cap[u * net->n + v];
        }
}

void pack_gather(const struct pack_net *net, struct pack_rate *out)
{
        _cleanup_free_ bool *in = xmalloc((size_t)net->n + 1);
        struct pack_rate x = {0, 1};
        int64_t cap, ranks;
        int n = net->n_ranks;

        *out = x;
        if (n < 2)
                return;
        /* start with the link set of one rank, which is the usual bottleneck: all other ranks' data
         * must enter it */
        for (int v = 0; v < n; v++) {
                memset(in, true, (size_t)net->n);
                in[v] = false;
                cut_capacity(net, in, &cap, &ranks);
                if (!v || cap * x.den < x.num * ranks)
                        x = pack_rate_make(cap, ranks);
        }
        for (bool again = true; again && x.num;) {
                struct flow f = flow_new(net->n + 1);
                int s = net->n;

                again = false;
                add_links(&f, net, x.den);
                for (int v = 0; v < n; v++)
                        flow_add(&f, s, v, x.num, 0);
                for (int t = 0; t < n && !again; t++) {
                        if (flow_max(&f, s, t, n * x.num) == n * x.num)
                                continue;
                        for (int v = 0; v < net->n; v++)
                                in[v] = f.level[v] >= 0;
                        again = true;
                }
                flow_free(&f);
                if (again) {
                        cut_capacity(net, in, &cap, &ranks);
                        x = pack_rate_make(cap, ranks);
                }
        }
        *out = x;
}

/* --- all-reduce --- */

struct relay_tree {
        const struct pack_net *net;
        int *link;   /* n * n: index of the link or -1 */
        double *far; /* n_ranks * n: price of the path from a rank to every vertex through relays */
        int *before; /* n_ranks * n: previous vertex on that path */
        double *at;  /* Prim, per rank: price of joining, from where, done; Dijkstra, per vertex:
                        done */
        int *parent;
        bool *done;
};

/* Dijkstra from rank s. Paths do not pass through other ranks, which are ends of paths of their
 * own. */
static void find_paths(struct relay_tree *w, int s, const double *price)
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

/* The cheapest spanning tree of the ranks, with paths as edges: Prim's algorithm over path prices.
 * If two paths use one link, it is counted and paid twice, because the tree uses it twice. */
static double cheapest_tree(void *user, const double *price, double *use)
{
        struct relay_tree *w = user;
        int n = w->net->n, ranks = w->net->n_ranks, *parent = w->parent;
        bool *in = w->done;
        double total = 0, *at = w->at;

        for (int s = 0; s < ranks; s++)
                find_paths(w, s, price);
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

void pack_allreduce(const struct pack_net *net, double *out)
{
        size_t n = (size_t)net->n, ranks = (size_t)net->n_ranks;
        _cleanup_free_ int *link = xmalloc(sizeof *link * n * n),
                           *before = xmalloc(sizeof *before * n * ranks),
                           *parent = xmalloc(sizeof *parent * ranks);
        _cleanup_free_ double *far = xmalloc(sizeof *far * n * ranks),
                              *cap = xmalloc(sizeof *cap * n * n),
                              *at = xmalloc(sizeof *at * ranks);
        _cleanup_free_ bool *done = xmalloc(n);
        struct relay_tree w = {.net = net,
                               .link = link,
                               .far = far,
                               .before = before,
                               .at = at,
                               .parent = parent,
                               .done = done};
        double most;
        int n_links = 0;

        *out = 0;
        if (ranks < 2)
                return;
        for (size_t u = 0; u < n; u++) {
                link[u * n + u] = -1;
                for (size_t v = 0; v < u; v++) {
                        link[u * n + v] = link[v * n + u] = net->cap[u * n + v] ? n_links : -1;
                        if (net->cap[u * n + v])
                                cap[n_links++] = (double)net->cap[u * n + v];
                }
        }
        lp_pack(n_links, cap, cheapest_tree, &w, &most);
        *out = most;
        /* With direct links, the answer is a fraction with a denominator below the number of ranks (Tutte):
         * remove the rounding error. */
        for (int den = 1; den < net->n_ranks; den++) {
                double near = round(most * den) / den;

                if (fabs(near - most) < 1e-7 * most) {
                        *out = near;
                        return;
                }
        }
}
