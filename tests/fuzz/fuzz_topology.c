/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the description of a machine: NCCL's and RCCL's XML, lstopo's, the text of
 * nvidia-smi; and as the one that a plan asks real NCCL about. */
#include <stdlib.h>
#include <string.h>

#include "profiles/machine/topology.h"
#include "profiles/plan/plan_machine.h"
#include "profiles/plan/plan_job.h"
#include "tests/fuzz/fuzz.h"

static void check_topology(struct capo_topology *t)
{
        must(t->n_gpus > 0);
        for (size_t i = 0; i < t->n_gpus; i++) {
                must(capo_topology_gpu_by_dev(t, t->gpus[i].dev) >= 0);
                must(t->gpus[i].cpu < (int)t->n_cpus && t->gpus[i].pci < (int)t->n_pcis);
                for (size_t k = 0; t->gpu_path && k < t->n_gpus; k++)
                        must(capo_path_name(t->gpu_path[i * t->n_gpus + k]));
        }
        for (size_t i = 0; i < t->n_links; i++) {
                const struct capo_topology_link *l = &t->links[i];
                size_t ends[] = {t->n_gpus, t->n_switches, t->n_cpus};

                must(l->from >= 0 && (size_t)l->from < t->n_gpus);
                must(l->to >= 0 && (size_t)l->to < ends[l->end]);
        }
        for (size_t i = 0; i < t->n_pcis; i++) /* parents first: who walks up comes to an end */
                must(t->pcis[i].parent < (int)i);
        capo_topology_slice(t, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct plan_machine machine;
        struct fuzz_bytes b = {data, size};
        unsigned flags = (unsigned)fuzz_number(&b, 1);
        const char *path = fuzz_file(0, b.at, b.left);
        struct capo_topology *t = NULL;
        char why[512] = "";

        if (flags & 1) { /* by its own word, and completed by a platform */
                int r = plan_machine_prepare(path, flags & 2 ? "dgx1v" : NULL,
                                             flags & 4 ? fuzz_file(1, "", 0) : NULL, &machine, why,
                                             sizeof why);

                must(r < 0 ? *why
                           : machine.n_gpus <= CAPO_PLAN_GPUS_MAX &&
                                     machine.n_nets <= PLAN_MAX_NETS);
                return 0;
        }
        if (capo_topology_read(path, flags >> 1 & CAPO_TOPOLOGY_PARTIAL, flags & 4 ? 20 : 0, &t,
                               why, sizeof why) < 0)
                must(*why && !t);
        else
                check_topology(t);
        capo_topology_free(t);
        return 0;
}
