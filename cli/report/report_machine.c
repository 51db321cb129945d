/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The distance between the NIC that a rank used and its GPU, and whether a nearer NIC was
 * available. The log has the PCI addresses of both; the path between them comes from the topology
 * (a file, or hwloc on this machine). The recorder only notes NUMA nodes from sysfs, because
 * walking the PCI tree would slow down the job.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/report/cmd_report.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"
#include "core/log/info.h"
#include "profiles/machine/topology.h"
#include "analysis/log/info_read.h"

static int nic_at(const struct capo_topology *t, const char *address)
{
        char busid[CAPO_BUSID_ROOM];

        if (capo_busid_canonical(address, busid) < 0)
                return -1;
        for (size_t k = 0; k < t->n_nics; k++) {
                if (t->nics[k].pci >= 0 && !strcmp(t->pcis[t->nics[k].pci].busid, busid))
                        return (int)k;
        }
        return -1;
}

/* @used: by NIC: did any rank on this link's node use it? */
static void find_nearer_nic(const struct capo_job_process *p, const struct capo_topology *t,
                            const struct capo_fabric_link *l, const bool *used,
                            struct capo_page_near *out)
{
        enum capo_path nearest = CAPO_PATH_UNKNOWN, nearer = CAPO_PATH_UNKNOWN;
        int nic = nic_at(t, l->domain->nic), gpu = -1;

        for (uint32_t i = 0; i < p->n_info && nic >= 0; i++) {
                int g = capo_info_index(p->info[i].key, CAPO_INFO_GPU_BUSID) < 0
                                ? -1
                                : capo_topology_gpu_by_busid(t, p->info[i].value);

                if (g >= 0 && t->nic_path[(size_t)g * t->n_nics + (size_t)nic] < nearest) {
                        nearest = t->nic_path[(size_t)g * t->n_nics + (size_t)nic];
                        gpu = g;
                }
        }
        if (gpu < 0)
                return;
        out->path = capo_path_name(nearest);
        out->far = nearest == CAPO_PATH_SYS;
        for (int k = 0; k < (int)t->n_nics; k++) {
                enum capo_path path = t->nic_path[(size_t)gpu * t->n_nics + (size_t)k];
                bool idle;

                /* a slower one, such as a management port, is no advice */
                if (t->nics[k].pci < 0 || path >= nearest || t->nics[k].gbs < t->nics[nic].gbs)
                        continue;
                idle = !used[k];
                if (*out->nearer && (path > nearer || (path == nearer && out->nearer_idle >= idle)))
                        continue;
                snprintf(out->nearer, sizeof out->nearer, "%s",
                         *t->nics[k].name ? t->nics[k].name : t->pcis[t->nics[k].pci].busid);
                nearer = path;
                out->nearer_path = capo_path_name(path);
                out->nearer_idle = idle;
        }
}

void report_near(struct capo_page *r, const struct capo_topology *t)
{
        size_t n = r->fabric ? r->fabric->n_links : 0;
        _cleanup_free_ bool *used = xcalloc((r->job->n_nodes + 1) * (t->n_nics + 1), sizeof *used);

        r->near = xcalloc(n + 1, sizeof *r->near);
        for (size_t i = 0; i < n; i++) {
                const struct capo_fabric_link *l = &r->fabric->links[i];
                int nic = nic_at(t, l->domain->nic);

                if (l->ops && nic >= 0)
                        used[r->job->processes[l->process].node * t->n_nics + (size_t)nic] = true;
        }
        for (size_t i = 0; i < n; i++) {
                const struct capo_fabric_link *l = &r->fabric->links[i];
                const struct capo_job_process *p = &r->job->processes[l->process];

                find_nearer_nic(p, t, l, used + p->node * t->n_nics, &r->near[i]);
        }
}
