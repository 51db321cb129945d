/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups in a topology, and its end. */
#include "core/base/among.h"
#include "core/base/xalloc.h"
#include "profiles/machine/topology.h"

const char *capo_path_name(enum capo_path path)
{
        static const char *const names[] = {"X", "NVL", "PIX", "PXB", "PHB", "NODE", "SYS", "?"};

        return names[path];
}

int capo_busid_canonical(const char *text, char out[CAPO_BUSID_ROOM])
{
        unsigned long domain = 0;
        unsigned bus, device, function = 0;
        int end = 0, n;

        if (strpbrk(text, "+-")) /* which %x accepts */
                return -EINVAL;
        if ((n = sscanf(text, "%lx:%2x:%2x%n.%1x%n", &domain, &bus, &device, &end, &function,
                        &end)) < 3) {
                domain = 0;
                function = 0;
                if (sscanf(text, "%2x:%2x%n.%1x%n", &bus, &device, &end, &function, &end) < 2)
                        return -EINVAL;
        }
        if (text[end] || domain > 0xffffffffff)
                return -EINVAL;
        n = snprintf(out, CAPO_BUSID_ROOM, "%04lx:%02x:%02x.%x", domain, bus, device, function);
        return n < CAPO_BUSID_ROOM ? 0 : -EINVAL;
}

int capo_topology_gpu_by_dev(const struct capo_topology *t, int dev)
{
        const struct capo_topology_gpu *gpu = FIRST_OF(g, t->gpus, t->n_gpus, g->dev == dev);

        return gpu ? (int)(gpu - t->gpus) : -1;
}

int capo_topology_gpu_by_busid(const struct capo_topology *t, const char *busid)
{
        const struct capo_topology_gpu *gpu = NULL;
        char want[CAPO_BUSID_ROOM];

        if (capo_busid_canonical(busid, want) == 0)
                gpu = FIRST_OF(g, t->gpus, t->n_gpus, !strcmp(g->busid, want));
        return gpu ? (int)(gpu - t->gpus) : -1;
}

void capo_topology_free(struct capo_topology *t)
{
        if (!t)
                return;
        free(t->name);
        free(t->platform);
        capo_xml_free(t->xml);
        xfree(t->cpus, t->pcis, t->gpus, t->nics, t->switches, t->links, t->gpu_path, t->nic_path,
              t);
}

void capo_topology_freep(struct capo_topology **t) { capo_topology_free(*t); }

void capo_topology_slice(struct capo_topology *t, int gpu)
{
        size_t kept = 0;

        t->gpus[gpu].mig = true;
        for (size_t i = 0; i < t->n_links; i++) {
                const struct capo_topology_link *l = &t->links[i];

                if (l->from != gpu && !(l->end == CAPO_END_GPU && l->to == gpu))
                        t->links[kept++] = *l;
        }
        t->n_links = kept;
}
