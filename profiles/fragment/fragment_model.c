/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's model of a call is latency + bytes / bandwidth per algorithm and protocol
 * (src/graph/tuning.cc, ncclTopoTuneModel and ncclTopoGetAlgoTime; read in 2.28 and 2.30). It was
 * made for nodes of equal size. Three terms are corrected:
 *
 * 1. Tree's latency counts nRanks / nNodes - 1 hops inside a node, as a whole number. That is 3 for
 *    4+4, but also for 3+5, 2+6 and 1+7, where the longest chain has 4, 5 and 6. Up and down it is
 * 2 (largest - 1) hops, so 2 (largest - mean) x the hop's latency is added. (Ring counts its hops
 *    over all ranks, which is right.)
 *
 * 2. Bandwidths come from one number per graph: channels x the speed that the search reserved on
 *    each link, the least over all nodes. The search reserves from a list of round speeds. With two
 *    nodes, it reserves as much for a Tree channel on the NIC as inside the node, although each NIC
 *    carries half of that each way. Then it tries to raise only the inside, which fails if a GPU
 *    must reach a far NIC. So on some splits Tree counts half of what its links carry, on others
 * all of it. Here the channels are laid over the links (link_loads.c), for Ring and Tree alike.
 *    NCCL's factors are then applied: Tree 0.92, the caps per channel of ncclTunerConstants, LL a
 *    half or 1/3.8, LL128 15/16, 0.92 or 7/9.
 *
 * 3. NVLS inside one node counts (channels - 1) / channels with a channel per GPU: 3/4 of the port
 *    for 4 GPUs, 7/8 for 8. The switch allows port / (1 + 1/n): each GPU fetches its share of the
 *    sum, and stores it to all. That times NCCL's efficiency (nvlsEfficiency) is within 2 % of 4
 * and 6 measured H100; NCCL's own value is 36 and 19 % below.
 *
 * NVLSTree, CollNet and PAT stay as in NCCL.
 *
 * There are two results. One keeps NCCL's factors and caps. The other computes Tree with Simple
 * from its links alone, because NVIDIA measured the cap per channel on other machines. It is wrong
 * on some (12 GB200 on 3 trays, NVIDIA/nccl#1801: links 128 GB/s, measured 128, NCCL's cell 88; 24
 * of them: 256, 253, 82) and right on others (5 x 8 H100 with 4 NICs, #1368: 145 GB/s by the cap,
 * 150 measured, links alone 187). Nothing known before a measurement distinguishes these cases.
 *
 * A cell's latency and bandwidth are read back from the table at two sizes so large that no
 * size-dependent correction applies. The cell is then scaled by the ratio of our formula with and
 * without the correction, so unknown parts of a release's formula cancel. */
#include <math.h>

#include "capo/algorithms.h"
#include "capo/collectives.h"
#include "capo/msg.h"
#include "capo/profile.h"
#include "core/base/nccl_facts.h"
#include "core/base/xalloc.h"
#include "profiles/fragment/fragment_model.h"
#include "profiles/fragment/fragment_trays.h"
#include "profiles/import/import.h"
#include "profiles/plan/plan.h"

/* Indices in cost tables and constants. */
enum { TREE = CAPO_ALGO_TREE - 1, RING = CAPO_ALGO_RING - 1, NVLS = CAPO_ALGO_NVLS - 1 };
enum { LL = CAPO_PROTO_LL - 1, LL128 = CAPO_PROTO_LL128 - 1, SIMPLE = CAPO_PROTO_SIMPLE - 1 };

/* ncclTunerConstants_t, as in capo_plan_reported.constants. */
struct constants {
        double base_latency[7][3], hw_latency[3][7][3], ll_bw[4][3], ring_ll128_bw[4][3],
                tree_ll128_bw[4][3], tree_bw[4][3], nvls_tree_bw[4][3];
};

/* The formula for one communicator. */
struct formula {
        bool caps; /* the constants are known */
        const struct constants *k;
        int gpu, scale, ll, channels, n_nodes;
};

/* Latency and bandwidth of a cell, from its times at the sizes LARGE and 2 LARGE. */
struct line {
        double us, gbs;
};

/* Constants of NCCL 2.24 to 2.27 and 2.31.2 for Tree and Ring on Volta, Ampere and Hopper, which
 * these releases do not report (src/graph/tuning.cc of 2.24.3 and 2.27.7); 2.28 reports the same
 * values. The table is checked against them. */
static const struct constants unreported = {
        .hw_latency = {{{0.6, 1.25, 4.0}}, {{1.0, 1.9, 4.0}}},
        .ll_bw = {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}},
        .ring_ll128_bw = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}},
        .tree_ll128_bw = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29.0}},
        .tree_bw = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}},
};

static double cap_rate(const struct formula *f, double gbs, double most)
{
        return f->caps ? fmin(gbs, most) : gbs;
}

/* Bandwidth in GB/s of Tree with Simple for a bus bandwidth @bus. */
static double formula_tree(const struct formula *f, double bus)
{
        return cap_rate(f, bus * 0.92, f->channels * f->k->tree_bw[f->gpu][f->scale]);
}

/* The same for any algorithm and protocol. */
static double formula_gbs(const struct formula *f, int algo, int proto, double bus)
{
        if (algo == RING && proto == LL)
                return cap_rate(f, bus * 0.5, f->k->ll_bw[f->ll][f->scale]);
        if (algo == RING && proto == LL128)
                return cap_rate(f, bus * 0.92, f->channels * f->k->ring_ll128_bw[f->gpu][f->scale]);
        if (algo == TREE)
                bus = formula_tree(f, bus);
        if (algo == TREE && proto == LL)
                return cap_rate(f, bus / 3.8, f->k->ll_bw[f->ll][f->scale]);
        if (algo == TREE && proto == LL128)
                return cap_rate(f, bus * (f->n_nodes == 1 ? 7.0 / 9 : 15.0 / 16),
                                f->channels * f->k->tree_ll128_bw[f->gpu][f->scale]);
        return bus;
}

/* Of the cell (@algo, @proto); gbs NAN: not in the table. */
static struct line formula_line(const struct capo_plan_row *one, const struct capo_plan_row *two,
                                int algo, int proto)
{
        double b1 = (double)(one->reported_bytes ? one->reported_bytes : one->bytes),
               b2 = (double)(two->reported_bytes ? two->reported_bytes : two->bytes);
        double t1 = (double)one->cost[algo][proto], t2 = (double)two->cost[algo][proto];
        struct line l = {.gbs = NAN};

        if (algo >= one->n_algo || proto >= one->n_proto || t1 <= 0 || t2 <= t1)
                return l;
        l.gbs = (b2 - b1) / (t2 - t1) / 1000;
        l.us = fmax(0, t1 - b1 / l.gbs / 1000);
        return l;
}

/* NCCL's efficiency factor for NVLS inside one node (src/graph/tuning.cc, nvlsEfficiency): Volta, Ampere,
 * Hopper, Blackwell. */
static const double nvls_efficiency[] = {0, 0, 0.85, 0.74};

/* @a: NCCL's answer; @sm: the lowest compute capability of the GPUs; @amd: AMD
 * processors; @channels, @n_nodes: of the communicator; @k: room for the constants that NCCL
 * reported. */
static struct formula formula_new(const struct capo_plan_answer *a, int sm, bool amd, int channels,
                                  int n_nodes, struct constants *k)
{
        struct formula f = {.k = &unreported,
                            .gpu = sm >= 100  ? 3
                                   : sm >= 90 ? 2
                                   : sm >= 80 ? 1
                                              : 0,
                            .scale = n_nodes <= 2 ? n_nodes - 1 : 2,
                            .channels = channels,
                            .n_nodes = n_nodes};

        if (a->reported.n_constants == (int)(sizeof *k / sizeof(double))) {
                memcpy(k, a->reported.constants, sizeof *k);
                f.k = k->hw_latency[0][TREE][SIMPLE] > 0 ? k : f.k; /* 2.31.2 reports zeros */
        }
        f.caps = f.k == k || (capo_nccl_has(a->version, CAPO_NCCL_MODEL_KNOWN) && f.gpu < 3);
        f.ll = n_nodes == 1 ? f.gpu : amd;
        return f;
}

#define LARGE (1ull << 30) /* and twice that: beyond the 24 sizes of treeCorrectionFactor */

/* ---- asking: the allocation. If a machine is several nodes, each other node is asked again as the
 * first, because only the first rank of a machine reports graphs ---- */

struct fragment_views {
        const struct fragment_machine *m;
        const struct capo_alloc *a;
        struct capo_plan_answer answers[16]; /* the first is for the caller's question */
        int n;
        struct fragment_domain domains[CAPO_PLAN_WHOLE_MAX];
        int n_domains;
};

static int ask_in_order(const struct fragment_views *v, const int *order,
                        const struct capo_plan_ask *asks, size_t n_asks,
                        struct capo_plan_answer *out, char *why, size_t room)
{
        struct capo_plan_gpu gpus[CAPO_PLAN_WHOLE_MAX];
        int node_of[CAPO_PLAN_WHOLE_MAX], nodes = 0, r;

        memset(node_of, -1, sizeof node_of);
        for (int i = 0; i < v->a->n_ranks; i++) {
                const struct capo_alloc_rank *rank = &v->a->ranks[order[i]];

                if (node_of[rank->node] < 0)
                        node_of[rank->node] = nodes++;
                if (v->m->tray)
                        gpus[i] = fragment_trays_gpu(v->m, rank->node, rank->gpu);
                else
                        gpus[i] = (struct capo_plan_gpu){(uint16_t)node_of[rank->node],
                                                         (uint16_t)v->m->t->gpus[rank->gpu].dev};
        }
        r = fragment_ask(v->m, gpus, v->a->n_ranks, asks, n_asks, out, why, room);
        if (r == 0 && v->m->tray)
                fragment_trays_number(v->m, out);
        return r;
}

/* The GPUs on the first channel of a graph. */
static int gpus_of(const struct capo_topology *t, const struct capo_plan_graph *g,
                   int gpus[CAPO_NODE_GPUS_MAX])
{
        int n = 0;

        for (const char *s = g && g->n_paths ? g->paths[0] : ""; *s;
             s += strcspn(s, " "), s += strspn(s, " ")) {
                int at = strncmp(s, "net", 3) != 0 ? capo_topology_gpu_by_dev(t, atoi(s)) : -1;

                if (at >= 0 && n < CAPO_NODE_GPUS_MAX)
                        gpus[n++] = at;
        }
        return n;
}

static bool list_has(const int *list, int n, int x)
{
        for (int i = 0; i < n; i++) {
                if (list[i] == x)
                        return true;
        }
        return false;
}

/* GPUs that the allocation uses on one machine. */
static int machine_gpus(const struct capo_alloc *a, int node, int gpus[CAPO_NODE_GPUS_MAX])
{
        int n = 0;

        for (int i = 0; i < a->n_ranks; i++) {
                if (a->ranks[i].node == node && n < CAPO_NODE_GPUS_MAX)
                        gpus[n++] = a->ranks[i].gpu;
        }
        return n;
}

/* A known domain with @gpu on this machine, or on one with the same GPUs; NULL: none yet. */
static const struct fragment_domain *find_domain(const struct fragment_views *v, int node, int gpu)
{
        int mine[CAPO_NODE_GPUS_MAX], theirs[CAPO_NODE_GPUS_MAX],
                n = machine_gpus(v->a, node, mine);

        for (int i = 0; i < v->n_domains; i++) {
                const struct fragment_domain *d = &v->domains[i];
                bool same = machine_gpus(v->a, d->machine, theirs) == n;

                for (int k = 0; same && k < n; k++)
                        same = list_has(theirs, n, mine[k]);
                if (same && list_has(d->gpus, d->n_gpus, gpu))
                        return d;
        }
        return NULL;
}

/* Read the domain of @gpu from the graphs of a node in an answer. */
static bool read_domain(const struct fragment_views *v, const struct capo_plan_answer *answer,
                        int node, int gpu, struct fragment_domain *d)
{
        if (v->m->tray) /* the first tray reports the graphs of its domain */
                node *= v->m->domain;
        d->ring = capo_plan_graph_find(answer, node, 0);
        d->tree = capo_plan_graph_find(answer, node, 1);
        d->n_gpus = gpus_of(v->m->t, d->ring, d->gpus);
        return d->ring && d->tree && list_has(d->gpus, d->n_gpus, gpu);
}

/* Read every domain in the order of lowest ranks, which is the order of NCCL's nodes. Return: 0; 1:
 * too many kinds of node; errors of asking. */
static int collect_domains(struct fragment_views *v, char *why, size_t room)
{
        static const struct capo_plan_ask small[] = {{CAPO_COLL_ALLREDUCE, 1 << 20}};
        int order[CAPO_PLAN_WHOLE_MAX], r;

        for (int rank = 0; rank < v->a->n_ranks; rank++) {
                int node = v->a->ranks[rank].node, gpu = v->a->ranks[rank].gpu, at = 0;
                const struct fragment_domain *like = find_domain(v, node, gpu);
                struct fragment_domain *d = &v->domains[v->n_domains];
                bool mine = false;

                for (int i = 0; i < v->n_domains; i++)
                        mine |= v->domains[i].machine == node &&
                                list_has(v->domains[i].gpus, v->domains[i].n_gpus, gpu);
                if (mine)
                        continue;
                if (like)
                        *d = *like;
                else if (!read_domain(v, &v->answers[0], node, gpu, d)) {
                        if (v->n == (int)N_ELEMENTS(v->answers))
                                return 1;
                        order[at++] = rank;
                        for (int i = 0; i < v->a->n_ranks; i++) {
                                if (i != rank)
                                        order[at++] = i;
                        }
                        r = ask_in_order(v, order, small, 1, &v->answers[v->n], why, room);
                        if (r < 0)
                                return r;
                        if (!read_domain(v, &v->answers[v->n++], 0, gpu, d))
                                return 1;
                }
                d->machine = node;
                v->n_domains++;
        }
        return 0;
}

/* ---- correcting ---- */

static void set_shape_rate(struct fragment_shape_rate *s, double believed, double attained,
                           const char *full, bool understood)
{
        s->believed = believed;
        s->understood = understood;
        s->corrected = understood ? attained : fmin(believed, attained);
        s->links = attained;
        snprintf(s->full, sizeof s->full, "%s", full);
}

/* NCCL's value for each shape, and the capacity of the links. */
static void set_rates(struct fragment_model *f, const struct fragment_views *v,
                      const struct formula *k, struct line ring, struct line tree)
{
        struct fragment_attained got;
        double speed = INFINITY, bus, ratio;
        int n = v->a->n_ranks;

        if (fragment_loads(v->m->t, v->domains, v->n_domains, f->channels, &got) < 0) {
                snprintf(f->why_not, sizeof f->why_not,
                         "the description lacks PCIe speeds or NICs");
                return;
        }
        for (int i = 0; i < v->n_domains; i++)
                speed = fmin(speed, v->n_domains <= 2 ? v->domains[i].tree->speed_intra
                                                      : v->domains[i].tree->speed_inter);
        if (ring.gbs > 0)
                set_shape_rate(&f->ring, ring.gbs * 2 * (n - 1) / n, got.ring_gbs, got.ring_full,
                               k->caps);
        bus = f->channels * speed;
        ratio = 2 * tree.gbs / formula_tree(k, bus);
        if (tree.gbs > 0) /* 0.85: trees with all NIC traffic at one GPU */
                set_shape_rate(&f->tree, bus, got.tree_gbs, got.tree_full,
                               k->caps &&
                                       (fabs(ratio - 1) < 0.02 || fabs(ratio / 0.85 - 1) < 0.02));
}

static void correct_row(struct fragment_model *f, const struct formula *k, size_t row,
                        const struct line *lines)
{
        const struct capo_plan_row *r = &f->nccl.rows[row];

        for (int a = 0; a < CAPO_PLAN_ALGOS; a++) {
                for (int p = 0; p < CAPO_PLAN_PROTOS; p++) {
                        const struct fragment_shape_rate *s = a == RING   ? &f->ring
                                                              : a == TREE ? &f->tree
                                                                          : &f->nvls;
                        bool ours = a <= RING || (a == NVLS && r->coll == CAPO_COLL_ALLREDUCE);
                        double us = a < r->n_algo && p < r->n_proto ? (double)r->cost[a][p] : -1;
                        struct line l = lines[a * CAPO_PLAN_PROTOS + p];
                        double faster = 1, links, late;

                        f->cost[row][a][p] = f->links[row][a][p] = (float)us;
                        if (us <= 0 || !ours)
                                continue;
                        links = us;
                        if (s->corrected > 0 && l.gbs > 0) {
                                faster = formula_gbs(k, a, p, s->corrected) /
                                         formula_gbs(k, a, p, s->believed);
                                us += fmax(0, us - l.us) * (1 / faster - 1);
                        }
                        if (a == TREE && p == SIMPLE && s->links > 0 && l.gbs > 0)
                                links += fmax(0, links - l.us) * (2 * l.gbs / s->links - 1);
                        else
                                links = us;
                        late = a == TREE && r->coll == CAPO_COLL_ALLREDUCE ? f->tree_late_us[p] : 0;
                        f->cost[row][a][p] = (float)(us + late);
                        f->links[row][a][p] = (float)(links + late);
                }
        }
}

static void set_domain_sizes(struct fragment_model *f, const struct fragment_views *v)
{
        f->channels = CAPO_CHANNELS_MAX;
        f->n_nodes = v->n_domains;
        for (int i = 0; i < v->n_domains; i++) {
                const struct fragment_domain *d = &v->domains[i];

                f->max_local = d->n_gpus > f->max_local ? d->n_gpus : f->max_local;
                f->channels = d->ring->n_channels < f->channels ? d->ring->n_channels : f->channels;
                f->channels = d->tree->n_channels < f->channels ? d->tree->n_channels : f->channels;
        }
        f->mean_local = v->a->n_ranks / (f->n_nodes ? f->n_nodes : 1);
}

static void correct_model(struct fragment_model *f, const struct fragment_views *v,
                          const struct capo_plan_row *large)
{
        const struct capo_topology *t = v->m->t;
        struct line lines[CAPO_COLLS][CAPO_PLAN_ALGOS * CAPO_PLAN_PROTOS];
        struct formula formula;
        struct constants k;
        struct line nvls;
        struct capo_ceilings ceilings;
        double efficiency;
        bool nvlink = false, other = false;
        int sm = INT32_MAX, n = v->a->n_ranks;

        set_domain_sizes(f, v);
        for (size_t i = 0; i < t->n_gpus; i++)
                sm = t->gpus[i].sm < sm ? t->gpus[i].sm : sm;
        formula = formula_new(&f->nccl, sm, t->n_cpus && !strcmp(t->cpus[0].vendor, "AuthenticAMD"),
                              f->channels, f->n_nodes, &k);
        for (int c = 0; c < CAPO_COLLS; c++) {
                for (int i = 0; i < CAPO_PLAN_ALGOS * CAPO_PLAN_PROTOS; i++)
                        lines[c][i] = formula_line(&large[2 * c], &large[2 * c + 1],
                                                   i / CAPO_PLAN_PROTOS, i % CAPO_PLAN_PROTOS);
        }
        set_rates(f, v, &formula, lines[CAPO_COLL_ALLREDUCE][RING * CAPO_PLAN_PROTOS + SIMPLE],
                  lines[CAPO_COLL_ALLREDUCE][TREE * CAPO_PLAN_PROTOS + SIMPLE]);
        nvls = lines[CAPO_COLL_ALLREDUCE][NVLS * CAPO_PLAN_PROTOS + SIMPLE];
        efficiency = nvls_efficiency[formula.gpu];
        if (nvls.gbs > 0 && f->n_nodes == 1 && efficiency > 0 &&
            capo_ceilings(t, v->a, 0, &ceilings) == 0 &&
            ceilings.nvls_gbs > 0) /* all-reduce through the switch of one node */
                set_shape_rate(&f->nvls, nvls.gbs * 2 * (n - 1) / n,
                               ceilings.nvls_gbs * efficiency * 2 * (n - 1) / n,
                               "NVLink of each GPU", true);
        /* NVLink latencies apply if the tree's worst path inside any node is NVLink, else PCI's */
        for (int i = 0; i < v->n_domains; i++) {
                const char *type = v->domains[i].tree->type_intra;

                nvlink |= !strcmp(type, "NVL");
                other |= strcmp(type, "NVL") != 0 && strcmp(type, "LOC") != 0;
        }
        for (int p = 0; p < CAPO_PLAN_PROTOS && formula.caps; p++)
                f->tree_late_us[p] = 2 * (f->max_local - f->mean_local) *
                                     formula.k->hw_latency[!nvlink || other][TREE][p];
        for (size_t i = 0; i < f->nccl.n_rows; i++)
                correct_row(f, &formula, i, lines[f->nccl.rows[i].coll]);
        f->tree_cap = formula.caps ? formula_tree(&formula, INFINITY) : 0;
}

uint8_t fragment_fastest(float cost[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS])
{
        uint8_t best = 0;
        float least = INFINITY;

        for (int a = 0; a < CAPO_PLAN_ALGOS; a++) {
                for (int p = 0; p < CAPO_PLAN_PROTOS; p++) {
                        if (cost[a][p] >= 0 && cost[a][p] < least) {
                                least = cost[a][p];
                                best = CAPO_ALGO_PROTO(a + 1, p + 1);
                        }
                }
        }
        return best;
}

double fragment_cost(float cost[CAPO_PLAN_ALGOS][CAPO_PLAN_PROTOS], uint8_t choice)
{
        unsigned algo = choice >> 4, proto = choice & 15;

        return algo && proto && algo <= CAPO_PLAN_ALGOS && proto <= CAPO_PLAN_PROTOS
                       ? (double)cost[algo - 1][proto - 1]
                       : NAN;
}

int fragment_model(const struct fragment_machine *m, const struct capo_alloc *a,
                   const struct capo_plan_ask *asks, size_t n_asks, struct fragment_model *out,
                   char *why, size_t room)
{
        struct fragment_views *v = xcalloc(1, sizeof *v);
        _cleanup_free_ struct capo_plan_ask *all = xcalloc(n_asks + 2 * CAPO_COLLS, sizeof *all);
        int order[CAPO_PLAN_WHOLE_MAX], r;

        memset(out, 0, sizeof *out);
        out->views = v;
        out->cost = xcalloc(n_asks + 1, sizeof *out->cost);
        out->links = xcalloc(n_asks + 1, sizeof *out->links);
        if (a->n_ranks > CAPO_PLAN_WHOLE_MAX) {
                fragment_model_finish(out);
                return capo_why(-EINVAL, why, room,
                                "%d ranks are more than the %d that can be asked about", a->n_ranks,
                                CAPO_PLAN_WHOLE_MAX);
        }
        v->m = m;
        v->a = a;
        v->n = 1;
        memcpy(all, asks, n_asks * sizeof *asks);
        for (int c = 0; c < CAPO_COLLS; c++) {
                all[n_asks + 2 * (size_t)c] = (struct capo_plan_ask){(enum capo_coll)c, LARGE};
                all[n_asks + 2 * (size_t)c + 1] =
                        (struct capo_plan_ask){(enum capo_coll)c, 2 * LARGE};
        }
        for (int i = 0; i < a->n_ranks; i++)
                order[i] = i;
        r = ask_in_order(v, order, all, n_asks + 2 * CAPO_COLLS, &v->answers[0], why, room);
        if (r < 0) {
                fragment_model_finish(out);
                return r;
        }
        out->nccl = v->answers[0];
        out->nccl.n_rows = n_asks;
        if (out->nccl.rows[n_asks].n_algo) {
                r = collect_domains(v, why, room);
        } else {
                r = capo_why(-ENOTSUP, why, room,
                             "NCCL %d.%d gives a tuner no cost table; 2.22 and later do",
                             out->nccl.version / 10000, out->nccl.version / 100 % 100);
        }
        if (r == 0) {
                correct_model(out, v, out->nccl.rows + n_asks);
        } else if (r > 0) {
                snprintf(out->why_not, sizeof out->why_not,
                         "NCCL's graphs of some node are not known");
                for (size_t i = 0; i < n_asks; i++) {
                        memcpy(out->cost[i], out->nccl.rows[i].cost, sizeof out->cost[i]);
                        memcpy(out->links[i], out->nccl.rows[i].cost, sizeof out->links[i]);
                }
        }
        if (r < 0)
                fragment_model_finish(out);
        return r < 0 ? r : 0;
}

int fragment_model_reorder(struct fragment_model *f, const int *nodes, int n)
{
        struct fragment_views *v = f->views;
        _cleanup_free_ struct fragment_domain *before = NULL;
        int at = 0;

        if (*f->why_not)
                return -ENOTSUP;
        before = xmalloc(sizeof v->domains);
        memcpy(before, v->domains, sizeof v->domains);
        for (int k = 0; k < n; k++) {
                for (int i = 0; i < v->n_domains; i++) {
                        if (before[i].machine == nodes[k])
                                v->domains[at++] = before[i];
                }
        }
        correct_model(f, v, f->nccl.rows + f->nccl.n_rows);
        return *f->why_not ? -ENOTSUP : 0;
}

void fragment_model_finish(struct fragment_model *f)
{
        for (int i = 1; f->views && i < f->views->n; i++)
                capo_plan_answer_finish(&f->views->answers[i]);
        free(f->views);
        capo_plan_answer_finish(&f->nccl);
        free(f->cost);
        free(f->links);
        memset(f, 0, sizeof *f);
}
