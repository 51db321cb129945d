/* SPDX-License-Identifier: Apache-2.0 */
/* Each link of a machine has one counter per direction. Every channel is walked once and adds its
 * share to each link it crosses; the fullest link limits the rate. Shares are equal, because NCCL
 * divides data evenly over channels: a channel over a busy NIC delays the others. */
#include <math.h>

#include "core/base/xalloc.h"
#include "profiles/fragment/flow_net.h"
#include "profiles/fragment/link_loads.h"
#include "profiles/machine/topology.h"

/* Paths are NCCL's, which cannot be configured
 * (nccl src/graph/paths.cc). Between GPUs: NVLink, direct, through a switch or through one other
 * GPU; PCI only without NVLink. From a NIC to a GPU: PCI. From a GPU to a NIC: PCI below one
 * bridge, else NVLink to the GPU beside the NIC (PXN), else PCI through the CPU. Two losses are as
 * in NCCL's search (search.cc, followPath): a NIC that writes into a GPU before Ampere uses an
 * eighth of the way back, and a GPU that goes through an Intel CPU uses a fifth more of PCI. */

struct ways {
        const struct capo_topology *t; /* borrowed */
        double *cap, *load;            /* by link: GB/s, 0: no such link; what paths added */
        int port, pci, cpu, nic, n_links;
        bool lost; /* there was no path */
};

/* ---- links ---- */

/* Order of numbers: NVLinks by pair of GPUs, ports to a switch, PCI devices (up, down), pairs of
 * CPUs, NICs (out, in). */
static void ways_new(const struct capo_topology *t, struct ways *w)
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

/* "NVLink GPU 0 to GPU 3", "PCIe of GPU 2", "NIC mlx5_0". */
static void ways_link_name(const struct ways *w, int link, char *text, size_t room)
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

/* Add @rate to the links from GPU @a to GPU @b; paths go only through the @n @gpus, which take part. */
static void ways_load_between(struct ways *w, const int *gpus, int n, int a, int b, double rate)
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

static void ways_load_in(struct ways *w, int nic, int gpu, double rate)
{
        const struct capo_topology_gpu *g = &w->t->gpus[gpu];

        w->load[w->nic + 2 * nic + 1] += rate;
        load_pci(w, to_nic(w, gpu, nic), w->t->nics[nic].pci, g->pci, rate);
        if (g->sm > 0 && g->sm < 80 && g->pci >= 0)
                w->load[w->pci + 2 * g->pci] += rate * (1.0 / 8);
}

static void ways_load_out(struct ways *w, const int *gpus, int n, int gpu, int nic, double rate)
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

/* ---- channels ---- */

struct channel {
        int gpus[CAPO_NODE_GPUS_MAX], n;
        int nic[2]; /* where it enters and leaves; -1: it stays in the node */
};

/* Parse "net0 0 2 1 net0". */
static int channel_read(const struct capo_topology *t, const char *text, struct channel *c)
{
        *c = (struct channel){.nic = {-1, -1}};
        while (*text) {
                bool net = !strncmp(text, "net", 3);
                char *end;
                int dev = (int)strtol(text + (net ? 3 : 0), &end, 10), at;

                if (end == text || (net && end == text + 3))
                        return -EINVAL;
                text = end + strspn(end, " ");
                at = net ? dev : capo_topology_gpu_by_dev(t, dev);
                if (at < 0 || (net && dev >= (int)t->n_nics) ||
                    (!net && c->n == CAPO_NODE_GPUS_MAX))
                        return -EINVAL;
                if (net) /* capo plan numbers them in the order of the file */
                        c->nic[c->n > 0] = at;
                else
                        c->gpus[c->n++] = at;
        }
        if (c->nic[1] < 0)
                c->nic[1] = c->nic[0];
        return c->n ? 0 : -EINVAL;
}

static int ring_channel(struct ways *w, const struct fragment_domain *d, const struct channel *c,
                        bool alone, double x)
{
        for (int i = 0; i + 1 < c->n; i++)
                ways_load_between(w, d->gpus, d->n_gpus, c->gpus[i], c->gpus[i + 1], x);
        if (alone) {
                if (c->n > 1)
                        ways_load_between(w, d->gpus, d->n_gpus, c->gpus[c->n - 1], c->gpus[0], x);
                return 0;
        }
        if (c->nic[0] < 0)
                return -EINVAL;
        ways_load_in(w, c->nic[0], c->gpus[0], x);
        ways_load_out(w, d->gpus, d->n_gpus, c->gpus[c->n - 1], c->nic[1], x);
        return 0;
}

/* The place of a node in one of the two trees: has it a parent, a first and a second child?
 * It is a binary tree over the numbers: a number with k trailing zero bits is 2^(k-1) away from its
 * children; number 0 is the root. The other tree is the mirror image, or, with an odd number of
 * nodes, the same shifted by one (src/graph/trees.cc). */
struct place {
        bool parent, child[2];
};

static struct place place_in_tree(int r, int n, bool second)
{
        struct place p = {0};
        int bit = 1, low, down;

        if (second)
                r = n % 2 ? (r - 1 + n) % n : n - 1 - r;
        while (bit < n && !(r & bit))
                bit <<= 1;
        if (r == 0) {
                p.child[1] = n > 1;
                return p;
        }
        p.parent = true;
        low = bit >> 1;
        p.child[0] = low > 0;
        for (down = low; down > 0 && r + down >= n; down >>= 1)
                ;
        p.child[1] = down > 0;
        return p;
}

/* The first GPU of a chain talks to the parent. The pattern decides which talk to the children: the
 * first (tree), the second (split tree), or the second for the first child and the first for the
 * other (balanced). */
static int tree_channel(struct ways *w, const struct fragment_domain *d, const struct channel *c,
                        int node, int n_nodes, double x)
{
        int second = c->n > 1,
            child_at[2] = {d->tree->pattern == 3 ? 0 : second, d->tree->pattern == 2 ? second : 0};

        for (int i = 0; i + 1 < c->n; i++) {
                ways_load_between(w, d->gpus, d->n_gpus, c->gpus[i], c->gpus[i + 1], x);
                ways_load_between(w, d->gpus, d->n_gpus, c->gpus[i + 1], c->gpus[i], x);
        }
        if (n_nodes == 1)
                return 0;
        if (c->nic[0] < 0)
                return -EINVAL;
        for (int copy = 0; copy < 2; copy++) { /* half of the channels use each of the two trees */
                struct place p = place_in_tree(node, n_nodes, copy);

                for (int k = 0; k < 3; k++) {
                        int at = k < 2 ? child_at[k] : 0, nic = c->nic[at > 0];

                        if (k < 2 ? !p.child[k] : !p.parent)
                                continue;
                        ways_load_out(w, d->gpus, d->n_gpus, c->gpus[at], nic, x / 2);
                        ways_load_in(w, nic, c->gpus[at], x / 2);
                }
        }
        return 0;
}

/* ---- the fullest link ---- */

/* @full: 64 bytes for its name. */
static int shape_rate(const struct capo_topology *t, const struct fragment_domain *domains,
                      int n_domains, int n_channels, bool tree, double *rate, char *full)
{
        struct ways w;
        int r = 0;

        ways_new(t, &w);
        *rate = INFINITY;
        for (int i = 0; i < n_domains && r == 0; i++) {
                const struct fragment_domain *d = &domains[i];
                const struct capo_plan_graph *g = tree ? d->tree : d->ring;

                for (int c = 0; c < n_channels && r == 0; c++) {
                        double x = 1.0 / n_channels;
                        struct channel channel;

                        r = g && g->n_paths
                                    ? channel_read(t, g->paths[(size_t)c % g->n_paths], &channel)
                                    : -EINVAL;
                        if (r == 0)
                                r = tree ? tree_channel(&w, d, &channel, i, n_domains, x)
                                         : ring_channel(&w, d, &channel, n_domains == 1, x);
                }
                if (i + 1 < n_domains && domains[i + 1].machine == d->machine)
                        continue;
                for (int k = 0; k < w.n_links; k++) {
                        if (w.load[k] > 0 && w.cap[k] > 0 &&
                            w.cap[k] / w.load[k] < *rate * (1 - 1e-9)) {
                                *rate = w.cap[k] / w.load[k];
                                ways_link_name(&w, k, full, 64);
                        }
                        w.load[k] = 0;
                }
        }
        free(w.cap);
        free(w.load);
        return r < 0 || w.lost || isinf(*rate) ? -EINVAL : 0;
}

int fragment_loads(const struct capo_topology *t, const struct fragment_domain *domains,
                   int n_domains, int n_channels, struct fragment_attained *out)
{
        int r;

        memset(out, 0, sizeof *out);
        if (n_channels < 1 || n_domains < 1)
                return -EINVAL;
        r = shape_rate(t, domains, n_domains, n_channels, false, &out->ring_gbs, out->ring_full);
        if (r == 0)
                r = shape_rate(t, domains, n_domains, n_channels, true, &out->tree_gbs,
                               out->tree_full);
        out->tree_gbs *= 2; /* NCCL's bus bandwidth of Tree is twice the rate of all-reduce */
        return r;
}
