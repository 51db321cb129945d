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
        w->load = xcalloc((size_t)w->n_links + 1, sizeof *w->load);
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

static bool is_above(const struct capo_topology *t, int pci, int maybe)
{
        for (; pci >= 0; pci = t->pcis[pci].parent) {
                if (pci == maybe)
                        return true;
        }
        return false;
}

/* The PCI path of kind @path between two functions: up to the common bridge, or to the CPU, and
 * down. */
static void load_pci(struct ways *w, enum capo_path path, int from, int to, double rate)
{
        const struct capo_topology *t = w->t;
        int a, b;

        if (from < 0 || to < 0 || path < CAPO_PATH_PIX || path > CAPO_PATH_SYS) {
                w->lost = true;
                return;
        }
        for (int p = from; p >= 0 && !is_above(t, to, p); p = t->pcis[p].parent)
                w->load[w->pci + 2 * p] += rate;
        for (int p = to; p >= 0 && !is_above(t, from, p); p = t->pcis[p].parent)
                w->load[w->pci + 2 * p + 1] += rate;
        a = t->pcis[from].cpu;
        b = t->pcis[to].cpu;
        if (a != b && a >= 0 && b >= 0)
                w->load[w->cpu + a * (int)t->n_cpus + b] += rate;
}

static enum capo_path to_nic(const struct ways *w, int gpu, int nic)
{
        const struct capo_topology *t = w->t;

        return t->nic_path ? t->nic_path[(size_t)gpu * t->n_nics + (size_t)nic] : CAPO_PATH_UNKNOWN;
}

static bool is_beside(const struct ways *w, int gpu, int nic)
{
        enum capo_path path = to_nic(w, gpu, nic);

        return path == CAPO_PATH_PIX || path == CAPO_PATH_PXB;
}

/* NVLink rate between two GPUs, direct or through a switch; 0: none. */
static double nvlink_rate(const struct ways *w, int a, int b)
{
        double straight = w->cap[a * (int)w->t->n_gpus + b];

        return straight > 0 ? straight : fmin(w->cap[w->port + 2 * a], w->cap[w->port + 2 * b + 1]);
}

static void load_nvlink(struct ways *w, int a, int b, double rate)
{
        int straight = a * (int)w->t->n_gpus + b;

        if (w->cap[straight] > 0) {
                w->load[straight] += rate;
                return;
        }
        w->load[w->port + 2 * a] += rate;
        w->load[w->port + 2 * b + 1] += rate;
}

void ways_load_between(struct ways *w, const int *gpus, int n, int a, int b, double rate)
{
        const struct capo_topology *t = w->t;
        double most = 0;
        int by = -1; /* the GPU with the best links to both, the lowest of equals, as in NCCL */

        if (a == b)
                return;
        if (nvlink_rate(w, a, b) > 0) {
                load_nvlink(w, a, b, rate);
                return;
        }
        for (int i = 0; i < n; i++) {
                int c = gpus[i];
                double least =
                        c == a || c == b ? 0 : fmin(nvlink_rate(w, a, c), nvlink_rate(w, c, b));

                if (least > most || (least > 0 && least == most && c < by)) {
                        most = least;
                        by = c;
                }
        }
        if (by >= 0) {
                load_nvlink(w, a, by, rate);
                load_nvlink(w, by, b, rate);
                return;
        }
        load_pci(w,
                 t->gpu_path ? t->gpu_path[(size_t)a * t->n_gpus + (size_t)b] : CAPO_PATH_UNKNOWN,
                 t->gpus[a].pci, t->gpus[b].pci, rate);
}

void ways_load_in(struct ways *w, int nic, int gpu, double rate)
{
        const struct capo_topology_gpu *g = &w->t->gpus[gpu];

        w->load[w->nic + 2 * nic + 1] += rate;
        load_pci(w, to_nic(w, gpu, nic), w->t->nics[nic].pci, g->pci, rate);
        if (g->sm > 0 && g->sm < 80 && g->pci >= 0)
                w->load[w->pci + 2 * g->pci] += rate * (1.0 / 8);
}

void ways_load_out(struct ways *w, const int *gpus, int n, int gpu, int nic, double rate)
{
        const struct capo_topology *t = w->t;
        int by = -1, cpu; /* the lowest GPU beside the NIC, through which the others send (PXN) */
        enum capo_path path;
        bool intel;

        for (int i = 0; i < n; i++) {
                if (is_beside(w, gpus[i], nic) && (by < 0 || gpus[i] < by))
                        by = gpus[i];
        }
        if (!is_beside(w, gpu, nic) && by >= 0 && nvlink_rate(w, gpu, by) > 0) {
                load_nvlink(w, gpu, by, rate);
                gpu = by;
        }
        cpu = t->gpus[gpu].cpu;
        intel = cpu >= 0 && !strcmp(t->cpus[cpu].vendor, "GenuineIntel");
        path = to_nic(w, gpu, nic);
        load_pci(w, path, t->gpus[gpu].pci, t->nics[nic].pci,
                 path == CAPO_PATH_PHB && intel ? rate * (6.0 / 5) : rate);
        w->load[w->nic + 2 * nic] += rate;
}
