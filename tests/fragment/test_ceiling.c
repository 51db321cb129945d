/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ceilings against hand-made cases and against brute force: on small random networks every cut
 * and every partition is tried.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "profiles/fragment/fragment.h"
#include "profiles/fragment/flow_net.h"
#include "profiles/fragment/tree_pack.h"
#include "tests/log_numbers.h"

#define N 6

static int64_t cap[N * N];

static struct pack_net make(int n, const int links[][3], size_t n_links)
{
        memset(cap, 0, sizeof cap);
        for (size_t i = 0; i < n_links; i++)
                cap[links[i][0] * n + links[i][1]] = cap[links[i][1] * n + links[i][0]] =
                        links[i][2];
        return (struct pack_net){n, n, cap};
}

static void expect(struct pack_rate got, int64_t num, int64_t den, const char *what)
{
        cr_expect(got.num == num && got.den == den, "%s: expected %ld/%ld, found %ld/%ld", what,
                  num, den, got.num, got.den);
}

static void all_reduce(const struct pack_net *net, double want, const char *what)
{
        double got;

        pack_allreduce(net, &got);
        cr_expect(fabs(got - want) < 1e-12 * want + 1e-15, "%s: expected %.17g, found %.17g", what,
                  want, got);
}

Test(ceiling, by_hand)
{
        static const int path[][3] = {{0, 1, 1}, {1, 2, 1}},
                         triangle[][3] = {{0, 1, 1}, {1, 2, 1}, {0, 2, 1}}, pair[][3] = {{0, 1, 3}};
        struct pack_rate r;
        struct pack_net net = make(3, path, 2);

        /* a path: each tree is the path; all-gather: the end gets 2 ranks' data through one link: x
         * = 1/2 */
        pack_broadcast(&net, &r);
        expect(r, 1, 1, "path broadcast");
        pack_gather(&net, &r);
        expect(r, 1, 2, "path all-gather share");
        all_reduce(&net, 1.0 / 1, "path all-reduce");
        /* a triangle: two ways into each GPU; three half trees of two links each */
        net = make(3, triangle, 3);
        pack_broadcast(&net, &r);
        expect(r, 2, 1, "triangle broadcast");
        pack_gather(&net, &r);
        expect(r, 1, 1, "triangle all-gather share");
        all_reduce(&net, 3.0 / 2, "triangle all-reduce");
        net = make(2, pair, 1);
        pack_broadcast(&net, &r);
        expect(r, 3, 1, "pair broadcast");
        all_reduce(&net, 3.0 / 1, "pair all-reduce");
        net = make(2, pair, 0); /* disconnected */
        pack_broadcast(&net, &r);
        expect(r, 0, 1, "disconnected broadcast");
        pack_gather(&net, &r);
        expect(r, 0, 1, "disconnected all-gather");
        all_reduce(&net, 0.0 / 1, "disconnected all-reduce");
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
static void partitions(const struct pack_net *net, int v, int parts, int *part,
                       struct pack_rate *least)
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

Test(ceiling, brute_force, .timeout = 120)
{
        srand(7);
        for (int round = 0; round < 10000; round++) {
                int n = 2 + rand() % (N - 1), part[N], links = rand() % (n * (n - 1)) + 1;
                struct pack_net net = {n, n, cap};
                struct pack_rate b = {0, 1}, g = {0, 1}, s = {INT64_C(1) << 40, 1}, got;
                char what[32];

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
                pack_broadcast(&net, &got);
                cr_assert(got.num == b.num && got.den == 1,
                          "round %d broadcast %ld, brute force %ld", round, got.num, b.num);
                pack_gather(&net, &got);
                cr_assert(got.num == g.num && got.den == g.den,
                          "round %d all-gather %ld/%ld, brute force %ld/%ld", round, got.num,
                          got.den, g.num, g.den);
                snprintf(what, sizeof what, "round %d all-reduce", round);
                all_reduce(&net, (double)s.num / (double)s.den, what);
        }
}

static void read_machine(const char *file, struct capo_topology **t)
{
        char path[512], why[256];

        snprintf(path, sizeof path, DATA "%s", file);
        cr_assert_eq(capo_topology_read(path, 0, 0, t, why, sizeof why), 0, "%s", why);
}

static void ceilings_of(const struct capo_topology *t, const char *gpus, unsigned what,
                        struct capo_ceilings *c)
{
        struct capo_alloc a;
        char why[256];

        cr_assert_eq(capo_alloc_parse(t, gpus, false, &a, why, sizeof why), 0, "%s", why);
        cr_assert_eq(capo_ceilings(t, &a, what, c), 0);
        capo_alloc_free(&a);
}

#define NEAR(a, b) \
        cr_expect(fabs((a) - (b)) < 0.05, #a ": expected %g, found %g", (double)(b), (double)(a))

Test(ceiling, dgx1v)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct capo_ceilings c;

        read_machine("dgx1v.xml", &t);
        ceilings_of(t, "0-7", CAPO_CEILING_RINGS | CAPO_CEILING_HYBRID, &c);
        NEAR(c.links.broadcast_gbs, 120);
        NEAR(c.links.allgather_gbs, 137.1);
        NEAR(c.links.allreduce_gbs, 68.6);
        cr_expect_eq(c.shapes.rings, 3);
        NEAR(c.shapes.ring_gbs, 120);
        cr_expect(c.hybrid.broadcast_gbs > c.links.broadcast_gbs);
        cr_expect(c.hybrid.allreduce_gbs > c.links.allreduce_gbs);
        ceilings_of(t, "0,3,4", CAPO_CEILING_RINGS, &c); /* a chain: 3 = 0 = 4, two bricks each */
        NEAR(c.links.broadcast_gbs, 40);
        NEAR(c.links.allreduce_gbs, 40);
        NEAR(c.links.allgather_gbs, 60);
        cr_expect(!c.shapes.ring);
        cr_expect_eq(c.shapes.rings, 0);
        ceilings_of(t, "1,4,6", 0, &c); /* 1 has no link to the others */
        cr_expect(!c.connected);
        NEAR(c.links.broadcast_gbs, 0);
}

/* Of the 56 three-GPU subsets of a DGX-1V real NCCL 2.28.9 finds 24 without NVLink between all (and
 * uses the NICs), of the 56 five-GPU subsets none. */
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
                capo_alloc_gpus(gpus, n, &a);
                cr_assert_eq(capo_ceilings(t, &a, CAPO_CEILING_RINGS, &c), 0);
                total[n]++;
                connected[n] += c.connected;
                cr_assert(c.links.allreduce_gbs <= c.links.broadcast_gbs + 1e-9);
                cr_assert(capo_ring_allreduce_gbs(c.shapes.ring_split_gbs, n) <=
                          c.links.allreduce_gbs + 1e-6);
                cr_assert(c.shapes.chain_gbs <= c.links.allreduce_gbs + 1e-6);
                cr_assert(c.shapes.ring_gbs <= c.shapes.ring_split_gbs + 1e-6);
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
        ceilings_of(t, "0-7", CAPO_CEILING_RINGS, &c);
        NEAR(c.links.broadcast_gbs, 18 * 20.6);
        NEAR(c.links.allgather_gbs, 18 * 20.6 * 8 / 7);
        NEAR(c.links.allreduce_gbs, 18 * 20.6 * 4 / 7);
        cr_expect_eq(c.shapes.rings, 9);
        cr_expect(c.nvls_gbs > c.links.allreduce_gbs);
}

/* The one number that nothing exceeds: on one machine, across machines, with and without switches
 * that add. */
Test(ceiling, that_nothing_exceeds)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL, *volta = NULL;
        enum capo_ceiling_of of;
        struct capo_ceilings c;

        read_machine("hgx-h100.xml", &t);
        ceilings_of(t, "0-7", CAPO_CEILING_HYBRID, &c);
        NEAR(capo_ceiling(&c, CAPO_COLL_ALLREDUCE, &of), 18 * 20.6 * 8 / 9);
        cr_expect_eq(of, CAPO_CEILING_SWITCH);
        NEAR(capo_ceiling(&c, CAPO_COLL_REDUCE, &of), c.hybrid.broadcast_gbs);
        cr_expect(of == CAPO_CEILING_ALL && c.hybrid.broadcast_gbs > 18 * 20.6);
        NEAR(capo_ceiling(&c, CAPO_COLL_REDUCESCATTER, &of), c.hybrid.allgather_gbs);
        ceilings_of(t, "0-7", 0, &c);
        NEAR(capo_ceiling(&c, CAPO_COLL_REDUCE, &of), 18 * 20.6);
        cr_expect_eq(of, CAPO_CEILING_LINKS);
        NEAR(capo_ceiling(&c, CAPO_COLL_REDUCESCATTER, &of), 18 * 20.6 * 8 / 7);
        ceilings_of(t, "0-7+0-7", CAPO_CEILING_HYBRID, &c);
        NEAR(capo_ceiling(&c, CAPO_COLL_ALLREDUCE, &of), c.hybrid.broadcast_gbs);
        cr_expect_eq(of, CAPO_CEILING_ALL_SWITCH);
        cr_expect(capo_ceiling(&c, CAPO_COLL_ALLREDUCE, &of) > 1.1 * c.hybrid.allreduce_gbs);
        NEAR(capo_ceiling(&c, CAPO_COLL_BROADCAST, &of), c.hybrid.broadcast_gbs);
        cr_expect_eq(of, CAPO_CEILING_ALL);
        ceilings_of(t, "0-7+0-7", 0, &c);
        NEAR(capo_ceiling(&c, CAPO_COLL_ALLREDUCE, &of), 0);
        cr_expect_eq(of, CAPO_CEILING_NONE);
        read_machine("dgx1v.xml", &volta);
        ceilings_of(volta, "0-7", 0, &c);
        NEAR(capo_ceiling(&c, CAPO_COLL_ALLREDUCE, &of), c.links.allreduce_gbs);
        cr_expect_eq(of, CAPO_CEILING_LINKS);
}

/* docs/internals/classes-dgx1v.md has a line for each class of the 247 subsets, in the order of
 * their sizes and names. */
Test(classes, table, .timeout = 60)
{
        enum { ROOM = 64 };
        static struct {
                char name[CAPO_CLASS_ROOM], example[64];
                int n, count;
        } seen[ROOM];
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        _cleanup_fclose_ FILE *f = fopen(DATA "../../../docs/internals/classes-dgx1v.md", "re");
        char line[512], want[512];
        int n_seen = 0, lines = 0;

        cr_assert_eq(capo_topology_read(MACHINES "dgx1v.xml", 0, 0, &t, want, sizeof want), 0, "%s",
                     want);
        for (unsigned set = 1; set < 256; set++) {
                char name[CAPO_CLASS_ROOM];
                int gpus[8], n = 0, i = 0;
                struct capo_alloc a;

                for (int g = 0; g < 8; g++) {
                        if (set >> g & 1)
                                gpus[n++] = g;
                }
                if (n < 2)
                        continue;
                capo_alloc_gpus(gpus, n, &a);
                capo_class_name(t, &a, name, sizeof name);
                while (i < n_seen && strcmp(seen[i].name, name) != 0)
                        i++;
                cr_assert_lt(i, ROOM);
                if (i == n_seen) {
                        memcpy(seen[n_seen].name, name, sizeof name);
                        seen[n_seen++].n = n;
                        capo_alloc_print(t, &a, seen[i].example, sizeof seen[i].example);
                }
                seen[i].count++;
                capo_alloc_free(&a);
        }
        cr_assert_eq(n_seen, 56);
        cr_assert_not_null(f);
        while (fgets(line, sizeof line, f)) {
                struct capo_ceilings c;
                char name[CAPO_CLASS_ROOM];
                int i = 0;

                if (sscanf(line, "| `%63[^`]`", name) != 1)
                        continue;
                while (i < n_seen && strcmp(seen[i].name, name) != 0)
                        i++;
                cr_assert_lt(i, n_seen, "%s is no class", name);
                ceilings_of(t, seen[i].example, CAPO_CEILING_RINGS | CAPO_CEILING_HYBRID, &c);
                snprintf(want, sizeof want,
                         "| `%s` | %d | %s | %.1f | %.1f | %.1f | %d | %.1f | %.1f | %.1f |\n",
                         name, seen[i].count, seen[i].example, c.links.broadcast_gbs,
                         c.links.allgather_gbs, c.links.allreduce_gbs, c.shapes.rings,
                         capo_ring_allreduce_gbs(c.shapes.ring_split_gbs, seen[i].n),
                         c.shapes.chain_gbs, c.hybrid.allreduce_gbs);
                cr_expect_str_eq(line, want);
                lines++;
        }
        cr_expect_eq(lines, 56);
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

                cr_assert_lt(capo_alloc_parse(t, rows[i].text, rows[i].sizes, &a, why, sizeof why),
                             0, "%s", rows[i].text);
                cr_expect(strstr(why, rows[i].said), "\"%s\": %s", rows[i].text, why);
        }
}
