/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rates. Broadcast is one cut. All-gather is a ratio, found by Newton's steps: guess x, let flows look for a set
 * that cannot send that much, take that set's own ratio as the next x. The guess is always some set's ratio, so the
 * answer is never above it; and it only falls, so no set comes twice and it ends: where no set objects, x is both a
 * set's ratio and possible, which is the exact answer. All-reduce the same way, with a partition in place of a set.
 *
 * Fractions are kept out of the flows: for x = num / den all capacities are taken den times, and x is num.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "profiles/fragment/flow.h"
#include "profiles/fragment/pack.h"

static int64_t gcd(int64_t a, int64_t b)
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
        int64_t g = gcd(num, den);

        return g ? (struct pack_rate){num / g, den / g} : (struct pack_rate){0, 1};
}

void pack_trees_free(struct pack_trees *t)
{
        free(t->trees);
        free(t->edges);
        memset(t, 0, sizeof *t);
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

int pack_broadcast(const struct pack_net *net, struct pack_rate *out)
{
        struct flow f = {0};
        int64_t least = FLOW_INFINITE;

        flow_begin(&f, net->n);
        if (!f.no_memory)
                add_links(&f, net, 1);
        for (int t = 1; t < net->n_ranks && !f.no_memory; t++)
                least = flow_max(&f, 0, t, least);
        *out = net->n_ranks > 1 ? (struct pack_rate){least, 1} : (struct pack_rate){0, 1};
        flow_free(&f);
        return f.no_memory ? -ENOMEM : 0;
}

/* Capacity that leaves the set `in`, and the ranks inside. */
static void leaving(const struct pack_net *net, const bool *in, int64_t *cap, int64_t *ranks)
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

int pack_gather(const struct pack_net *net, struct pack_rate *out)
{
        _cleanup_free_ bool *in = malloc((size_t)net->n + 1);
        struct pack_rate x = {0, 1};
        int64_t cap, ranks;
        int n = net->n_ranks, r = 0;

        *out = x;
        if (!in)
                return -ENOMEM;
        if (n < 2)
                return 0;
        /* all ranks but one must get through the links of that one: the usual bottleneck, so a good first guess */
        for (int v = 0; v < n; v++) {
                memset(in, true, (size_t)net->n);
                in[v] = false;
                leaving(net, in, &cap, &ranks);
                if (!v || cap * x.den < x.num * ranks)
                        x = pack_rate_make(cap, ranks);
        }
        for (bool again = true; again && x.num;) {
                struct flow f = {0};
                int s = net->n;

                again = false;
                flow_begin(&f, net->n + 1);
                if (!f.no_memory)
                        add_links(&f, net, x.den);
                for (int v = 0; v < n && !f.no_memory; v++)
                        flow_add(&f, s, v, x.num, 0);
                for (int t = 0; t < n && !again && !f.no_memory; t++) {
                        if (flow_max(&f, s, t, n * x.num) == n * x.num)
                                continue;
                        for (int v = 0; v < net->n; v++)
                                in[v] = flow_side(&f, v);
                        again = true;
                }
                r = f.no_memory ? -ENOMEM : 0;
                flow_free(&f);
                if (r < 0)
                        return r;
                if (again) {
                        leaving(net, in, &cap, &ranks);
                        x = pack_rate_make(cap, ranks);
                }
        }
        *out = x;
        return 0;
}

/* --- all-reduce --- */

/* A link under the greedy below; y is how much of it the trees use. */
struct link {
        int u, v, part;
        int64_t cap, y;
};

/*
 * How much more link @e may carry: the least, over sets S of vertices that hold both its ends, of x (|S| - 1) minus
 * what the links inside S carry already. (A forest has at most |S| - 1 links in S.) By flow, after Picard and
 * Queyranne: source -> link (y), link -> its ends (no limit), vertex -> sink (x), and the ends of @e forced in. @in
 * gets the set.
 */
static int64_t room_in_forest(struct flow *f, const struct link *links, int n_links, int n, int64_t x, int e, bool *in)
{
        int s = n + n_links, t = s + 1;
        int64_t total = 0, cut;

        flow_begin(f, t + 1);
        if (f->no_memory)
                return 0;
        for (int i = 0; i < n_links; i++) {
                if (!links[i].y)
                        continue;
                total += links[i].y;
                flow_add(f, s, n + i, links[i].y, 0);
                flow_add(f, n + i, links[i].u, FLOW_INFINITE, 0);
                flow_add(f, n + i, links[i].v, FLOW_INFINITE, 0);
        }
        for (int v = 0; v < n; v++)
                flow_add(f, v, t, x, 0);
        flow_add(f, s, links[e].u, FLOW_INFINITE, 0);
        flow_add(f, s, links[e].v, FLOW_INFINITE, 0);
        cut = flow_max(f, s, t, FLOW_INFINITE);
        for (int v = 0; v < n; v++)
                in[v] = flow_side(f, v);
        in[links[e].u] = in[links[e].v] = true;
        return cut - total - x; /* x |S| + (total - y inside S) - total - x */
}

static void merge(int *part, int n, const bool *in)
{
        int first = -1;

        for (int v = 0; v < n; v++) {
                if (!in[v])
                        continue;
                if (first < 0)
                        first = part[v];
                for (int w = 0, old = part[v]; w < n; w++) {
                        if (part[w] == old)
                                part[w] = first;
                }
        }
}

/*
 * Can x (scaled like the capacities) be packed? Greedily each link takes what it may; the sum reaches x (n - 1) exactly
 * if it can (the sets' bound is a matroid's rank). If not, the sets that stopped links are the parts of a partition
 * that proves it: *parts of them, with *cross capacity between them.
 */
static int try_strength(struct link *links, int n_links, int n, int64_t x, int64_t *sum, int64_t *cross, int *parts)
{
        _cleanup_free_ int *part = malloc(sizeof *part * (size_t)n);
        _cleanup_free_ bool *in = malloc((size_t)n);
        struct flow f = {0};

        if (!part || !in)
                return -ENOMEM;
        for (int v = 0; v < n; v++)
                part[v] = v;
        *sum = *cross = 0;
        *parts = n;
        for (int i = 0; i < n_links; i++)
                links[i].y = 0;
        for (int i = 0; i < n_links && !f.no_memory; i++) {
                int64_t room = room_in_forest(&f, links, n_links, n, x, i, in);

                links[i].y = room < links[i].cap ? room : links[i].cap;
                *sum += links[i].y;
                if (room <= links[i].cap) /* this set is full now, and stays so */
                        merge(part, n, in);
        }
        flow_free(&f);
        if (f.no_memory)
                return -ENOMEM;
        for (int v = 0; v < n; v++) {
                for (int w = 0; w < v; w++) {
                        if (part[w] == part[v]) {
                                (*parts)--;
                                break;
                        }
                }
        }
        for (int i = 0; i < n_links; i++)
                *cross += part[links[i].u] != part[links[i].v] ? links[i].cap : 0;
        return 0;
}

/*
 * Each vertex but the root gets x of the used links pointing at it, the root none: then whatever set the root is not in
 * has x coming in (x |S| minus what stays inside, and that is at most x (|S| - 1)). One flow deals them out.
 */
static int orient(const struct link *links, int n_links, int n, int64_t x, int64_t *out)
{
        struct flow f = {0};
        int s = n + n_links, t = s + 1;

        flow_begin(&f, t + 1);
        for (int i = 0; i < n_links && !f.no_memory; i++) {
                flow_add(&f, s, n + i, links[i].y, 0);
                flow_add(&f, n + i, links[i].u, FLOW_INFINITE, 0);
                flow_add(&f, n + i, links[i].v, FLOW_INFINITE, 0);
        }
        for (int v = 1; v < n && !f.no_memory; v++)
                flow_add(&f, v, t, x, 0);
        if (!f.no_memory)
                flow_max(&f, s, t, FLOW_INFINITE);
        memset(out, 0, sizeof *out * (size_t)(n * n));
        for (int i = 0; i < n_links && !f.no_memory; i++) {
                int64_t to_u = flow_carried(&f, 6 * i + 2), to_v = flow_carried(&f, 6 * i + 4);

                out[links[i].v * n + links[i].u] += to_u;
                out[links[i].u * n + links[i].v] += to_v;
        }
        flow_free(&f);
        return f.no_memory ? -ENOMEM : 0;
}

int pack_strength(const struct pack_net *net, struct pack_rate *out, int64_t *oriented)
{
        int n = net->n, n_links = 0, parts, r;
        _cleanup_free_ struct link *links = malloc(sizeof *links * (size_t)(n * n + 1));
        int64_t total = 0, sum = 0, cross;
        struct pack_rate x;

        *out = (struct pack_rate){0, 1};
        if (!links)
                return -ENOMEM;
        if (n != net->n_ranks)
                return -EINVAL;
        for (int u = 0; u < n; u++) {
                for (int v = u + 1; v < n; v++) {
                        if (net->cap[u * n + v] > 0) {
                                links[n_links++] = (struct link){.u = u, .v = v, .cap = net->cap[u * n + v]};
                                total += net->cap[u * n + v];
                        }
                }
        }
        if (oriented)
                memset(oriented, 0, sizeof *oriented * (size_t)(n * n));
        if (n < 2 || !total)
                return 0;
        x = pack_rate_make(total, n - 1); /* the partition into single vertices */
        for (;;) {
                for (int i = 0; i < n_links; i++)
                        links[i].cap *= x.den;
                r = try_strength(links, n_links, n, x.num, &sum, &cross, &parts);
                if (r < 0)
                        return r;
                if (sum == x.num * (n - 1))
                        break;
                for (int i = 0; i < n_links; i++)
                        links[i].cap /= x.den;
                cross /= x.den;
                if (!cross)
                        return 0; /* not connected */
                x = pack_rate_make(cross, parts - 1);
        }
        *out = x;
        return oriented ? orient(links, n_links, n, x.num, oriented) : 0;
}
