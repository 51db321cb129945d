/* SPDX-License-Identifier: Apache-2.0 */
/* The ceiling of each communicator. The logs have the PCI bus ids of its members' CUDA devices, the
 * topology has the GPUs at these, and capo topo computes the rest. If one rank's log is missing, or
 * a GPU is not in the topology, the communicator has no ceiling. */

#include "analysis/log/info_read.h"
#include "capo/call_ids.h"
#include "capo/collectives.h"
#include "cli/base/cli_recorded.h"
#include "cli/report/cmd_report.h"
#include "cli/report/report_advice.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "core/base/xalloc.h"
#include "core/log/info.h"
#include "profiles/fragment/bound.h"
#include "profiles/machine/topology.h"

/* The distance between the NIC that a rank used and its GPU, and whether a nearer NIC was
 * available. The log has the PCI addresses of both; the path between them comes from the topology
 * (a file, or this machine). The recorder only notes NUMA nodes from sysfs, because
 * walking the PCI tree would slow down the job. */
static int nic_at(const struct capo_topology *t, const char *address)
{
        char busid[CAPO_BUSID_ROOM];
        const struct capo_topology_nic *nic;

        if (capo_busid_canonical(address, busid) < 0)
                return -1;
        nic = FIRST_OF(of, t->nics, t->n_nics,
                       of->pci >= 0 && !strcmp(t->pcis[of->pci].busid, busid));
        return nic ? (int)(nic - t->nics) : -1;
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

/* Fill page->near from the job's machine. */
static void report_near(struct capo_page *r, const struct capo_topology *t)
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

/* Limits for ceilings over PCIe and NICs without an explicit topology: 16 ranks take 70 ms, 32 a
 * third of a second, 64 two. There is one largest communicator, and there may be many others. */
enum { RANKS_UNASKED = 16, RANKS_UNASKED_LARGEST = 32 };

/* As many GPUs on as many equal machines, or on fewer: the first of each. */
static void add_other_layouts(struct capo_page_allocation *a, const struct capo_topology *t,
                              uint32_t n, uint16_t n_nodes)
{
        for (uint16_t nodes = n_nodes; nodes; nodes--) {
                _cleanup_free_ struct capo_plan_gpu *gpus = xcalloc(n, sizeof *gpus);
                uint32_t each = n / nodes;
                struct capo_layout layout = {0};
                struct fragment_bound bound;

                if (n % nodes || each > t->n_gpus || a->n_others == N_ELEMENTS(a->others) ||
                    (nodes == n_nodes && !a->uneven))
                        continue;
                for (uint32_t i = 0; i < n; i++)
                        gpus[i] = (struct capo_plan_gpu){(uint16_t)(i / each),
                                                         (uint16_t)t->gpus[i % each].dev};
                if (fragment_bound(t, gpus, n, &bound) < 0 ||
                    !(bound.busbw_gbs[CAPO_COLL_ALLREDUCE] > a->best) ||
                    capo_layout_add(&layout, each, nodes) < 0)
                        continue;
                capo_layout_print(&layout, a->others[a->n_others].layout,
                                  sizeof a->others[0].layout);
                a->others[a->n_others++].best = bound.busbw_gbs[CAPO_COLL_ALLREDUCE];
        }
}

/* @bound NULL: not computed. */
static void set_allocation(struct capo_page *r, const struct capo_topology *t,
                           const struct cli_machine_words *where, const struct capo_plan_gpu *gpus,
                           uint32_t n, const char *class, const struct fragment_bound *bound)
{
        struct capo_page_allocation *a = &r->allocation;
        uint32_t on[CAPO_PLAN_WHOLE_MAX] = {0}, n_nodes = 0;
        struct capo_layout layout = {0};

        for (uint32_t i = 0; i < n; i++) {
                if (gpus[i].node >= CAPO_PLAN_WHOLE_MAX)
                        return;
                on[gpus[i].node]++;
                n_nodes = gpus[i].node >= n_nodes ? gpus[i].node + 1u : n_nodes;
        }
        for (uint32_t i = 0; i < n_nodes; i++) {
                a->uneven |= on[i] != on[0];
                a->reduced |= on[i] < t->n_gpus;
                if (capo_layout_add(&layout, on[i], 1) < 0)
                        return;
        }
        capo_layout_print(&layout, a->layout, sizeof a->layout);
        snprintf(a->class, sizeof a->class, "%s", class);
        a->best = bound ? bound->busbw_gbs[CAPO_COLL_ALLREDUCE] : 0;
        if (bound && n <= RANKS_UNASKED_LARGEST)
                add_other_layouts(a, t, n, (uint16_t)n_nodes);
        if (bound && (a->uneven || a->reduced))
                report_advise(r, where, gpus, n);
}

static void set_ceiling(struct capo_page *r, const struct capo_topology *t,
                        const struct cli_machine_words *where, uint32_t comm)
{
        _cleanup_(capo_topology_freep) struct capo_topology *sliced = NULL;
        struct cli_machine_source source;
        struct capo_page_ceiling *to = &r->ceiling[comm];
        struct fragment_bound bound = {0};
        bool any_slice = false;

        const struct capo_job *job = r->job;
        const struct capo_job_comm *c = &job->comms[comm];
        _cleanup_free_ struct capo_plan_gpu *gpus = xcalloc(c->n_members + 1, sizeof *gpus);
        _cleanup_free_ bool *slices = xcalloc(c->n_members + 1, sizeof *slices);

        if (c->n_ranks < 1)
                return;
        if (cli_recorded_gpus(job, comm, t, gpus, slices, r->no_ceiling, sizeof r->no_ceiling) < 0)
                return;
        for (uint32_t i = 0; i < c->n_members; i++)
                any_slice |= slices[i];
        if (any_slice) {
                if (cli_machine_load("report", where, &sliced, &source) < 0)
                        return;
                for (uint32_t i = 0; i < c->n_members; i++) { /* a slice cannot use the links */
                        int gpu = slices[i] ? capo_topology_gpu_by_dev(sliced, gpus[i].dev) : -1;

                        if (gpu >= 0)
                                capo_topology_slice(sliced, gpu);
                }
        }
        if (r->topology_recorded && c->n_members > (comm ? RANKS_UNASKED : RANKS_UNASKED_LARGEST)) {
                snprintf(r->no_ceiling, sizeof r->no_ceiling,
                         "%s: more than %d ranks: %s computes it", c->name,
                         comm ? RANKS_UNASKED : RANKS_UNASKED_LARGEST, r->allocation.machine);
                if (capo_class_of_gpus(sliced ? sliced : t, gpus, c->n_members, to->class,
                                       sizeof to->class) == 0 &&
                    comm == 0 && !any_slice)
                        set_allocation(r, t, where, gpus, c->n_members, to->class, NULL);
                return;
        }
        if (fragment_bound(sliced ? sliced : t, gpus, c->n_members, &bound) < 0)
                return;
        snprintf(to->class, sizeof to->class, "%s", bound.class);
        if (comm == 0 && !any_slice)
                set_allocation(r, t, where, gpus, c->n_members, bound.class, &bound);
        for (unsigned call = 0; call < CAPO_CALLS; call++) {
                int coll = capo_coll_of_call(call);

                if (coll < 0)
                        continue;
                to->busbw_gbs[call] = bound.busbw_gbs[coll];
                to->on[call] = capo_ceiling_word(bound.of[coll]);
        }
}

int report_ceilings(struct capo_page *r, const struct report_options *o)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        bool here = o->topo && !strcmp(o->topo, "this");
        struct cli_machine_words where = {.topo = here ? NULL : o->topo, .platform = o->platform};
        struct cli_machine_source source;
        char recorded[4096];
        int e = 0;

        if (!o->topo && !o->platform) {
                if (cli_recorded_topology(r->job, recorded, sizeof recorded) < 0)
                        return 0;
                where.topo = recorded;
                r->topology_recorded = true;
        }
        e = cli_machine_load("report", &where, &t, &source);
        if (e < 0)
                return e;
        r->ceiling = xcalloc(r->job->n_comms + 1, sizeof *r->ceiling);
        snprintf(r->allocation.machine, sizeof r->allocation.machine, "%s%s%s%s%s",
                 where.topo ? "--topo " : "", where.topo ?: "",
                 where.topo && where.platform ? " " : "", where.platform ? "--platform " : "",
                 where.platform ?: "");
        snprintf(r->topology, sizeof r->topology, "%s", capo_base_name(t->name));
        if (t->brick_gbs > 0)
                snprintf(r->link_speed, sizeof r->link_speed, "an NVLink at %g GB/s each way (%s)",
                         t->brick_gbs, t->brick_source);
        for (uint32_t i = 0; i < r->job->n_comms; i++)
                set_ceiling(r, t, &where, i);
        report_near(r, t);
        return 0;
}
