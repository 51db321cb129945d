/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a description without a PCI tree, such as the text of `nvidia-smi topo -m`, as NCCL's XML.
 * The words between devices tell which share a PCI switch (PIX, PXB) and which a CPU (PHB, NODE).
 * The text has no speeds: PCIe gets that of the GPU's generation, NICs that of the known machine
 * with this shape. */
#include "core/base/xalloc.h"
#include "profiles/machine/platform.h"

/* By generation, as in the first servers with such GPUs. */
static const struct {
        int sm;
        const char *speed; /* of a lane, as in sysfs */
        const char *name;
        int nic_mbs;
} generations[] = {{90, "32.0 GT/s PCIe", "PCIe 5 x16", 400000},
                   {80, "16.0 GT/s PCIe", "PCIe 4 x16", 200000},
                   {0, "8.0 GT/s PCIe", "PCIe 3 x16", 100000}};

struct writing {
        const struct capo_topology *t;
        FILE *f;
        const char *speed;
        int nic_mbs;
        int *group[2]; /* by device, GPUs first: the lowest device with the same CPU, and with the
                          same PCI switch */
};

enum { OF_CPU, OF_SWITCH };

static enum capo_path path_between(const struct capo_topology *t, size_t i, size_t j)
{
        size_t n = t->n_gpus;

        if (i < n && j < n)
                return t->gpu_path[i * n + j];
        if (i >= n && j >= n)
                return CAPO_PATH_UNKNOWN;
        return i < n ? t->nic_path[i * t->n_nics + j - n] : t->nic_path[j * t->n_nics + i - n];
}

/* Give devices that are at most @far apart, directly or through others, one number. */
static void group_devices(const struct capo_topology *t, enum capo_path far, int *group)
{
        size_t n = t->n_gpus + t->n_nics;
        bool changed = true;

        for (size_t i = 0; i < n; i++)
                group[i] = t->n_nics || far < CAPO_PATH_NODE ? (int)i : 0;
        while (changed) {
                changed = false;
                for (size_t i = 0; i < n; i++) {
                        for (size_t j = 0; j < n; j++) {
                                if (path_between(t, i, j) <= far && group[j] < group[i]) {
                                        group[i] = group[j];
                                        changed = true;
                                }
                        }
                }
        }
}

static void open_pci(const struct writing *w, int bus, const char *class, const char *vendor)
{
        fprintf(w->f,
                "<pci busid=\"0000:%02x:00.0\" class=\"%s\" vendor=\"%s\" device=\"0x0\" "
                "link_speed=\"%s\" link_width=\"16\">",
                bus, class, vendor, w->speed);
}

static void put_gpu(const struct writing *w, int gpu)
{
        const struct capo_topology *t = w->t;

        open_pci(w, 0x10 + gpu, "0x030200", "0x10de");
        fprintf(w->f, "<gpu dev=\"%d\" sm=\"%d\" gdr=\"1\">\n", t->gpus[gpu].dev, t->gpus[gpu].sm);
        for (size_t i = 0; i < t->n_links; i++) {
                const struct capo_topology_link *l = &t->links[i];
                bool out = l->from == gpu, to_switch = l->end == CAPO_END_SWITCH;

                if (to_switch ? out : l->end == CAPO_END_GPU && (out || l->to == gpu))
                        fprintf(w->f,
                                "<nvlink target=\"0000:%02x:00.0\" count=\"%d\" tclass=\"%s\"/>\n",
                                to_switch ? 0xf0 + l->to : 0x10 + (out ? l->to : l->from), l->count,
                                to_switch ? "0x068000" : "0x030200");
        }
        fputs("</gpu></pci>\n", w->f);
}

static void put_switch(const struct writing *w, int first)
{
        size_t n = w->t->n_gpus + w->t->n_nics, members = 0, nic;

        for (size_t i = 0; i < n; i++)
                members += w->group[OF_SWITCH][i] == first;
        if (members > 1) {
                open_pci(w, 0x80 + first, "0x060400", "0x0");
                fputc('\n', w->f);
        }
        for (size_t i = 0; i < n; i++) {
                if (w->group[OF_SWITCH][i] != first)
                        continue;
                if (i < w->t->n_gpus) {
                        put_gpu(w, (int)i);
                        continue;
                }
                nic = i - w->t->n_gpus;
                open_pci(w, 0x40 + (int)nic, "0x020700", "0x15b3");
                fprintf(w->f,
                        "<nic><net name=\"%s\" dev=\"%zu\" speed=\"%d\" port=\"1\" latency=\"0\" "
                        "guid=\"0x%zx\" maxconn=\"131072\" gdr=\"1\"/></nic></pci>\n",
                        w->t->nics[nic].name, nic, w->nic_mbs, nic + 1);
        }
        if (members > 1)
                fputs("</pci>\n", w->f);
}

static void put_system(const struct writing *w)
{
        int n = (int)(w->t->n_gpus + w->t->n_nics), cpus = 0;

        fputs("<system version=\"1\">\n", w->f);
        for (int c = 0; c < n; c++) {
                if (w->group[OF_CPU][c] != c)
                        continue;
                fprintf(w->f,
                        "<cpu numaid=\"%d\" affinity=\"ffff\" arch=\"x86_64\" "
                        "vendor=\"GenuineIntel\" familyid=\"6\" "
                        "modelid=\"143\">\n",
                        cpus++);
                for (int s = 0; s < n; s++) {
                        if (w->group[OF_SWITCH][s] == s && w->group[OF_CPU][s] == c)
                                put_switch(w, s);
                }
                fputs("</cpu>\n", w->f);
        }
        fputs("</system>\n", w->f);
}

int capo_topology_write_nccl(const struct capo_topology *t, FILE *f, char *taken, size_t room)
{
        size_t n = t->n_gpus + t->n_nics, g = 0;
        const struct capo_platform *p = capo_platform_find(t->platform);
        _cleanup_free_ int *of_cpu = xcalloc(n + 1, sizeof *of_cpu);
        _cleanup_free_ int *of_switch = xcalloc(n + 1, sizeof *of_switch);
        struct writing w = {.t = t, .f = f, .group = {of_cpu, of_switch}};

        if (t->n_gpus > 32 || t->n_nics > 64)
                return -E2BIG;
        while (t->gpus[0].sm < generations[g].sm)
                g++;
        w.speed = generations[g].speed;
        w.nic_mbs = p && p->nic_speed ? p->nic_speed : generations[g].nic_mbs;
        group_devices(t, CAPO_PATH_NODE, of_cpu);
        group_devices(t, CAPO_PATH_PXB, of_switch);
        put_system(&w);
        snprintf(taken, room, "%s, NICs of %d Gb/s, Intel CPUs", generations[g].name,
                 w.nic_mbs / 1000);
        return ferror(f) ? -EIO : 0;
}
