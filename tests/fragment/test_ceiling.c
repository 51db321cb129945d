/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ceilings against hand-made cases and against brute force: on small random networks every cut and every partition
 * is tried, and every packing must fit its links and add up to its rate.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "profiles/fragment/fragment.h"
#include "profiles/fragment/net.h"
#include "profiles/fragment/pack.h"
#include "profiles/fragment/rails.h"

#define N 6

static int64_t cap[N * N];

static struct pack_net make(int n, const int links[][3], size_t n_links)
{
        memset(cap, 0, sizeof cap);
        for (size_t i = 0; i < n_links; i++)
                cap[links[i][0] * n + links[i][1]] = cap[links[i][1] * n + links[i][0]] = links[i][2];
        return (struct pack_net){n, n, cap};
}

static void expect(struct pack_rate got, int64_t num, int64_t den, const char *what)
{
        cr_expect(got.num == num && got.den == den, "%s: expected %ld/%ld, found %ld/%ld", what, num, den, got.num,
                  got.den);
}

Test(ceiling, by_hand)
{
        static const int path[][3] = {{0, 1, 1}, {1, 2, 1}}, triangle[][3] = {{0, 1, 1}, {1, 2, 1}, {0, 2, 1}},
                         pair[][3] = {{0, 1, 3}};
        struct pack_rate r;
        struct pack_net net = make(3, path, 2);

        /* a path: each tree is the path; all-gather: the end gets 2 ranks' data through one link: x = 1/2 */
        pack_broadcast(&net, &r);
        expect(r, 1, 1, "path broadcast");
        pack_gather(&net, &r);
        expect(r, 1, 2, "path all-gather share");
        pack_strength(&net, &r, NULL);
        expect(r, 1, 1, "path all-reduce");
        /* a triangle: two ways into each GPU; three half trees of two links each */
        net = make(3, triangle, 3);
        pack_broadcast(&net, &r);
        expect(r, 2, 1, "triangle broadcast");
        pack_gather(&net, &r);
        expect(r, 1, 1, "triangle all-gather share");
        pack_strength(&net, &r, NULL);
        expect(r, 3, 2, "triangle all-reduce");
        net = make(2, pair, 1);
        pack_broadcast(&net, &r);
        expect(r, 3, 1, "pair broadcast");
        pack_strength(&net, &r, NULL);
        expect(r, 3, 1, "pair all-reduce");
        net = make(2, pair, 0); /* disconnected */
        pack_broadcast(&net, &r);
        expect(r, 0, 1, "disconnected broadcast");
        pack_gather(&net, &r);
        expect(r, 0, 1, "disconnected all-gather");
        pack_strength(&net, &r, NULL);
        expect(r, 0, 1, "disconnected all-reduce");
}

static int64_t leaving(const struct pack_net *net, unsigned set)
{
        int64_t sum = 0;

        for (int u = 0; u < net->n; u++) {
                for (int v = 0; v < net->n; v++)
                        sum += set >> u & 1 && !(set >> v & 1) ? net->cap[u * net->n + v] : 0;
        }
        return sum;
}

/* All partitions of the vertices, by restricted growth strings. */
static void partitions(const struct pack_net *net, int v, int parts, int *part, struct pack_rate *least)
{
        if (v == net->n) {
                int64_t cross = 0;

                for (int a = 0; a < net->n; a++) {
                        for (int b = 0; b < a; b++)
                                cross += part[a] != part[b] ? net->cap[a * net->n + b] : 0;
                }
                if (parts > 1 && cross * least->den < least->num * (parts - 1))
                        *least = pack_rate_make(cross, parts - 1);
                return;
        }
        for (part[v] = 0; part[v] <= parts; part[v]++)
                partitions(net, v + 1, part[v] == parts ? parts + 1 : parts, part, least);
}

/* Do the trees reach every rank, from their roots, within the links; do they add up to the rate? */
static void check_trees(int n, const int64_t *room, const struct pack_trees *t, struct pack_rate rate, bool both_ways,
                        const char *what)
{
        double used[N * N] = {0}, sum = 0;

        for (int i = 0; i < t->n_trees; i++) {
                double w = (double)t->trees[i].rate.num / (double)t->trees[i].rate.den;
                const struct pack_edge *e = t->edges + i * (n - 1);
                unsigned seen = 1u << t->trees[i].root;

                sum += w;
                for (int k = 0; k < n - 1; k++) {
                        cr_assert(seen >> e[k].from & 1, "%s: an edge from a GPU not reached yet", what);
                        cr_assert(!(seen >> e[k].to & 1), "%s: a GPU reached twice", what);
                        seen |= 1u << e[k].to;
                        used[e[k].from * n + e[k].to] += w;
                        if (both_ways)
                                used[e[k].to * n + e[k].from] += w;
                }
                cr_assert_eq(seen, (1u << n) - 1, "%s: a GPU not reached", what);
        }
        for (int i = 0; i < n * n; i++)
                cr_assert(used[i] <= (double)room[i] + 1e-9, "%s: a link carries %g of %ld", what, used[i], room[i]);
        cr_assert(fabs(sum - (double)rate.num / (double)rate.den) < 1e-9, "%s: trees add up to %g, not %ld/%ld", what,
                  sum, rate.num, rate.den);
}

Test(ceiling, brute_force, .timeout = 120)
{
        srand(7);
        for (int round = 0; round < 10000; round++) {
                int n = 2 + rand() % (N - 1), part[N], links = rand() % (n * (n - 1)) + 1;
                struct pack_net net = {n, n, cap};
                struct pack_rate b = {0, 1}, g = {0, 1}, s = {INT64_C(1) << 40, 1}, got;
                int64_t oriented[N * N], scaled[N * N], root[N] = {0};
                struct pack_trees trees;

                memset(cap, 0, sizeof cap);
                for (int i = 0; i < links; i++) {
                        int u = rand() % n, v = rand() % n, c = 1 + rand() % 4;

                        if (u != v) {
                                cap[u * n + v] += c;
                                cap[v * n + u] += c;
                        }
                }
                for (unsigned set = 1; set + 1 < 1u << n; set++) {
                        int64_t out = leaving(&net, set), ranks = __builtin_popcount(set);

                        if (set == 1 || out < b.num)
                                b.num = out;
                        if (set == 1 || out * g.den < g.num * ranks)
                                g = pack_rate_make(out, ranks);
                }
                partitions(&net, 0, 0, part, &s);
                cr_assert_eq(pack_broadcast(&net, &got), 0);
                cr_assert(got.num == b.num && got.den == 1, "round %d broadcast %ld, brute force %ld", round, got.num,
                          b.num);
                if (b.num) {
                        root[0] = b.num;
                        cr_assert_eq(pack_arborescences(n, cap, root, 1, &trees), 0, "round %d", round);
                        check_trees(n, cap, &trees, b, false, "broadcast");
                        pack_trees_free(&trees);
                }
                cr_assert_eq(pack_gather(&net, &got), 0);
                cr_assert(got.num == g.num && got.den == g.den, "round %d all-gather %ld/%ld, brute force %ld/%ld",
                          round, got.num, got.den, g.num, g.den);
                if (g.num) {
                        for (int v = 0; v < n; v++)
                                root[v] = g.num;
                        for (int i = 0; i < n * n; i++)
                                scaled[i] = cap[i] * g.den;
                        cr_assert_eq(pack_arborescences(n, scaled, root, g.den, &trees), 0, "round %d", round);
                        check_trees(n, cap, &trees, pack_rate_make(g.num * n, g.den), false, "all-gather");
                        pack_trees_free(&trees);
                }
                cr_assert_eq(pack_strength(&net, &got, oriented), 0);
                cr_assert(got.num == s.num && got.den == s.den, "round %d all-reduce %ld/%ld, brute force %ld/%ld",
                          round, got.num, got.den, s.num, s.den);
                if (s.num) {
                        memset(root, 0, sizeof root);
                        root[0] = s.num;
                        cr_assert_eq(pack_arborescences(n, oriented, root, s.den, &trees), 0, "round %d", round);
                        check_trees(n, cap, &trees, s, true, "all-reduce");
                        pack_trees_free(&trees);
                }
        }
}

/* Every tree spans, the trees of each root carry what is asked, and all together fit the direct links; those go over
 * ways that fit the net. */
static void check_ways(const struct pack_net *net, int64_t scale, const int64_t *root, const int64_t *direct,
                       const struct pack_ways *ways, const struct pack_trees *trees)
{
        int n = net->n, ranks = net->n_ranks;
        _cleanup_free_ int64_t *used = calloc((size_t)(n * n), sizeof *used),
                               *between = calloc((size_t)(ranks * ranks), sizeof *between);
        int64_t rooted[64] = {0};

        for (int i = 0; i < ways->n_ways; i++) {
                const struct pack_way *w = &ways->ways[i];

                between[w->vertices[0] * ranks + w->vertices[w->n - 1]] += w->amount;
                for (int k = 1; k < w->n; k++)
                        used[w->vertices[k - 1] * n + w->vertices[k]] += w->amount;
                for (int k = 1; k < w->n - 1; k++)
                        cr_assert_geq(w->vertices[k], ranks);
        }
        for (int i = 0; i < n * n; i++)
                cr_assert_leq(used[i], net->cap[i] * scale);
        for (int i = 0; i < ranks * ranks; i++)
                cr_assert_eq(between[i], direct[i]);
        memset(between, 0, sizeof *between * (size_t)(ranks * ranks));
        for (int i = 0; i < trees->n_trees; i++) {
                const struct pack_edge *e = trees->edges + i * (ranks - 1);
                int64_t amount = trees->trees[i].rate.num * (scale / trees->trees[i].rate.den);
                uint64_t in = 1ull << trees->trees[i].root;

                rooted[trees->trees[i].root] += amount;
                for (int k = 0; k < ranks - 1; k++) {
                        cr_assert(in >> e[k].from & 1 && !(in >> e[k].to & 1));
                        in |= 1ull << e[k].to;
                        between[e[k].from * ranks + e[k].to] += amount;
                }
        }
        for (int i = 0; i < ranks * ranks; i++)
                cr_assert_leq(between[i], direct[i]);
        for (int v = 0; v < ranks; v++)
                cr_assert_eq(rooted[v], root[v]);
}

/* With a relay: the cuts hold after it is replaced by direct links, and trees exist in what is left. */
Test(ceiling, relays_can_be_replaced, .timeout = 60)
{
        srand(11);
        for (int round = 0; round < 500; round++) {
                int ranks = 2 + rand() % 3, n = ranks + 1 + rand() % 2;
                struct pack_net net = {n, ranks, cap};
                struct pack_rate g;
                int64_t direct[N * N], root[N];
                struct pack_trees trees;
                struct pack_ways ways;

                memset(cap, 0, sizeof cap);
                for (int u = 0; u < n; u++) {
                        for (int v = 0; v < u; v++) {
                                int c = rand() % 5;

                                cap[u * n + v] = cap[v * n + u] = c > 1 ? c : 0;
                        }
                }
                cr_assert_eq(pack_gather(&net, &g), 0);
                if (!g.num)
                        continue;
                for (int v = 0; v < ranks; v++)
                        root[v] = g.num;
                cr_assert_eq(pack_unrelay(&net, g.den, root, direct, &ways), 0);
                cr_assert_eq(pack_arborescences(ranks, direct, root, g.den, &trees), 0, "round %d", round);
                for (int i = 0; i < ranks * ranks; i++)
                        cr_assert_geq(direct[i], 0);
                check_ways(&net, g.den, root, direct, &ways, &trees);
                pack_trees_free(&trees);
                pack_ways_free(&ways);
        }
}

static void read_machine(const char *file, struct capo_topology **t)
{
        char path[512], why[256];

        snprintf(path, sizeof path, DATA "%s", file);
        cr_assert_eq(capo_topology_read(path, 0, 0, t, why, sizeof why), 0, "%s", why);
}

static void ceilings_of(const struct capo_topology *t, const char *gpus, unsigned what, struct capo_ceilings *c)
{
        struct capo_alloc a;
        char why[256];

        cr_assert_eq(capo_alloc_parse(t, gpus, false, &a, why, sizeof why), 0, "%s", why);
        cr_assert_eq(capo_ceilings(t, &a, what, c), 0);
        capo_alloc_free(&a);
}

#define NEAR(a, b) cr_expect(fabs((a) - (b)) < 0.05, #a ": expected %g, found %g", (double)(b), (double)(a))

Test(ceiling, dgx1v)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct capo_ceilings c;

        read_machine("dgx1v.xml", &t);
        ceilings_of(t, "0-7", CAPO_CEILING_TREES | CAPO_CEILING_RINGS | CAPO_CEILING_HYBRID, &c);
        NEAR(c.broadcast_gbs, 120);
        NEAR(c.allgather_gbs, 137.1);
        NEAR(c.allreduce_gbs, 68.6);
        cr_expect_eq(c.shapes.rings, 3);
        NEAR(c.shapes.ring_gbs, 120);
        cr_expect(c.hybrid_broadcast_gbs > c.broadcast_gbs);
        cr_expect(c.hybrid_allreduce_gbs > c.allreduce_gbs);
        cr_expect_leq(c.allreduce.n_trees, 16);
        capo_ceilings_free(&c);
        ceilings_of(t, "0,3,4", CAPO_CEILING_RINGS, &c); /* a chain: 3 = 0 = 4, two bricks each */
        NEAR(c.broadcast_gbs, 40);
        NEAR(c.allreduce_gbs, 40);
        NEAR(c.allgather_gbs, 60);
        cr_expect(!c.shapes.ring);
        cr_expect_eq(c.shapes.rings, 0);
        capo_ceilings_free(&c);
        ceilings_of(t, "1,4,6", 0, &c); /* 1 has no link to the others */
        cr_expect(!c.connected);
        NEAR(c.broadcast_gbs, 0);
        capo_ceilings_free(&c);
}

static double sum_of(const struct pack_trees *t, double unit_gbs)
{
        double sum = 0;

        for (int i = 0; i < t->n_trees; i++)
                sum += (double)t->trees[i].rate.num / (double)t->trees[i].rate.den * unit_gbs;
        return sum;
}

/* NVLink, PCI and NICs together, one machine and two: the trees carry the ceilings, over ways that fit the links. */
Test(ceiling, hybrid_trees, .timeout = 60)
{
        static const char *const allocations[] = {"0,2,3", "1,4,6", "0-7", "1,2,3+0-4", "0-7+0-7"};
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;

        read_machine("dgx1v.xml", &t);
        for (size_t i = 0; i < N_ELEMENTS(allocations); i++) {
                int64_t *direct, root[64] = {0};
                struct pack_rate broadcast, gather;
                struct pack_net net;
                struct capo_ceilings c;
                struct capo_alloc a;
                struct pack_ways ways;
                double unit_gbs;
                char why[256];

                cr_assert_eq(capo_alloc_parse(t, allocations[i], false, &a, why, sizeof why), 0, "%s", why);
                cr_assert_eq(capo_ceilings(t, &a, CAPO_CEILING_TREES | CAPO_CEILING_HYBRID, &c), 0);
                NEAR(sum_of(&c.hybrid_broadcast, c.hybrid_unit_gbs), c.hybrid_broadcast_gbs);
                NEAR(sum_of(&c.hybrid_allgather, c.hybrid_unit_gbs), c.hybrid_allgather_gbs);
                NEAR(sum_of(&c.hybrid_allreduce, c.hybrid_unit_gbs), c.hybrid_allreduce_gbs);
                cr_expect_leq(c.hybrid_broadcast.n_trees + c.hybrid_allgather.n_trees, 6 * a.n_ranks);
                cr_assert_eq(fragment_net(t, &a, true, &net, &unit_gbs, NULL), 0);
                cr_assert_eq(pack_broadcast(&net, &broadcast), 0);
                cr_assert_eq(pack_gather(&net, &gather), 0);
                direct = calloc((size_t)(a.n_ranks * a.n_ranks), sizeof *direct);
                root[0] = broadcast.num;
                cr_assert_eq(pack_unrelay(&net, 1, root, direct, &ways), 0);
                check_ways(&net, 1, root, direct, &ways, &c.hybrid_broadcast);
                pack_ways_free(&ways);
                for (int v = 0; v < a.n_ranks; v++)
                        root[v] = gather.num;
                cr_assert_eq(pack_unrelay(&net, gather.den, root, direct, &ways), 0);
                check_ways(&net, gather.den, root, direct, &ways, &c.hybrid_allgather);
                pack_ways_free(&ways);
                free(direct);
                free(net.cap);
                capo_ceilings_free(&c);
                capo_alloc_free(&a);
        }
}

/* Channels between machines: each passes every GPU once, by NICs that are there, and all of them together fit at the
 * rate that is promised; by given NICs, too. More channels never carry more than the NICs of a machine. */
Test(ceiling, rails, .timeout = 60)
{
        static const char *const allocations[] = {"0+0", "1,2,3+0-4", "0-7+0-7", "0,5+2,3", "0-3+0-3+0-4"};
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;

        read_machine("../../../profiles/data/topologies/dgx1v.xml", &t);
        for (int i = 0; i < (int)N_ELEMENTS(allocations) * 3 * 16; i++) {
                enum rails_shape shape = i / 16 % 3 == 2 ? RAILS_TREE : RAILS_RING;
                struct rails_thing channels[16], again[16];
                struct capo_alloc a;
                struct rails *r;
                double gbs, same;
                char why[256];
                int n = 1 + i % 16, n_gpus = 0;

                cr_assert_eq(capo_alloc_parse(t, allocations[i / 48], false, &a, why, sizeof why), 0, "%s", why);
                cr_assert_eq(rails_new(t, &a, a.n_nodes - 1, a.n_nodes, 1, &r, why, sizeof why), 0, "%s", why);
                for (int k = 0; k < a.n_ranks; k++)
                        n_gpus += a.ranks[k].node == a.n_nodes - 1;
                gbs = rails_route(r, shape, i / 16 % 3 == 1, NULL, n, channels);
                cr_assert(gbs > 0, "%s, %d channels", allocations[i / 48], n);
                cr_expect(fabs(gbs - rails_fits(r, shape, channels, n)) < 1e-9);
                cr_expect(gbs * n * (shape == RAILS_TREE && a.n_nodes > 2 ? 2 : 1) <= 48 + 1e-6);
                for (int c = 0; c < n; c++) {
                        unsigned seen = 0;

                        for (int k = 0; k < n_gpus; k++)
                                seen |= 1u << channels[c].order[k];
                        cr_expect_eq(seen, (1u << n_gpus) - 1);
                        cr_expect(channels[c].nic_in >= 0 && channels[c].nic_in < 4);
                        cr_expect(i / 16 % 3 == 1 || channels[c].nic_in == channels[c].nic_out);
                }
                same = rails_route(r, shape, true, channels, n, again);
                cr_expect(same > 0);
                for (int c = 0; c < n; c++)
                        cr_expect(again[c].nic_in == channels[c].nic_in && again[c].nic_out == channels[c].nic_out);
                rails_free(r);
                capo_alloc_free(&a);
        }
}

/* Of the 56 three-GPU subsets of a DGX-1V real NCCL 2.28.9 finds 24 without NVLink between all (and uses the NICs), of
 * the 56 five-GPU subsets none. */
Test(ceiling, dgx1v_connectivity)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        int connected[9] = {0}, total[9] = {0};

        read_machine("dgx1v.xml", &t);
        for (unsigned set = 1; set < 256; set++) {
                int gpus[8], n = 0;
                struct capo_alloc a;
                struct capo_ceilings c;

                for (int g = 0; g < 8; g++) {
                        if (set >> g & 1)
                                gpus[n++] = g;
                }
                if (n < 2)
                        continue;
                cr_assert_eq(capo_alloc_gpus(gpus, n, &a), 0);
                cr_assert_eq(capo_ceilings(t, &a, CAPO_CEILING_TREES | CAPO_CEILING_RINGS, &c), 0);
                total[n]++;
                connected[n] += c.connected;
                cr_assert(c.allreduce_gbs <= c.broadcast_gbs + 1e-9);
                cr_assert(capo_ring_allreduce_gbs(c.shapes.ring_split_gbs, n) <= c.allreduce_gbs + 1e-6);
                cr_assert(c.shapes.chain_gbs <= c.allreduce_gbs + 1e-6);
                cr_assert(c.shapes.ring_gbs <= c.shapes.ring_split_gbs + 1e-6);
                capo_ceilings_free(&c);
                capo_alloc_free(&a);
        }
        cr_expect_eq(total[3], 56);
        cr_expect_eq(connected[3], 32);
        cr_expect_eq(total[5], 56);
        cr_expect_eq(connected[5], 56);
}

/* One switch: the closed forms are what the general code finds when it is made to look. */
Test(ceiling, switch_closed_forms)
{
        for (int n = 2; n <= 5; n++) {
                struct pack_net net = {n + 1, n, cap};
                struct pack_rate b, g;
                const int port = 18;

                memset(cap, 0, sizeof cap);
                for (int v = 0; v < n; v++)
                        cap[v * (n + 1) + n] = cap[n * (n + 1) + v] = port;
                cr_assert_eq(fragment_star(&net), port);
                pack_broadcast(&net, &b);
                pack_gather(&net, &g);
                expect(b, port, 1, "switch broadcast");
                struct pack_rate closed = pack_rate_make(port, n - 1);

                expect(g, closed.num, closed.den, "switch all-gather share");
        }
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct capo_ceilings c;

        read_machine("hgx-h100.xml", &t);
        ceilings_of(t, "0-7", CAPO_CEILING_TREES | CAPO_CEILING_RINGS, &c);
        NEAR(c.broadcast_gbs, 18 * 20.6);
        NEAR(c.allgather_gbs, 18 * 20.6 * 8 / 7);
        NEAR(c.allreduce_gbs, 18 * 20.6 * 4 / 7);
        cr_expect_eq(c.allreduce.n_trees, 8);
        cr_expect_eq(c.shapes.rings, 9);
        cr_expect(c.nvls_gbs > c.allreduce_gbs);
        capo_ceilings_free(&c);
}

/* The one number that nothing exceeds: on one machine, across machines, with and without switches that add. */
Test(ceiling, that_nothing_exceeds)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL, *volta = NULL;
        enum capo_ceiling_of of;
        struct capo_ceilings c;

        read_machine("hgx-h100.xml", &t);
        ceilings_of(t, "0-7", CAPO_CEILING_HYBRID, &c);
        NEAR(capo_ceiling(&c, CAPO_COLL_ALLREDUCE, &of), 18 * 20.6 * 8 / 9);
        cr_expect_eq(of, CAPO_CEILING_SWITCH);
        NEAR(capo_ceiling(&c, CAPO_COLL_REDUCE, &of), 18 * 20.6);
        cr_expect_eq(of, CAPO_CEILING_LINKS);
        NEAR(capo_ceiling(&c, CAPO_COLL_REDUCESCATTER, &of), 18 * 20.6 * 8 / 7);
        capo_ceilings_free(&c);
        ceilings_of(t, "0-7+0-7", CAPO_CEILING_HYBRID, &c);
        NEAR(capo_ceiling(&c, CAPO_COLL_ALLREDUCE, &of), c.hybrid_broadcast_gbs);
        cr_expect_eq(of, CAPO_CEILING_ALL_SWITCH);
        cr_expect(capo_ceiling(&c, CAPO_COLL_ALLREDUCE, &of) > 1.1 * c.hybrid_allreduce_gbs);
        NEAR(capo_ceiling(&c, CAPO_COLL_BROADCAST, &of), c.hybrid_broadcast_gbs);
        cr_expect_eq(of, CAPO_CEILING_ALL);
        capo_ceilings_free(&c);
        ceilings_of(t, "0-7+0-7", 0, &c);
        NEAR(capo_ceiling(&c, CAPO_COLL_ALLREDUCE, &of), 0);
        cr_expect_eq(of, CAPO_CEILING_NONE);
        capo_ceilings_free(&c);
        read_machine("dgx1v.xml", &volta);
        ceilings_of(volta, "0-7", 0, &c);
        NEAR(capo_ceiling(&c, CAPO_COLL_ALLREDUCE, &of), c.allreduce_gbs);
        cr_expect_eq(of, CAPO_CEILING_LINKS);
        capo_ceilings_free(&c);
}

Test(classes, dgx1v)
{
        static const struct {
                const char *a, *b;
        } same[] = {{"0,1,2", "4,5,6"},
                    {"0,3", "1,5"},
                    {"0-3", "4-7"},
                    {"1,2,3+0-4", "0:0-4;1:1,2,3"},
                    {"06:00.0,07:00.0", "0,1"}},
          other[] = {{"0,1", "0,3"}, {"0,1,2", "0,3,4"}, {"1,4,6", "0,1,2"}};
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        char why[256], x[256], y[256];

        read_machine("dgx1v.xml", &t);
        for (size_t i = 0; i < N_ELEMENTS(same) + N_ELEMENTS(other); i++) {
                bool equal = i < N_ELEMENTS(same);
                const char *a = equal ? same[i].a : other[i - N_ELEMENTS(same)].a,
                           *b = equal ? same[i].b : other[i - N_ELEMENTS(same)].b;
                struct capo_alloc first, second;

                cr_assert_eq(capo_alloc_parse(t, a, false, &first, why, sizeof why), 0);
                cr_assert_eq(capo_alloc_parse(t, b, false, &second, why, sizeof why), 0);
                capo_class_name(t, &first, x, sizeof x);
                capo_class_name(t, &second, y, sizeof y);
                cr_expect_eq(!strcmp(x, y), equal, "%s is %s, %s is %s", a, x, b, y);
                capo_alloc_free(&first);
                capo_alloc_free(&second);
        }
}

Test(alloc, bad)
{
        static const struct {
                const char *text;
                bool sizes;
                const char *said;
        } rows[] = {
                {"", false, "expected a GPU number"},
                {"8", false, "no GPU 8; this machine has 8, numbered 0 to 7"},
                {"0,0", false, "twice"},
                {"3-1", false, "range"},
                {"0,,1", false, "expected a GPU number"},
                {"0 1", false, "expected , or +"},
                {"0+", false, "expected a GPU number"},
                {"ff:00.0", false, "no GPU at ff:00.0"},
                {"3+9", true, "has 8 GPUs, not 9"},
                {"3/5", true, "expected GPUs per machine"},
                {"1000000x8", true, "more than can be analysed"},
        };
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;

        read_machine("dgx1v.xml", &t);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_alloc a;
                char why[256] = "";

                cr_assert_lt(capo_alloc_parse(t, rows[i].text, rows[i].sizes, &a, why, sizeof why), 0, "%s",
                             rows[i].text);
                cr_expect(strstr(why, rows[i].said), "\"%s\": %s", rows[i].text, why);
        }
}
