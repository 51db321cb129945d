/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links have two directions, and each counts for itself. The ways over them are NCCL's, since a graph file cannot
 * choose them (nccl src/graph/paths.cc): between GPUs NVLink, PCI only where NVLink leads nowhere; from a NIC to a GPU
 * by PCI; from a GPU to a NIC by PCI when both are below one bridge, else over NVLink to the GPU beside the NIC (PXN),
 * else by PCI through the CPU. Two losses that NCCL's search reckons with are reckoned with here (search.cc,
 * followPath): a NIC that writes into a GPU before Ampere takes an eighth of the way back, and a GPU that goes through
 * an Intel CPU takes a fifth more of PCI.
 *
 * All channels are equally fast, so what counts is the fullest link. Each channel takes the way that is cheapest when
 * links cost the more the fuller they are, exponentially (Aspnes and others 1997, for routes on line); then each is
 * taken out and laid anew, as long as that helps. The cheapest way is Held and Karp's table over sets of GPUs, with a
 * price for coming in, one for going out, and one for being second.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "profiles/fragment/net.h"
#include "profiles/fragment/rails.h"

#define HOP_LINKS 16
#define NICS_MAX  32
#define ROUNDS    24

/* A way from one device to another: what a rate of 1 takes of each link. */
struct hop {
        enum rails_type type;
        int n;
        struct {
                int link;
                double share;
        } use[HOP_LINKS];
};

struct rails {
        int n, n_nics, n_links, room;
        int nic[NICS_MAX]; /* index in the topology */
        double *cap;
        struct hop gpu[RAILS_GPUS][RAILS_GPUS], in[NICS_MAX][RAILS_GPUS], out[NICS_MAX][RAILS_GPUS];
        double first, second; /* how often a tree goes through the NIC at its first and at its second GPU */
        double *cost;         /* [set * n + last] */
        int8_t *before;
};

const char *rails_type_name(enum rails_type type)
{
        static const char *const names[] = {"LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS", "SYS"};

        return names[type];
}

/* --- links and ways --- */

/* Two numbers per link: up (towards the CPU, or from the first end) and down. */
static int add_link(struct rails *r, double gbs)
{
        r->cap[r->n_links] = r->cap[r->n_links + 1] = gbs;
        r->n_links += 2;
        return r->n_links - 2;
}

static void take(struct hop *h, int link, double share)
{
        for (int i = 0; i < h->n; i++) {
                if (h->use[i].link == link) {
                        h->use[i].share += share;
                        return;
                }
        }
        if (h->n == HOP_LINKS) {
                h->type = RAILS_NONE;
                return;
        }
        h->use[h->n].link = link;
        h->use[h->n++].share = share;
}

static void append(struct hop *h, const struct hop *more)
{
        for (int i = 0; i < more->n; i++)
                take(h, more->use[i].link, more->use[i].share);
}

struct machine {
        const struct capo_topology *t;
        const int *gpus;       /* topology indexes of the machine's GPUs */
        int *pci, *cpu, *port; /* links of each PCI device, pair of CPUs, NIC */
};

/* By PCI from one function to another, each once over the way that the tree leaves open. */
static void by_pci(const struct machine *m, int from, int to, struct hop *h)
{
        const struct capo_topology *t = m->t;
        int a = t->pcis[from].cpu, b = t->pcis[to].cpu;

        for (int p = from; p >= 0; p = t->pcis[p].parent) {
                bool common = false;

                for (int q = to; q >= 0; q = t->pcis[q].parent)
                        common |= p == q;
                if (common)
                        break;
                take(h, m->pci[p], 1);
        }
        for (int q = to; q >= 0; q = t->pcis[q].parent) {
                bool common = false;

                for (int p = from; p >= 0; p = t->pcis[p].parent)
                        common |= p == q;
                if (common)
                        break;
                take(h, m->pci[q] + 1, 1);
        }
        if (a != b)
                take(h, m->cpu[(a < b ? a * (int)t->n_cpus + b : b * (int)t->n_cpus + a)] + (a > b), 1);
}

static enum rails_type pci_type(uint8_t path)
{
        switch (path) {
        case CAPO_PATH_PIX: return RAILS_PIX;
        case CAPO_PATH_PXB: return RAILS_PXB;
        case CAPO_PATH_PHB: return RAILS_PHB;
        case CAPO_PATH_NODE:
        case CAPO_PATH_SYS: return RAILS_SYS;
        default: return RAILS_NONE;
        }
}

/* NVLink by way of the GPU that is best joined to both; in NCCL's order of GPUs the first of equals. */
static void relay(struct rails *r)
{
        for (int u = 0; u < r->n; u++) {
                for (int v = 0; v < r->n; v++) {
                        struct hop *h = &r->gpu[u][v];
                        double most = 0;
                        int by = -1;

                        for (int w = 0; w < r->n && u != v && h->type == RAILS_NONE; w++) {
                                const struct hop *x = &r->gpu[u][w], *y = &r->gpu[w][v];
                                double least;

                                if (x->type != RAILS_NVL || y->type != RAILS_NVL)
                                        continue;
                                least = fmin(r->cap[x->use[0].link], r->cap[y->use[0].link]);
                                if (least > most) {
                                        most = least;
                                        by = w;
                                }
                        }
                        if (by < 0)
                                continue;
                        *h = r->gpu[u][by];
                        append(h, &r->gpu[by][v]);
                        h->type = RAILS_NVB;
                }
        }
}

static void join_gpus(struct rails *r, const struct machine *m)
{
        const struct capo_topology *t = m->t;
        int port[RAILS_GPUS];
        double direct[RAILS_GPUS][RAILS_GPUS] = {0}, fabric[RAILS_GPUS] = {0};

        for (size_t i = 0; i < t->n_links; i++) {
                const struct capo_topology_link *l = &t->links[i];

                for (int u = 0; u < r->n; u++) {
                        if (l->end == CAPO_END_SWITCH && m->gpus[u] == l->from)
                                fabric[u] += l->gbs;
                        for (int v = 0; v < r->n && l->end == CAPO_END_GPU; v++) {
                                if (m->gpus[u] == l->from && m->gpus[v] == l->to)
                                        direct[u < v ? u : v][u < v ? v : u] += l->gbs;
                        }
                }
        }
        for (int u = 0; u < r->n; u++)
                port[u] = fabric[u] > 0 ? add_link(r, fabric[u]) : -1;
        for (int u = 0; u < r->n; u++) {
                for (int v = u + 1; v < r->n; v++) {
                        struct hop *there = &r->gpu[u][v], *back = &r->gpu[v][u];

                        if (direct[u][v] > 0) {
                                int link = add_link(r, direct[u][v]);

                                there->type = back->type = RAILS_NVL;
                                take(there, link, 1);
                                take(back, link + 1, 1);
                        } else if (port[u] >= 0 && port[v] >= 0) {
                                there->type = back->type = RAILS_NVL;
                                take(there, port[u], 1);
                                take(there, port[v] + 1, 1);
                                take(back, port[v], 1);
                                take(back, port[u] + 1, 1);
                        }
                }
        }
        relay(r);
        for (int u = 0; u < r->n; u++) {
                for (int v = 0; v < r->n; v++) {
                        struct hop *h = &r->gpu[u][v];

                        if (u == v || h->type != RAILS_NONE)
                                continue;
                        h->type = pci_type(t->gpu_path[(size_t)m->gpus[u] * t->n_gpus + (size_t)m->gpus[v]]);
                        by_pci(m, t->gpus[m->gpus[u]].pci, t->gpus[m->gpus[v]].pci, h);
                }
        }
}

static void join_nic(struct rails *r, const struct machine *m, int k)
{
        const struct capo_topology *t = m->t;
        const struct capo_topology_nic *nic = &t->nics[r->nic[k]];
        int beside = -1; /* the GPU that others send through */

        for (int g = 0; g < r->n; g++) {
                const struct capo_topology_gpu *gpu = &t->gpus[m->gpus[g]];
                struct hop *in = &r->in[k][g], *out = &r->out[k][g];

                in->type = out->type = pci_type(t->nic_path[(size_t)m->gpus[g] * t->n_nics + (size_t)r->nic[k]]);
                take(in, m->port[k], 1);
                by_pci(m, nic->pci, gpu->pci, in);
                if (gpu->sm > 0 && gpu->sm < 80)
                        take(in, m->pci[gpu->pci], 1.0 / 8);
                by_pci(m, gpu->pci, nic->pci, out);
                if (out->type == RAILS_PHB && !strcmp(t->cpus[gpu->cpu].vendor, "GenuineIntel")) {
                        for (int i = 0; i < out->n; i++)
                                out->use[i].share *= 6.0 / 5;
                }
                take(out, m->port[k] + 1, 1);
                if (out->type <= RAILS_PXB && beside < 0)
                        beside = g;
        }
        for (int g = 0; g < r->n && beside >= 0; g++) {
                struct hop *out = &r->out[k][g];

                if (out->type <= RAILS_PXB || r->gpu[g][beside].type != RAILS_NVL)
                        continue;
                *out = r->gpu[g][beside];
                append(out, &r->out[k][beside]);
                out->type = RAILS_PXN;
        }
}

static int build(struct rails *r, const struct capo_topology *t, const int *gpus)
{
        size_t n_cpus = t->n_cpus;
        _cleanup_free_ int *pci = malloc(sizeof *pci * (t->n_pcis + 1)),
                           *cpu = calloc(n_cpus * n_cpus + 1, sizeof *cpu);
        int port[NICS_MAX];
        struct machine m = {t, gpus, pci, cpu, port};

        if (!pci || !cpu)
                return -ENOMEM;
        for (size_t i = 0; i < t->n_pcis; i++)
                pci[i] = add_link(r, t->pcis[i].gbs);
        for (size_t i = 0; i < n_cpus; i++) {
                for (size_t k = i + 1; k < n_cpus; k++)
                        cpu[i * n_cpus + k] = add_link(r, fragment_cpu_link_gbs(&t->cpus[i]));
        }
        for (int k = 0; k < r->n_nics; k++)
                port[k] = add_link(r, t->nics[r->nic[k]].gbs);
        join_gpus(r, &m);
        for (int k = 0; k < r->n_nics; k++)
                join_nic(r, &m, k);
        return 0;
}

static int no(char *why, size_t room, const char *text)
{
        snprintf(why, room, "%s", text);
        return -ENOTSUP;
}

int rails_new(const struct capo_topology *t, const struct capo_alloc *a, int node, int n_nodes, int pattern,
              struct rails **out, char *why, size_t room)
{
        struct rails *r = calloc(1, sizeof *r);
        int gpus[RAILS_GPUS], e = 0;

        if (!r)
                return -ENOMEM;
        for (int i = 0; i < a->n_ranks && !e; i++) {
                if (a->ranks[i].node != node)
                        continue;
                if (r->n == RAILS_GPUS)
                        e = no(why, room, "more than 12 GPUs of one machine");
                else if (t->gpus[a->ranks[i].gpu].pci < 0 || t->gpus[a->ranks[i].gpu].cpu < 0)
                        e = no(why, room, "the description does not say where the GPUs are on PCI");
                else
                        gpus[r->n++] = a->ranks[i].gpu;
        }
        for (size_t i = 0; i < t->n_nics && !e; i++) {
                if (t->nics[i].dev != (int)i)
                        e = no(why, room, "NICs are not numbered in the order of the description");
                else if (fragment_nic_counts(t, i) && r->n_nics < NICS_MAX)
                        r->nic[r->n_nics++] = (int)i;
        }
        if (!e && (!t->pci_known || !r->n_nics))
                e = no(why, room, "several machines: their PCI and NICs are not described");
        r->first = n_nodes == 2 ? 1 : pattern == 3 ? 2 : 1.5;
        r->second = n_nodes == 2 || pattern == 3 ? 0 : .5;
        r->room = 2 * (int)(t->n_pcis + t->n_cpus * t->n_cpus) + 2 * r->n_nics + 2 * r->n * (r->n + 1);
        r->cap = calloc((size_t)r->room + 1, sizeof *r->cap);
        r->cost = calloc((size_t)r->n << r->n, sizeof *r->cost);
        r->before = calloc((size_t)r->n << r->n, sizeof *r->before);
        for (int u = 0; u < RAILS_GPUS; u++) {
                for (int v = 0; v < RAILS_GPUS; v++)
                        r->gpu[u][v].type = RAILS_NONE;
        }
        if (!e && (!r->cap || !r->cost || !r->before))
                e = -ENOMEM;
        if (!e)
                e = build(r, t, gpus);
        if (e)
                rails_free(r);
        else
                *out = r;
        return e;
}

void rails_free(struct rails *r)
{
        if (!r)
                return;
        free(r->cap);
        free(r->cost);
        free(r->before);
        free(r);
}

/* --- what a channel uses --- */

static void load(const struct hop *h, double times, double *use)
{
        for (int i = 0; i < h->n; i++)
                use[h->use[i].link] += times * h->use[i].share;
}

/* Calls @each with every hop of a channel and how often it is gone. */
static void hops(const struct rails *r, enum rails_shape shape, const struct rails_thing *c,
                 void (*each)(const struct hop *h, double times, bool inside, void *arg), void *arg)
{
        int last = c->order[r->n - 1];

        each(&r->in[c->nic_in][c->order[0]], shape == RAILS_TREE ? r->first : 1, false, arg);
        if (shape == RAILS_RING)
                each(&r->out[c->nic_out][last], 1, false, arg);
        else
                each(&r->out[c->nic_out][c->order[0]], r->first, false, arg);
        if (shape == RAILS_TREE && r->second > 0 && r->n > 1) {
                each(&r->in[c->nic_in][c->order[1]], r->second, false, arg);
                each(&r->out[c->nic_out][c->order[1]], r->second, false, arg);
        }
        for (int i = 1; i < r->n; i++) {
                each(&r->gpu[c->order[i - 1]][c->order[i]], 1, true, arg);
                if (shape == RAILS_TREE)
                        each(&r->gpu[c->order[i]][c->order[i - 1]], 1, true, arg);
        }
}

struct sum {
        double *use;
        enum rails_type worst[2]; /* to the NICs, inside */
};

static void add_hop(const struct hop *h, double times, bool inside, void *arg)
{
        struct sum *s = arg;

        if (h->type > s->worst[inside])
                s->worst[inside] = h->type;
        if (s->use)
                load(h, times, s->use);
}

/* NICs of the topology to places in ours; -1 one that does not count. */
static int place_of(const struct rails *r, int nic)
{
        for (int k = 0; k < r->n_nics; k++) {
                if (r->nic[k] == nic)
                        return k;
        }
        return -1;
}

static bool placed(const struct rails *r, const struct rails_thing *from, struct rails_thing *to)
{
        *to = *from;
        to->nic_in = (int8_t)place_of(r, from->nic_in);
        to->nic_out = (int8_t)place_of(r, from->nic_out);
        return to->nic_in >= 0 && to->nic_out >= 0;
}

double rails_fits(const struct rails *r, enum rails_shape shape, const struct rails_thing *things, int n)
{
        _cleanup_free_ double *use = calloc((size_t)r->n_links + 1, sizeof *use);
        struct sum s = {use, {RAILS_LOC, RAILS_LOC}};
        double least = INFINITY;

        for (int i = 0; i < n && use; i++) {
                struct rails_thing c;

                if (!placed(r, &things[i], &c))
                        return 0;
                hops(r, shape, &c, add_hop, &s);
        }
        if (!use || s.worst[0] == RAILS_NONE || s.worst[1] == RAILS_NONE)
                return 0;
        for (int l = 0; l < r->n_links; l++) {
                if (use[l] > 0 && r->cap[l] / use[l] < least)
                        least = r->cap[l] / use[l];
        }
        return least < INFINITY ? least : 0;
}

void rails_types(const struct rails *r, enum rails_shape shape, const struct rails_thing *thing, enum rails_type *intra,
                 enum rails_type *inter)
{
        struct sum s = {NULL, {*inter, *intra}};
        struct rails_thing c;

        if (placed(r, thing, &c))
                hops(r, shape, &c, add_hop, &s);
        else
                s.worst[0] = s.worst[1] = RAILS_NONE;
        *inter = s.worst[0];
        *intra = s.worst[1];
}

/* --- packing --- */

struct search {
        struct rails *r;
        enum rails_shape shape;
        bool cross;
        double step[RAILS_GPUS][RAILS_GPUS], begin[RAILS_GPUS], second[RAILS_GPUS], end[RAILS_GPUS];
        int begin_nic[RAILS_GPUS], end_nic[RAILS_GPUS];
};

static double priced(const struct hop *h, const double *price, double times)
{
        double sum = 0;

        if (h->type == RAILS_NONE)
                return INFINITY;
        for (int i = 0; i < h->n; i++)
                sum += h->use[i].share * price[h->use[i].link];
        return times * sum;
}

/* The cheapest order of GPUs under the prices that are set; the channel's NICs from the ends it has. */
static double cheapest_order(struct search *w, struct rails_thing *thing)
{
        struct rails *r = w->r;
        int n = r->n, full = (1 << n) - 1, last = -1;
        double best = INFINITY;

        for (int set = 1; set <= full; set++) {
                for (int v = 0; v < n; v++) {
                        double *c = &r->cost[set * n + v];
                        int rest = set & ~(1 << v);
                        bool is_second = rest && !(rest & (rest - 1));

                        *c = INFINITY;
                        if (!(set >> v & 1))
                                continue;
                        if (!rest) {
                                *c = w->begin[v];
                                continue;
                        }
                        for (int u = 0; u < n; u++) {
                                double d = rest >> u & 1 ? r->cost[rest * n + u] + w->step[u][v] : INFINITY;

                                if (d < *c) {
                                        *c = d;
                                        r->before[set * n + v] = (int8_t)u;
                                }
                        }
                        if (is_second)
                                *c += w->second[v];
                }
        }
        for (int v = 0; v < n; v++) {
                if (r->cost[full * n + v] + w->end[v] < best) {
                        best = r->cost[full * n + v] + w->end[v];
                        last = v;
                }
        }
        for (int set = full, i = n - 1, v = last; last >= 0 && set; i--) {
                int u = r->before[set * n + v];

                thing->order[i] = (int8_t)v;
                set &= ~(1 << v);
                v = u;
        }
        if (last >= 0) {
                thing->nic_in = (int8_t)w->begin_nic[(int)thing->order[0]];
                thing->nic_out = (int8_t)(w->shape == RAILS_RING ? w->end_nic[last] : thing->nic_in);
        }
        return best;
}

/* Prices of the ends when these NICs are open, first and last for the way in and for the way out. */
static void price_ends(struct search *w, const double *price, const int in_nics[2], const int out_nics[2])
{
        const struct rails *r = w->r;
        bool tree = w->shape == RAILS_TREE;

        for (int v = 0; v < r->n; v++) {
                w->begin[v] = INFINITY;
                w->end[v] = tree ? 0 : INFINITY;
                w->second[v] = 0;
                for (int k = in_nics[0]; k <= in_nics[1]; k++) {
                        double in = priced(&r->in[k][v], price, 1), both = in + priced(&r->out[k][v], price, 1);
                        double at = tree ? r->first * both : in;

                        if (at < w->begin[v]) {
                                w->begin[v] = at;
                                w->begin_nic[v] = k;
                        }
                        if (tree && r->second > 0)
                                w->second[v] = r->second * both; /* one NIC is open */
                }
                for (int k = out_nics[0]; k <= out_nics[1] && !tree; k++) {
                        double out = priced(&r->out[k][v], price, 1);

                        if (out < w->end[v]) {
                                w->end[v] = out;
                                w->end_nic[v] = k;
                        }
                }
        }
}

/* The cheapest channel at these prices. Return: false where there is none. */
static bool cheapest(struct search *w, const double *price, const struct rails_thing *nics, struct rails_thing *out)
{
        struct rails *r = w->r;
        double best = INFINITY;
        int last = r->n_nics - 1, turns = nics || w->cross ? 1 : r->n_nics;

        for (int u = 0; u < r->n; u++) {
                for (int v = 0; v < r->n; v++) {
                        w->step[u][v] = u == v ? INFINITY : priced(&r->gpu[u][v], price, 1);
                        if (w->shape == RAILS_TREE && u != v)
                                w->step[u][v] += priced(&r->gpu[v][u], price, 1);
                }
        }
        for (int k = 0; k < turns; k++) {
                int in[2] = {nics ? nics->nic_in : w->cross ? 0 : k, nics ? nics->nic_in : w->cross ? last : k};
                int to[2] = {nics ? nics->nic_out : w->cross ? 0 : k, nics ? nics->nic_out : w->cross ? last : k};
                struct rails_thing c = {0};
                double cost;

                price_ends(w, price, in, to);
                cost = cheapest_order(w, &c);
                if (cost < best) {
                        best = cost;
                        *out = c;
                }
        }
        return best < INFINITY;
}

static double fullest(const struct rails *r, const double *use)
{
        double most = 0;

        for (int l = 0; l < r->n_links; l++)
                most = use[l] > most * r->cap[l] ? use[l] / r->cap[l] : most;
        return most;
}

/* A link without capacity cannot be used at all: dearer than any other, and finite. */
#define STEEP 12.0
static void set_prices(const struct rails *r, const double *use, double scale, double *price)
{
        for (int l = 0; l < r->n_links; l++)
                price[l] = r->cap[l] > 0 ? exp(STEEP * use[l] / r->cap[l] / scale) / r->cap[l] : 1e30;
}

/* Lay one channel on top of what is used. */
static bool lay(struct search *w, double *use, double scale, double *price, const struct rails_thing *nics,
                struct rails_thing *out)
{
        struct sum s = {use, {RAILS_LOC, RAILS_LOC}};

        set_prices(w->r, use, scale, price);
        if (!cheapest(w, price, nics, out))
                return false;
        hops(w->r, w->shape, out, add_hop, &s);
        return true;
}

static void take_out(const struct search *w, const struct rails_thing *c, double *spare, double *use)
{
        struct sum s = {spare, {RAILS_LOC, RAILS_LOC}};

        memset(spare, 0, sizeof *spare * (size_t)w->r->n_links);
        hops(w->r, w->shape, c, add_hop, &s);
        for (int l = 0; l < w->r->n_links; l++)
                use[l] -= spare[l];
}

double rails_route(struct rails *r, enum rails_shape shape, bool cross, const struct rails_thing *nics, int n,
                   struct rails_thing *out)
{
        size_t links = (size_t)r->n_links + 1;
        _cleanup_free_ double *memory = calloc(3 * links, sizeof *memory);
        _cleanup_free_ struct search *w = calloc(1, sizeof *w);
        _cleanup_free_ struct rails_thing *now = calloc((size_t)n + 1, sizeof *now),
                                          *must = calloc((size_t)n + 1, sizeof *must);
        double *use = memory, *price = use + links, *spare = price + links, best = INFINITY, scale = 1;

        if (!memory || !w || !now || !must)
                return -ENOMEM;
        *w = (struct search){.r = r, .shape = shape, .cross = cross && shape == RAILS_RING};
        for (int i = 0; i < n && nics; i++) {
                if (!placed(r, &nics[i], &must[i]))
                        return 0;
        }
        for (int i = 0; i < n; i++) {
                if (!lay(w, use, scale, price, nics ? &must[i] : NULL, &now[i]))
                        return 0;
                if (i == 0) /* one channel alone says what a full link is */
                        scale = fullest(r, use) * n;
        }
        for (int round = 0, idle = 0; round < ROUNDS && idle < 2; round++) {
                double full = fullest(r, use);

                idle = full < best * (1 - 1e-9) ? 0 : idle + 1;
                if (!idle) {
                        best = full;
                        memcpy(out, now, sizeof *out * (size_t)n);
                }
                for (int i = 0; i < n; i++) {
                        take_out(w, &now[i], spare, use);
                        if (!lay(w, use, full, price, nics ? &must[i] : NULL, &now[i]))
                                return 0;
                }
        }
        for (int i = 0; i < n; i++) {
                out[i].nic_in = (int8_t)r->nic[(int)out[i].nic_in];
                out[i].nic_out = (int8_t)r->nic[(int)out[i].nic_out];
        }
        return rails_fits(r, shape, out, n);
}
