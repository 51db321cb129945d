/* SPDX-License-Identifier: Apache-2.0 */
/* Each direction of a link is counted separately. Paths are NCCL's, which cannot be configured
 * (nccl src/graph/paths.cc). Between GPUs: NVLink, direct, through a switch or through one other
 * GPU; PCI only without NVLink. From a NIC to a GPU: PCI. From a GPU to a NIC: PCI below one
 * bridge, else NVLink to the GPU beside the NIC (PXN), else PCI through the CPU. Two losses are as
 * in NCCL's search (search.cc, followPath): a NIC that writes into a GPU before Ampere uses an
 * eighth of the way back, and a GPU that goes through an Intel CPU uses a fifth more of PCI. */
#include <math.h>

#include "core/base/xalloc.h"
#include "profiles/fragment/flow_net.h"
#include "profiles/fragment/ways.h"

/* ---- links ---- */

/* Order of numbers: NVLinks by pair of GPUs, ports to a switch, PCI devices (up, down), pairs of
 * CPUs, NICs (out, in). */
void ways_new(const struct capo_topology *t, struct ways *w)
{
        int n = (int)t->n_gpus, cpus = (int)t->n_cpus;

        *w = (struct ways){.t = t, .port = n * n};
        w->pci = w->port + 2 * n;
        w->cpu = w->pci + 2 * (int)t->n_pcis;
        w->nic = w->cpu + cpus * cpus;
        w->n_links = w->nic + 2 * (int)t->n_nics;
        w->cap = xcalloc((size_t)w->n_links + 1, sizeof *w->cap);
        for (size_t i = 0; i < t->n_links; i++) {
                const struct capo_topology_link *l = &t->links[i];

                if (l->end == CAPO_END_GPU) {
                        w->cap[l->from * n + l->to] += l->gbs;
                        w->cap[l->to * n + l->from] += l->gbs;
                } else if (l->end == CAPO_END_SWITCH) {
                        w->cap[w->port + 2 * l->from] += l->gbs;
                        w->cap[w->port + 2 * l->from + 1] += l->gbs;
                }
        }
        for (int i = 0; i < 2 * (int)t->n_pcis; i++)
                w->cap[w->pci + i] = t->pcis[i / 2].gbs;
        for (int i = 0; i < cpus * cpus; i++)
                w->cap[w->cpu + i] = fragment_cpu_link_gbs(&t->cpus[i / cpus]);
        for (int i = 0; i < 2 * (int)t->n_nics; i++)
                w->cap[w->nic + i] = t->nics[i / 2].gbs;
}

void ways_free(struct ways *w)
{
        free(w->cap);
        w->cap = NULL;
}

void ways_link_name(const struct ways *w, int link, char *text, size_t room)
{
        const struct capo_topology *t = w->t;
        int n = (int)t->n_gpus, k;

        if (link < w->port) {
                snprintf(text, room, "NVLink GPU %d to GPU %d", t->gpus[link / n].dev,
                         t->gpus[link % n].dev);
        } else if (link < w->pci) {
                snprintf(text, room, "NVLink of GPU %d", t->gpus[(link - w->port) / 2].dev);
        } else if (link < w->cpu) {
                k = (link - w->pci) / 2;
                snprintf(text, room, "PCIe of %s", t->pcis[k].busid);
                for (size_t g = 0; g < t->n_gpus; g++) {
                        if (t->gpus[g].pci == k)
                                snprintf(text, room, "PCIe of GPU %d", t->gpus[g].dev);
                }
                for (size_t i = 0; i < t->n_nics; i++) {
                        if (t->nics[i].pci == k)
                                snprintf(text, room, "PCIe of NIC %s", t->nics[i].name);
                }
        } else if (link < w->nic) {
                snprintf(text, room, "the link between CPUs");
        } else {
                snprintf(text, room, "NIC %s", t->nics[(link - w->nic) / 2].name);
        }
}

/* ---- paths ---- */

static void add_link_share(struct way *way, int link, double share)
{
        for (int i = 0; i < way->n; i++) {
                if (way->use[i].link == link) {
                        way->use[i].share += share;
                        return;
                }
        }
        if (way->n == WAY_LINKS) {
                way->type = WAY_NONE;
                return;
        }
        way->use[way->n].link = link;
        way->use[way->n++].share = share;
}

static void append_way(struct way *way, const struct way *more)
{
        for (int i = 0; i < more->n; i++)
                add_link_share(way, more->use[i].link, more->use[i].share);
        if (more->type == WAY_NONE)
                way->type = WAY_NONE;
}

void way_load(const struct way *way, double rate, double *use)
{
        for (int i = 0; i < way->n; i++)
                use[way->use[i].link] += rate * way->use[i].share;
}

static bool is_above(const struct capo_topology *t, int pci, int maybe)
{
        for (; pci >= 0; pci = t->pcis[pci].parent) {
                if (pci == maybe)
                        return true;
        }
        return false;
}

/* The PCI path between two functions: up to the common bridge, or to the CPU, and down. */
static void by_pci(const struct ways *w, int from, int to, double share, struct way *way)
{
        const struct capo_topology *t = w->t;
        int a, b;

        if (from < 0 || to < 0) {
                way->type = WAY_NONE;
                return;
        }
        for (int p = from; p >= 0 && !is_above(t, to, p); p = t->pcis[p].parent)
                add_link_share(way, w->pci + 2 * p, share);
        for (int p = to; p >= 0 && !is_above(t, from, p); p = t->pcis[p].parent)
                add_link_share(way, w->pci + 2 * p + 1, share);
        a = t->pcis[from].cpu;
        b = t->pcis[to].cpu;
        if (a != b && a >= 0 && b >= 0)
                add_link_share(way, w->cpu + a * (int)t->n_cpus + b, share);
}

static enum way_type type_of(enum capo_path path)
{
        switch (path) {
        case CAPO_PATH_PIX: return WAY_PIX;
        case CAPO_PATH_PXB: return WAY_PXB;
        case CAPO_PATH_PHB: return WAY_PHB;
        case CAPO_PATH_NODE:
        case CAPO_PATH_SYS: return WAY_SYS;
        default: return WAY_NONE;
        }
}

static enum way_type to_nic(const struct ways *w, int gpu, int nic)
{
        const struct capo_topology *t = w->t;

        return t->nic_path
                       ? type_of((enum capo_path)t->nic_path[(size_t)gpu * t->n_nics + (size_t)nic])
                       : WAY_NONE;
}

/* NVLink rate between two GPUs, direct or through a switch; 0: none. */
static double nvlink_rate(const struct ways *w, int a, int b)
{
        double straight = w->cap[a * (int)w->t->n_gpus + b];

        return straight > 0 ? straight : fmin(w->cap[w->port + 2 * a], w->cap[w->port + 2 * b + 1]);
}

static struct way by_wire(const struct ways *w, int a, int b)
{
        struct way way = {.type = WAY_NVL};

        if (w->cap[a * (int)w->t->n_gpus + b] > 0) {
                add_link_share(&way, a * (int)w->t->n_gpus + b, 1);
        } else {
                add_link_share(&way, w->port + 2 * a, 1);
                add_link_share(&way, w->port + 2 * b + 1, 1);
        }
        return way;
}

/* The GPU with the best links to both, the lowest of equals, as in NCCL; -1: none. */
static int find_relay(const struct ways *w, const int *gpus, int n, int a, int b)
{
        double most = 0;
        int by = -1;

        for (int i = 0; i < n; i++) {
                int c = gpus[i];
                double least =
                        c == a || c == b ? 0 : fmin(nvlink_rate(w, a, c), nvlink_rate(w, c, b));

                if (least > most || (least > 0 && least == most && c < by)) {
                        most = least;
                        by = c;
                }
        }
        return by;
}

struct way way_between(const struct ways *w, const int *gpus, int n, int a, int b)
{
        const struct capo_topology *t = w->t;
        struct way way = {.type = WAY_LOC};
        int by;

        if (a == b)
                return way;
        if (nvlink_rate(w, a, b) > 0)
                return by_wire(w, a, b);
        by = find_relay(w, gpus, n, a, b);
        if (by >= 0) {
                struct way on = by_wire(w, by, b);

                way = by_wire(w, a, by);
                append_way(&way, &on);
                way.type = WAY_NVB;
                return way;
        }
        way.type = t->gpu_path
                           ? type_of((enum capo_path)t->gpu_path[(size_t)a * t->n_gpus + (size_t)b])
                           : WAY_NONE;
        by_pci(w, t->gpus[a].pci, t->gpus[b].pci, 1, &way);
        return way;
}

struct way way_in(const struct ways *w, int nic, int gpu)
{
        const struct capo_topology_gpu *g = &w->t->gpus[gpu];
        struct way way = {.type = to_nic(w, gpu, nic)};

        add_link_share(&way, w->nic + 2 * nic + 1, 1);
        by_pci(w, w->t->nics[nic].pci, g->pci, 1, &way);
        if (g->sm > 0 && g->sm < 80 && g->pci >= 0)
                add_link_share(&way, w->pci + 2 * g->pci, 1.0 / 8);
        return way;
}

static struct way straight_out(const struct ways *w, int gpu, int nic)
{
        const struct capo_topology *t = w->t;
        struct way way = {.type = to_nic(w, gpu, nic)};
        bool intel =
                t->gpus[gpu].cpu >= 0 && !strcmp(t->cpus[t->gpus[gpu].cpu].vendor, "GenuineIntel");

        by_pci(w, t->gpus[gpu].pci, t->nics[nic].pci, way.type == WAY_PHB && intel ? 6.0 / 5 : 1,
               &way);
        add_link_share(&way, w->nic + 2 * nic, 1);
        return way;
}

/* The lowest GPU beside a NIC, through which the others send (PXN); -1: none. */
static int gpu_near_nic(const struct ways *w, const int *gpus, int n, int nic)
{
        int least = -1;

        for (int i = 0; i < n; i++) {
                if (to_nic(w, gpus[i], nic) <= WAY_PXB && (least < 0 || gpus[i] < least))
                        least = gpus[i];
        }
        return least;
}

struct way way_out(const struct ways *w, const int *gpus, int n, int gpu, int nic)
{
        int by = gpu_near_nic(w, gpus, n, nic);
        struct way way, on;

        if (to_nic(w, gpu, nic) <= WAY_PXB || by < 0 || !(nvlink_rate(w, gpu, by) > 0))
                return straight_out(w, gpu, nic);
        way = by_wire(w, gpu, by);
        on = straight_out(w, by, nic);
        append_way(&way, &on);
        if (way.type != WAY_NONE)
                way.type = WAY_PXN;
        return way;
}
