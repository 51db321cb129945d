/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/base/calls.h"
#include "profiles/fit/fit_links.h"
#include "profiles/import/import.h"
#include "profiles/machine/topology.h"

/* NCCL plans with three quarters (PCIe) to four fifths (NVLink) of a link's data-sheet rate; an
 * upper bound needs all of it. */
#define PLANNED    0.75
#define NIC_UNSAID 1.25 /* assumed GB/s of a NIC with unknown speed */

struct capo_fit_links capo_fit_links_of_gpu(const char *name)
{
        static const struct {
                const char *name;
                double gbs;
        } known[] = {{"V100", 150 + 16}, {"A800", 200 + 32}, {"A100", 300 + 32},
                     {"H800", 200 + 64}, {"H100", 450 + 64}, {"H200", 450 + 64},
                     {"B200", 900 + 64}, {"B300", 900 + 64}};

        for (size_t i = 0; i < N_ELEMENTS(known); i++) {
                if (strstr(name, known[i].name))
                        return (struct capo_fit_links){.gpu_gbs = known[i].gbs};
        }
        return (struct capo_fit_links){0};
}

struct capo_fit_links capo_fit_links_of_machine(const struct capo_topology *t)
{
        struct capo_fit_links links = {0};

        for (size_t g = 0; g < t->n_gpus && !t->links_unknown && t->pci_known; g++) {
                double gbs = t->gpus[g].pci < 0 ? INFINITY : t->pcis[t->gpus[g].pci].gbs;

                for (size_t i = 0; i < t->n_links; i++) {
                        const struct capo_topology_link *l = &t->links[i];

                        if (l->from == (int)g || (l->end == CAPO_END_GPU && l->to == (int)g))
                                gbs += l->gbs;
                }
                links.gpu_gbs = fmax(links.gpu_gbs, gbs / PLANNED);
        }
        if (isinf(links.gpu_gbs))
                links.gpu_gbs = 0;
        for (size_t i = 0; i < t->n_nics; i++) {
                if (t->nics[i].gbs <= NIC_UNSAID)
                        return (struct capo_fit_links){.gpu_gbs = links.gpu_gbs};
                links.node_gbs += t->nics[i].gbs;
        }
        return links;
}

bool capo_fit_beyond(struct capo_fit_links links, const struct capo_trial *where, unsigned call,
                     uint64_t bytes, double us)
{
        bool parts = capo_call_kind(call) == CAPO_KIND_ALLGATHER ||
                     capo_call_kind(call) == CAPO_KIND_REDUCESCATTER;
        double gbs = (double)bytes / us / 1e3, own_gpu = 0, own_node = 0;

        /* Reduction sends as much out, wherever it is done. With uneven nodes, one has less than
         * its share. */
        if (parts && where->n_ranks > 0)
                own_gpu = 1.0 / where->n_ranks;
        if (parts && where->n_nodes > 0)
                own_node = 1.0 / where->n_nodes;
        return (links.gpu_gbs > 0 && gbs * (1 - own_gpu) > links.gpu_gbs) ||
               (links.node_gbs > 0 && where->n_nodes > 1 && gbs * (1 - own_node) > links.node_gbs);
}
