/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine's links are counters, one per direction. Every channel is walked once and adds its share to each link it
 * crosses; the fullest link says how often the whole fits. rails.c lays new channels by the same account of one
 * machine; a test holds the two against each other. Shares are equal: NCCL cuts data evenly over channels, so a channel
 * over a crowded NIC holds up the others.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util.h"
#include "profiles/fragment/loads.h"
#include "profiles/fragment/net.h"

struct machine {
        const struct capo_topology *t;
        int n;              /* GPUs */
        double *load, *cap; /* one entry per link and direction, in the order of these: */
        int wire, port, pci, cpu, nic, n_links;
        bool lost; /* a path could not be followed */
};

static int machine_new(const struct capo_topology *t, struct machine *m)
{
        int n = (int)t->n_gpus, cpus = (int)t->n_cpus;

        *m = (struct machine){.t = t, .n = n, .wire = 0, .port = n * n};
        m->pci = m->port + 2 * n;
        m->cpu = m->pci + 2 * (int)t->n_pcis;
        m->nic = m->cpu + cpus * cpus;
        m->n_links = m->nic + 2 * (int)t->n_nics;
        m->load = calloc((size_t)m->n_links + 1, sizeof *m->load);
        m->cap = calloc((size_t)m->n_links + 1, sizeof *m->cap);
        if (!m->load || !m->cap)
                return -ENOMEM;
        for (size_t i = 0; i < t->n_links; i++) {
                const struct capo_topology_link *l = &t->links[i];

                if (l->end == CAPO_END_GPU) {
                        m->cap[l->from * n + l->to] += l->gbs;
                        m->cap[l->to * n + l->from] += l->gbs;
                } else if (l->end == CAPO_END_SWITCH) {
                        m->cap[m->port + 2 * l->from] += l->gbs;
                        m->cap[m->port + 2 * l->from + 1] += l->gbs;
                }
        }
        for (size_t i = 0; i < t->n_pcis; i++)
                m->cap[m->pci + 2 * (int)i] = m->cap[m->pci + 2 * (int)i + 1] = t->pcis[i].gbs;
        for (int a = 0; a < cpus; a++) {
                for (int b = 0; b < cpus; b++)
                        m->cap[m->cpu + a * cpus + b] = fragment_cpu_link_gbs(&t->cpus[a]);
        }
        for (size_t i = 0; i < t->n_nics; i++)
                m->cap[m->nic + 2 * (int)i] = m->cap[m->nic + 2 * (int)i + 1] = t->nics[i].gbs;
        return 0;
}

static void machine_free(struct machine *m)
{
        free(m->load);
        free(m->cap);
}

/* ---- paths ---- */

static int root_of(const struct capo_topology *t, int pci)
{
        while (t->pcis[pci].parent >= 0)
                pci = t->pcis[pci].parent;
        return pci;
}

static bool above(const struct capo_topology *t, int pci, int maybe)
{
        for (; pci >= 0; pci = t->pcis[pci].parent) {
                if (pci == maybe)
                        return true;
        }
        return false;
}

static void over_pci(struct machine *m, int from, int to, double x)
{
        const struct capo_topology *t = m->t;
        int a, b;

        if (from < 0 || to < 0) {
                m->lost = true;
                return;
        }
        for (int p = from; p >= 0 && !above(t, to, p); p = t->pcis[p].parent)
                m->load[m->pci + 2 * p] += x;
        for (int p = to; p >= 0 && !above(t, from, p); p = t->pcis[p].parent)
                m->load[m->pci + 2 * p + 1] += x;
        a = t->pcis[root_of(t, from)].cpu;
        b = t->pcis[root_of(t, to)].cpu;
        if (a != b && a >= 0 && b >= 0)
                m->load[m->cpu + a * (int)t->n_cpus + b] += x;
}

/* NVLink between two GPUs, straight or by a switch; 0: none. */
static double wire(const struct machine *m, int a, int b)
{
        double straight = m->cap[a * m->n + b];

        return straight > 0 ? straight : fmin(m->cap[m->port + 2 * a], m->cap[m->port + 2 * b + 1]);
}

static void over_wire(struct machine *m, int a, int b, double x)
{
        if (m->cap[a * m->n + b] > 0) {
                m->load[a * m->n + b] += x;
        } else {
                m->load[m->port + 2 * a] += x;
                m->load[m->port + 2 * b + 1] += x;
        }
}

static void gpu_to_gpu(struct machine *m, const struct fragment_domain *d, int a, int b, double x)
{
        int relay = -1;

        if (wire(m, a, b) > 0) {
                over_wire(m, a, b, x);
                return;
        }
        for (int i = 0; i < d->n_gpus; i++) {
                int c = d->gpus[i];

                if (c != a && c != b && wire(m, a, c) > 0 && wire(m, c, b) > 0 &&
                    (relay < 0 || fmin(wire(m, a, c), wire(m, c, b)) > fmin(wire(m, a, relay), wire(m, relay, b))))
                        relay = c;
        }
        if (relay >= 0) {
                over_wire(m, a, relay, x);
                over_wire(m, relay, b, x);
        } else {
                over_pci(m, m->t->gpus[a].pci, m->t->gpus[b].pci, x);
        }
}

static enum capo_path distance(const struct machine *m, int gpu, int nic)
{
        return m->t->nic_path ? (enum capo_path)m->t->nic_path[gpu * (int)m->t->n_nics + nic] : CAPO_PATH_UNKNOWN;
}

/* The GPU beside a NIC that the others send through: the lowest. */
static int beside(const struct machine *m, const struct fragment_domain *d, int nic)
{
        int least = -1;

        for (int i = 0; i < d->n_gpus; i++) {
                if (distance(m, d->gpus[i], nic) <= CAPO_PATH_PXB && (least < 0 || d->gpus[i] < least))
                        least = d->gpus[i];
        }
        return least;
}

/* Two losses that NCCL's search reckons with: a GPU that goes through an Intel CPU takes a fifth more of PCIe, a NIC
 * that writes into a GPU before Ampere takes an eighth of the way back (src/graph/search.cc, followPath). */
static void gpu_to_nic(struct machine *m, const struct fragment_domain *d, int gpu, int nic, double x)
{
        const struct capo_topology *t = m->t;
        int by = beside(m, d, nic);
        double lost = 1;

        if (distance(m, gpu, nic) <= CAPO_PATH_PXB || by < 0 || !(wire(m, gpu, by) > 0))
                by = gpu;
        if (by != gpu)
                over_wire(m, gpu, by, x);
        if (distance(m, by, nic) == CAPO_PATH_PHB && t->gpus[by].cpu >= 0 &&
            !strcmp(t->cpus[t->gpus[by].cpu].vendor, "GenuineIntel"))
                lost = 6.0 / 5;
        over_pci(m, t->gpus[by].pci, t->nics[nic].pci, x * lost);
        m->load[m->nic + 2 * nic] += x;
}

static void nic_to_gpu(struct machine *m, int nic, int gpu, double x)
{
        const struct capo_topology_gpu *g = &m->t->gpus[gpu];

        m->load[m->nic + 2 * nic + 1] += x;
        over_pci(m, m->t->nics[nic].pci, g->pci, x);
        if (g->sm > 0 && g->sm < 80 && g->pci >= 0)
                m->load[m->pci + 2 * g->pci] += x / 8;
}

/* ---- channels ---- */

struct channel {
        int gpus[CAPO_PLAN_GPUS_MAX], n;
        int nic[2]; /* where it enters and leaves; -1 it does not leave the node */
};

/* "net0 0 2 1 net0" */
static int channel_read(const struct capo_topology *t, const char *text, struct channel *c)
{
        *c = (struct channel){.nic = {-1, -1}};
        while (*text) {
                bool net = !strncmp(text, "net", 3);
                char *end;
                int dev = (int)strtol(text + (net ? 3 : 0), &end, 10), at = -1;

                if (end == text || (net && end == text + 3))
                        return -EINVAL;
                text = end + strspn(end, " ");
                if (net) {
                        at = dev < (int)t->n_nics ? dev : -1; /* capo plan numbers them as the file lists them */
                        c->nic[c->n > 0] = at;
                } else {
                        at = capo_topology_gpu_by_dev(t, dev);
                        if (c->n == CAPO_PLAN_GPUS_MAX)
                                return -EINVAL;
                        c->gpus[c->n++] = at;
                }
                if (at < 0)
                        return -EINVAL;
        }
        if (c->nic[1] < 0)
                c->nic[1] = c->nic[0];
        return c->n ? 0 : -EINVAL;
}

static int ring_channel(struct machine *m, const struct fragment_domain *d, const struct channel *c, bool alone,
                        double x)
{
        for (int i = 0; i + 1 < c->n; i++)
                gpu_to_gpu(m, d, c->gpus[i], c->gpus[i + 1], x);
        if (alone) {
                if (c->n > 1)
                        gpu_to_gpu(m, d, c->gpus[c->n - 1], c->gpus[0], x);
                return 0;
        }
        if (c->nic[0] < 0)
                return -EINVAL;
        nic_to_gpu(m, c->nic[0], c->gpus[0], x);
        gpu_to_nic(m, d, c->gpus[c->n - 1], c->nic[1], x);
        return 0;
}

/* Neighbours of node @r of @n in one of the two trees: does it have a parent, a first and a second child? A binary tree
 * over the numbers: who ends in k zero bits is 2^(k-1) from its children; number 0 is above all. The other tree is the
 * mirror image, or with an odd number of nodes the same shifted by one (src/graph/trees.cc). */
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

/* The GPU of a chain that talks to the parent is its first; who talks to the children the pattern says: all the first
 * (tree), all the second (split tree), the first child the second and the other the first (balanced). */
static int tree_channel(struct machine *m, const struct fragment_domain *d, const struct channel *c, int node,
                        int n_nodes, double x)
{
        int second = c->n > 1, child_at[2] = {d->tree->pattern == 3 ? 0 : second, d->tree->pattern == 2 ? second : 0};

        for (int i = 0; i + 1 < c->n; i++) {
                gpu_to_gpu(m, d, c->gpus[i], c->gpus[i + 1], x);
                gpu_to_gpu(m, d, c->gpus[i + 1], c->gpus[i], x);
        }
        if (n_nodes == 1)
                return 0;
        if (c->nic[0] < 0)
                return -EINVAL;
        for (int copy = 0; copy < 2; copy++) { /* half of the channels follow each of the two trees */
                struct place p = place_in_tree(node, n_nodes, copy);

                for (int k = 0; k < 3; k++) {
                        int at = k < 2 ? child_at[k] : 0;

                        if (k < 2 ? !p.child[k] : !p.parent)
                                continue;
                        gpu_to_nic(m, d, c->gpus[at], c->nic[at > 0], x / 2);
                        nic_to_gpu(m, c->nic[at > 0], c->gpus[at], x / 2);
                }
        }
        return 0;
}

/* ---- the fullest link ---- */

static void link_name(const struct machine *m, int i, char *text, size_t room)
{
        const struct capo_topology *t = m->t;
        int k;

        if (i < m->port)
                snprintf(text, room, "NVLink GPU %d to GPU %d", t->gpus[i / m->n].dev, t->gpus[i % m->n].dev);
        else if (i < m->pci)
                snprintf(text, room, "NVLink of GPU %d", t->gpus[(i - m->port) / 2].dev);
        else if (i < m->cpu) {
                k = (i - m->pci) / 2;
                snprintf(text, room, "PCIe of %s", t->pcis[k].busid);
                for (size_t g = 0; g < t->n_gpus; g++) {
                        if (t->gpus[g].pci == k)
                                snprintf(text, room, "PCIe of GPU %d", t->gpus[g].dev);
                }
                for (size_t n = 0; n < t->n_nics; n++) {
                        if (t->nics[n].pci == k)
                                snprintf(text, room, "PCIe of NIC %s", t->nics[n].name);
                }
        } else if (i < m->nic)
                snprintf(text, room, "the link between CPUs");
        else
                snprintf(text, room, "NIC %s", t->nics[(i - m->nic) / 2].name);
}

static void fullest(const struct machine *m, double *rate, char *text, size_t room)
{
        for (int i = 0; i < m->n_links; i++) {
                if (m->load[i] > 0 && m->cap[i] > 0 && m->cap[i] / m->load[i] < *rate * (1 - 1e-9)) {
                        *rate = m->cap[i] / m->load[i];
                        link_name(m, i, text, room);
                }
        }
}

static int shape(const struct capo_topology *t, const struct fragment_domain *domains, int n_domains, int n_channels,
                 bool tree, double *rate, char *text, size_t room)
{
        struct machine m;
        int r = machine_new(t, &m);

        *rate = INFINITY;
        for (int i = 0; i < n_domains && r == 0; i++) {
                const struct fragment_domain *d = &domains[i];
                const struct capo_plan_graph *g = tree ? d->tree : d->ring;

                for (int c = 0; c < n_channels && r == 0; c++) {
                        struct channel channel;

                        r = g && g->n_paths ? channel_read(t, g->paths[(size_t)c % g->n_paths], &channel) : -EINVAL;
                        if (r == 0)
                                r = tree ? tree_channel(&m, d, &channel, i, n_domains, 1.0 / n_channels)
                                         : ring_channel(&m, d, &channel, n_domains == 1, 1.0 / n_channels);
                }
                if (i + 1 == n_domains || domains[i + 1].machine != d->machine) {
                        fullest(&m, rate, text, room);
                        memset(m.load, 0, sizeof *m.load * (size_t)m.n_links);
                }
        }
        if (m.lost)
                r = -EINVAL;
        machine_free(&m);
        return r < 0 ? r : isinf(*rate) ? -EINVAL : 0;
}

int fragment_loads(const struct capo_topology *t, const struct fragment_domain *domains, int n_domains, int n_channels,
                   struct fragment_attained *out)
{
        int r;

        memset(out, 0, sizeof *out);
        if (n_channels < 1 || n_domains < 1)
                return -EINVAL;
        r = shape(t, domains, n_domains, n_channels, false, &out->ring_gbs, out->ring_full, sizeof out->ring_full);
        if (r == 0)
                r = shape(t, domains, n_domains, n_channels, true, &out->tree_gbs, out->tree_full,
                          sizeof out->tree_full);
        out->tree_gbs *= 2; /* what NCCL calls bus bandwidth of Tree is twice what all-reduce gets */
        return r;
}
