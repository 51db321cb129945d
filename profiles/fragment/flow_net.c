/* SPDX-License-Identifier: Apache-2.0 */
/* Vertices: first the ranks, then the relays of each machine. Capacities are in MB/s divided by
 * their common divisor: a DGX-1's NVLinks become 1 and 2, and all arithmetic uses small whole
 * numbers. */
#include <math.h>

#include "core/base/xalloc.h"
#include "profiles/fragment/flow_net.h"

struct builder {
        const struct capo_topology *t;
        int n, room;
        int64_t *cap; /* room * room */
};

static void connect_vertices(struct builder *b, int u, int v, double gbs)
{
        int64_t mbs = llround(gbs * 1000);

        if (u < 0 || v < 0 || u == v)
                return;
        b->cap[u * b->room + v] += mbs;
        b->cap[v * b->room + u] += mbs;
}

/* The link between CPUs: src/graph/topo.h of NCCL 2.28 (QPI_BW, SKL_QPI_BW, SRP_QPI_BW, ERP_QPI_BW,
 * AMD_BW, ARM_BW, P9_BW), selected as in ncclTopoGetInterCpuBw. */
double fragment_cpu_link_gbs(const struct capo_topology_cpu *cpu)
{
        if (!strcmp(cpu->arch, "ppc64"))
                return 32;
        if (!strcmp(cpu->arch, "arm64"))
                return 6;
        if (!strcmp(cpu->vendor, "AuthenticAMD"))
                return 16;
        if (!strcmp(cpu->vendor, "GenuineIntel")) {
                if (cpu->model == 207 || cpu->model == 173)
                        return 40;
                if (cpu->model == 143)
                        return 22;
                if (cpu->model == 85 || cpu->model == 106)
                        return 10;
        }
        return 6;
}

#define NIC_LEAST_GBS 1.0 /* slower ones are for management, unless there is nothing faster */

/* Vertices of one machine's parts. */
struct places {
        int *gpu, *pci, *cpu;
        int fabric; /* all NVSwitches */
};

static void add_nvlinks(struct builder *b, const struct places *p)
{
        for (size_t i = 0; i < b->t->n_links; i++) {
                const struct capo_topology_link *l = &b->t->links[i];

                if (l->end == CAPO_END_GPU)
                        connect_vertices(b, p->gpu[l->from], p->gpu[l->to], l->gbs);
                else if (l->end == CAPO_END_SWITCH)
                        connect_vertices(b, p->gpu[l->from], p->fabric, l->gbs);
                else if (p->cpu)
                        connect_vertices(b, p->gpu[l->from], p->cpu[l->to], l->gbs);
        }
}

static void add_pci(struct builder *b, const struct capo_alloc *a, int node, const struct places *p,
                    int network)
{
        const struct capo_topology *t = b->t;
        bool fast = false;

        for (size_t i = 0; i < t->n_pcis; i++) {
                const struct capo_topology_pci *d = &t->pcis[i];

                connect_vertices(b, p->pci[i], d->parent >= 0 ? p->pci[d->parent] : p->cpu[d->cpu],
                                 d->gbs);
        }
        for (int r = 0; r < a->n_ranks; r++) {
                const struct capo_topology_gpu *g = &t->gpus[a->ranks[r].gpu];

                if (g->pci < 0 || a->ranks[r].node != node)
                        continue;
                /* the GPU is its PCI function; a MIG slice reaches its siblings only over the bus
                 */
                connect_vertices(b, r, p->pci[g->pci], g->mig ? t->pcis[g->pci].gbs : 1e6);
        }
        for (size_t i = 0; i < t->n_cpus; i++) {
                for (size_t j = 0; j < i; j++)
                        connect_vertices(b, p->cpu[i], p->cpu[j],
                                         fragment_cpu_link_gbs(&t->cpus[i]));
        }
        for (size_t i = 0; i < t->n_nics; i++)
                fast |= t->nics[i].pci >= 0 && t->nics[i].gbs >= NIC_LEAST_GBS;
        for (size_t i = 0; i < t->n_nics; i++) {
                if (t->nics[i].pci >= 0 && t->nics[i].gbs >= (fast ? NIC_LEAST_GBS : 0))
                        connect_vertices(b, p->pci[t->nics[i].pci], network, t->nics[i].gbs);
        }
}

static void remove_vertex(struct builder *b, int v)
{
        int last = --b->n;

        for (int u = 0; u < b->room; u++) {
                b->cap[v * b->room + u] = u == v ? 0 : b->cap[last * b->room + u];
                b->cap[u * b->room + v] = b->cap[v * b->room + u];
        }
        b->cap[v * b->room + v] = 0;
        if (v != last)
                b->cap[v * b->room + last] = b->cap[last * b->room + v] = 0;
        for (int u = 0; u < b->room; u++)
                b->cap[last * b->room + u] = b->cap[u * b->room + last] = 0;
}

/* Relays with one neighbour lead nowhere. One with two neighbours is a link as wide as its narrower
 * side. */
static void simplify_relays(struct builder *b, int n_ranks)
{
        for (bool again = true; again;) {
                again = false;
                for (int v = b->n - 1; v >= n_ranks; v--) {
                        int ends[2] = {-1, -1}, n = 0;

                        for (int u = 0; u < b->n; u++) {
                                if (b->cap[v * b->room + u] && n++ < 2)
                                        ends[n - 1] = u;
                        }
                        if (n > 2)
                                continue;
                        if (n == 2) {
                                int64_t x = b->cap[v * b->room + ends[0]],
                                        y = b->cap[v * b->room + ends[1]];

                                connect_vertices(b, ends[0], ends[1],
                                                 (double)(x < y ? x : y) / 1000);
                        }
                        remove_vertex(b, v);
                        again = true;
                }
        }
}

void fragment_net(const struct capo_topology *t, const struct capo_alloc *a, bool hybrid,
                  struct pack_net *out, double *unit_gbs)
{
        size_t per_node = 1 + (hybrid ? t->n_pcis + t->n_cpus : 0);
        struct builder b = {.t = t, .room = a->n_ranks + (int)per_node * a->n_nodes + 1};
        _cleanup_free_ int *places =
                xmalloc(sizeof *places * (t->n_gpus + t->n_pcis + t->n_cpus + 1));
        int network = b.room - 1;
        int64_t unit = 0, *cap;

        b.cap = xcalloc((size_t)b.room * (size_t)b.room, sizeof *b.cap);
        b.n = b.room;
        for (int node = 0; node < a->n_nodes; node++) {
                struct places p = {.gpu = places};
                int next = a->n_ranks + node * (int)per_node;

                p.fabric = next++;
                p.pci = hybrid ? places + t->n_gpus : NULL;
                p.cpu = hybrid ? p.pci + t->n_pcis : NULL;
                for (size_t i = 0; i < t->n_gpus; i++)
                        p.gpu[i] = -1;
                for (int r = 0; r < a->n_ranks; r++) {
                        if (a->ranks[r].node == node)
                                p.gpu[a->ranks[r].gpu] = r;
                }
                for (size_t i = 0; hybrid && i < t->n_pcis; i++)
                        p.pci[i] = next++;
                for (size_t i = 0; hybrid && i < t->n_cpus; i++)
                        p.cpu[i] = next++;
                add_nvlinks(&b, &p);
                if (hybrid)
                        add_pci(&b, a, node, &p, network);
        }
        simplify_relays(&b, a->n_ranks);
        for (int u = 0; u < b.n; u++) {
                for (int v = 0; v < u; v++)
                        unit = pack_gcd(b.cap[u * b.room + v], unit);
        }
        if (!unit)
                unit = 1;
        cap = xcalloc((size_t)b.n * (size_t)b.n, sizeof *cap);
        for (int u = 0; u < b.n; u++) {
                for (int v = 0; v < b.n; v++)
                        cap[u * b.n + v] = b.cap[u * b.room + v] / unit;
        }
        free(b.cap);
        *out = (struct pack_net){b.n, a->n_ranks, cap};
        *unit_gbs = (double)unit / 1000;
}

int64_t fragment_star(const struct pack_net *net)
{
        int n = net->n_ranks, s = n;
        int64_t port;

        if (net->n != n + 1 || n < 1)
                return 0;
        port = net->cap[s];
        for (int u = 0; u < n; u++) {
                if (net->cap[u * net->n + s] != port)
                        return 0;
                for (int v = 0; v < n; v++) {
                        if (net->cap[u * net->n + v])
                                return 0;
                }
        }
        return port;
}
