/* SPDX-License-Identifier: Apache-2.0 */
/* The last part of every reader. A reader adds devices and, for each GPU, its links; here the two
 * ends of each link are matched. If the ends do not agree, the description was edited or cut, and
 * everything computed from it would be silently wrong. So that is an error. */
#include "core/base/among.h"
#include "core/base/xalloc.h"
#include "profiles/machine/platform.h"
#include "profiles/machine/topology_build.h"

void topology_build_begin(struct topology_build *b, const char *name, unsigned flags,
                          double brick_gbs, char *why, size_t room)
{
        *b = (struct topology_build){
                .flags = flags, .brick_gbs = brick_gbs, .why = why, .room = room};
        b->t = xcalloc(1, sizeof *b->t);
        b->t->name = xstrdup(strcmp(name, "-") ? name : "standard input");
}

void *topology_grow(void *array, size_t *n, size_t size)
{
        xarray_room(array, *n, size);
        return memset(*(char **)array + (*n)++ * size, 0, size);
}

struct capo_topology_gpu *topology_add_gpu(struct topology_build *b)
{
        struct capo_topology_gpu *gpu = TOPOLOGY_GROW(b->t->gpus, b->t->n_gpus);

        gpu->rank = gpu->cpu = gpu->pci = gpu->dev = -1;
        return gpu;
}

struct capo_topology_nic *topology_add_nic(struct topology_build *b)
{
        struct capo_topology_nic *nic = TOPOLOGY_GROW(b->t->nics, b->t->n_nics);

        nic->cpu = nic->pci = nic->dev = -1;
        return nic;
}

int topology_add_switch(struct topology_build *b, const char *busid)
{
        struct capo_topology_switch *s;

        s = FIRST_OF(it, b->t->switches, b->t->n_switches, !strcmp(it->busid, busid));
        if (s)
                return (int)(s - b->t->switches);
        s = TOPOLOGY_GROW(b->t->switches, b->t->n_switches);
        snprintf(s->busid, sizeof s->busid, "%s", busid);
        return (int)b->t->n_switches - 1;
}

static int line_of(const struct capo_xml *e) { return e ? e->line : 0; }

/* Machines of one rack may repeat bus ids: a device is identified by host and bus id. */
static const char *host_of(const struct capo_topology *t, int cpu)
{
        return cpu >= 0 ? t->cpus[cpu].host_hash : "";
}

static int check_devices(struct topology_build *b)
{
        struct capo_topology *t = b->t;

        if (!t->n_gpus)
                return topology_fail(
                        b, 0,
                        "expected a GPU (a <gpu>, or a <pci> of class 0x03), found none among %zu PCI "
                        "devices; --platform NAME describes a machine that is not here",
                        t->n_pcis);
        for (size_t i = 0; i < t->n_pcis; i++) {
                for (size_t j = 0; j < i; j++) {
                        if (!strcmp(t->pcis[i].busid, t->pcis[j].busid) &&
                            !strcmp(host_of(t, t->pcis[i].cpu), host_of(t, t->pcis[j].cpu)))
                                return topology_fail(
                                        b, line_of(t->pcis[i].xml),
                                        "expected a bus id of its own, found %s a second time (first in "
                                        "line %d)",
                                        t->pcis[i].busid, line_of(t->pcis[j].xml));
                }
        }
        for (size_t i = 0; i < t->n_gpus; i++) {
                for (size_t j = 0; j < i; j++) {
                        if (strcmp(host_of(t, t->gpus[i].cpu), host_of(t, t->gpus[j].cpu)) != 0)
                                continue;
                        if (t->gpus[i].dev == t->gpus[j].dev)
                                return topology_fail(
                                        b, line_of(t->gpus[i].xml),
                                        "expected a device number of its own, found dev %d a second time "
                                        "(%s and %s)",
                                        t->gpus[i].dev, t->gpus[j].busid, t->gpus[i].busid);
                        if (*t->gpus[i].busid && !strcmp(t->gpus[i].busid, t->gpus[j].busid))
                                return topology_fail(b, line_of(t->gpus[i].xml),
                                                     "expected one GPU per bus id, found %s twice",
                                                     t->gpus[i].busid);
                }
        }
        return 0;
}

/* GPUs without a number (files that leave <gpu> to NCCL) are numbered in bus order, as in CUDA and
 * nvidia-smi. */
static void number_gpus(struct capo_topology *t)
{
        for (size_t i = 0; i < t->n_gpus; i++) {
                int before = 0;

                if (t->gpus[i].dev >= 0)
                        return;
                for (size_t j = 0; j < t->n_gpus; j++)
                        before += strcmp(t->gpus[j].busid, t->gpus[i].busid) < 0;
                t->gpus[i].dev = -2 - before;
        }
        for (size_t i = 0; i < t->n_gpus; i++)
                t->gpus[i].dev = -2 - t->gpus[i].dev;
}

static int by_host_and_dev(const void *a, const void *b, void *t)
{
        const struct capo_topology_gpu *x = a, *y = b;
        int host = strcmp(host_of(t, x->cpu), host_of(t, y->cpu));

        return host ? host : x->dev - y->dev;
}

/* The halves' GPUs are found again by their place before. */
static void sort_gpus(struct topology_build *b)
{
        struct capo_topology *t = b->t;
        _cleanup_free_ int *place = xcalloc(t->n_gpus, sizeof *place);

        for (size_t i = 0; i < t->n_gpus; i++)
                t->gpus[i].before = (int)i;
        qsort_r(t->gpus, t->n_gpus, sizeof *t->gpus, by_host_and_dev, t);
        for (size_t i = 0; i < t->n_gpus; i++)
                place[t->gpus[i].before] = (int)i;
        for (size_t i = 0; i < b->n_halves; i++)
                b->halves[i].from = place[b->halves[i].from];
}

static void add_link(struct topology_build *b, const struct half_link *h, enum capo_link_end end,
                     int from, int to)
{
        struct capo_topology *t = b->t;
        struct capo_topology_link *l =
                FIRST_OF(it, t->links, t->n_links,
                         it->kind == h->kind && it->end == end && it->from == from && it->to == to);

        if (!l) {
                l = TOPOLOGY_GROW(t->links, t->n_links);
                *l = (struct capo_topology_link){
                        .kind = h->kind, .end = end, .from = from, .to = to};
        }
        l->count += h->count;
        l->gbs += h->gbs > 0 ? h->gbs : h->count * t->brick_gbs;
}

static int count_halves(const struct topology_build *b, enum capo_wire kind, int from,
                        const char *to)
{
        int count = 0;

        for (const struct half_link *h = b->halves; h < PAST_OF(b->halves, b->n_halves); h++)
                count += h->kind == kind && h->from == from && !strcmp(h->to, to) ? h->count : 0;
        return count;
}

static int join_gpus(struct topology_build *b, const struct half_link *h, int to)
{
        struct capo_topology *t = b->t;
        const struct capo_topology_gpu *from = &t->gpus[h->from], *other = &t->gpus[to];
        int back = count_halves(b, h->kind, to, from->busid),
            there = count_halves(b, h->kind, h->from, other->busid);

        if (to == h->from)
                return topology_fail(
                        b, h->line, "expected a link to another GPU, found GPU %s linked to itself",
                        h->to);
        if (b->flags & CAPO_TOPOLOGY_PARTIAL && !other->sm && !other->gcn &&
            !ANY_OF(own, b->halves, b->n_halves, own->from == to)) {
                t->hidden += h->count; /* nothing was asked about that GPU */
                return 0;
        }
        if (!back)
                return topology_fail(
                        b, h->line,
                        "expected a link back from %s (GPU %d) to %s (GPU %d), found none: links are "
                        "two-way",
                        other->busid, other->dev, from->busid, from->dev);
        if (back != there)
                return topology_fail(
                        b, h->line,
                        "expected the same number of links both ways, found %d from %s to %s and %d back",
                        there, from->busid, other->busid, back);
        if (h->from < to)
                add_link(b, h, CAPO_END_GPU, h->from, to);
        return 0;
}

/* tclass tells the target of a link: src/graph/topo.cc of NCCL, kvDictPciClass (0x03 GPU, 0x068000
 * NVSwitch, 0x068001 or 0x06... CPU bridge). */
static int join_half(struct topology_build *b, const struct half_link *h)
{
        struct capo_topology *t = b->t;
        const char *host = host_of(t, t->gpus[h->from].cpu);

        const struct capo_topology_gpu *gpu =
                FIRST_OF(g, t->gpus, t->n_gpus,
                         !strcmp(g->busid, h->to) && !strcmp(host_of(t, g->cpu), host));

        if (gpu)
                return join_gpus(b, h, (int)(gpu - t->gpus));
        if (!strncmp(h->class_text, "0x068000", 8))
                add_link(b, h, CAPO_END_SWITCH, h->from, topology_add_switch(b, h->to));
        else if (!strncmp(h->class_text, "0x06", 4) || h->kind == CAPO_WIRE_C2C) {
                if (t->gpus[h->from].cpu >= 0)
                        add_link(b, h, CAPO_END_CPU, h->from, t->gpus[h->from].cpu);
        } else if (b->flags & CAPO_TOPOLOGY_PARTIAL)
                t->hidden += h->count;
        else
                return topology_fail(
                        b, h->line,
                        "expected a link to a GPU of this file, found target %s, which is not here (a dump made "
                        "where GPUs were hidden has such links; partial reading drops them)",
                        h->to);
        return 0;
}

static int join_links(struct topology_build *b)
{
        struct capo_topology *t = b->t;
        enum capo_wire kind = CAPO_WIRE_NVLINK;
        const struct capo_wire_kind *wire;
        const struct capo_topology_gpu *known =
                FIRST_OF(g, t->gpus, t->n_gpus, g->sm || g->gcn) ?: t->gpus;

        for (size_t i = 0; i < b->n_halves; i++) {
                if (b->halves[i].kind != CAPO_WIRE_C2C)
                        kind = b->halves[i].kind;
        }
        wire = capo_wire_kind(kind, known->sm, known->gcn);
        if (wire) {
                t->brick_gbs = wire->gbs;
                t->brick_source = wire->source;
        }
        if (b->brick_gbs > 0) {
                t->brick_gbs = b->brick_gbs;
                t->brick_source = "given";
        }
        if (t->brick_gbs <= 0 && b->n_halves && kind == CAPO_WIRE_NVLINK) {
                t->brick_gbs = 20.0;
                t->brick_source = "assumed: the GPU generation is not in the file";
        }
        for (size_t i = 0; i < b->n_halves; i++) {
                int r = join_half(b, &b->halves[i]);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- distances --- */

/* The path goes up to the first common bridge and down again. Names are nvidia-smi's: PIX crosses
 * at most one bridge, PXB several but no CPU, PHB the CPU's host bridge, SYS the link between CPUs.
 * (NODE, two host bridges of one NUMA node, looks like PHB in NCCL's files and is not used there.)
 */
static enum capo_path pci_path(const struct capo_topology *t, int a_pci, int a_cpu, int b_pci,
                               int b_cpu)
{
        for (int a = a_pci, i = 0; a >= 0 && i < 64; a = t->pcis[a].parent, i++) {
                for (int b = b_pci, j = 0; b >= 0 && j < 64; b = t->pcis[b].parent, j++) {
                        if (a == b)
                                return i + j <= 2 ? CAPO_PATH_PIX : CAPO_PATH_PXB;
                }
        }
        return a_cpu < 0 || b_cpu < 0 ? CAPO_PATH_UNKNOWN
               : a_cpu == b_cpu       ? CAPO_PATH_PHB
                                      : CAPO_PATH_SYS;
}

static void measure_paths(struct capo_topology *t)
{
        size_t n = t->n_gpus;

        if (t->gpu_path) /* nvidia-smi text has its own */
                return;
        t->gpu_path = xmalloc(n * n + 1);
        t->nic_path = xmalloc(n * t->n_nics + 1);
        for (size_t i = 0; i < n; i++) {
                const struct capo_topology_gpu *g = &t->gpus[i];

                for (size_t j = 0; j < n; j++) {
                        const struct capo_topology_gpu *h = &t->gpus[j];

                        t->gpu_path[i * n + j] =
                                i == j ? CAPO_PATH_SELF
                                       : pci_path(t, g->pci, g->cpu, h->pci, h->cpu);
                }
                for (size_t j = 0; j < t->n_nics; j++) {
                        const struct capo_topology_nic *h = &t->nics[j];

                        t->nic_path[i * t->n_nics + j] =
                                pci_path(t, g->pci, g->cpu, h->pci, h->cpu);
                }
        }
}

int topology_build_end(struct topology_build *b, int r, struct capo_topology **out)
{
        struct capo_topology *t = b->t;

        if (!r) {
                number_gpus(t);
                r = check_devices(b);
        }
        if (!r) {
                sort_gpus(b);
                r = join_links(b);
        }
        if (!r) {
                measure_paths(t);
                t->links_unknown =
                        !t->n_links && !ANY_OF(g, t->gpus, t->n_gpus, !g->xml || g->sm || g->gcn);
                t->platform = xstrdup(capo_platform_recognise(t));
                *out = t;
        } else {
                capo_topology_free(t);
        }
        free(b->halves);
        return r;
}
