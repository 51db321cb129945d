/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs a job started here would get: what the driver opens, what CUDA_VISIBLE_DEVICES leaves,
 * MIG slices. */
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "cli/doctor/doctor.h"
#include "profiles/machine/visible.h"

void capo_doctor_gpus(struct capo_findings *f)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        _cleanup_free_ struct capo_nvml *nvml = malloc(sizeof *nvml);
        _cleanup_free_ struct capo_visible *v = malloc(sizeof *v);
        char why[1600], *save = NULL;
        const char *list = getenv("CUDA_VISIBLE_DEVICES");
        bool driver;

        if (!nvml || !v)
                return;
        if (capo_topology_this_machine(0, &t, why, sizeof why) <
            0) { /* the job may be meant for other machines */
                if (list && strstr(list, "MIG"))
                        capo_finding_add(
                                f, CAPO_FINDING_NOTE, "gpu",
                                "CUDA_VISIBLE_DEVICES=%.80s names MIG slices: neither NVLink nor P2P reaches them",
                                list);
                return;
        }
        driver = capo_nvml_read(nvml, why, sizeof why) == 0;
        if (capo_visible_find(t, driver ? nvml : NULL, capo_getenv, NULL, v, why, sizeof why) < 0) {
                capo_finding_add(f, CAPO_FINDING_WARN, "gpu", "%s", why);
                return;
        }
        capo_finding_add(
                f, CAPO_FINDING_OK, "gpu", "%d of %zu GPUs%s", v->n, t->n_gpus,
                driver ? ""
                       : " (there is no libnvidia-ml.so.1 to ask which are open to this process)");
        for (char *line = strtok_r(v->said, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                capo_finding_add(f,
                                 v->n_shared && strstr(line, "NCCL") ? CAPO_FINDING_WARN
                                                                     : CAPO_FINDING_NOTE,
                                 "gpu", "%s", line);
}
