/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/cli_recorded.h"
#include "analysis/log/info_read.h"
#include "core/base/util.h"
#include "profiles/machine/topology.h"

/* Every GPU that a process of the job used. */
static bool has_all_gpus(const struct capo_topology *t, const struct capo_job *job)
{
        bool any = false;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];

                for (uint32_t k = 0; k < p->n_info; k++) {
                        if (capo_info_index(p->info[k].key, CAPO_INFO_GPU_BUSID) < 0)
                                continue;
                        if (capo_topology_gpu_by_busid(t, p->info[k].value) < 0)
                                return false;
                        any = true;
                }
        }
        return any;
}

static bool same_machine(const struct capo_topology *a, const struct capo_topology *b)
{
        bool same = a->n_gpus == b->n_gpus && a->n_nics == b->n_nics && a->n_links == b->n_links;

        for (size_t i = 0; same && i < a->n_gpus; i++)
                same = !strcmp(a->gpus[i].busid, b->gpus[i].busid) &&
                       a->gpus[i].sm == b->gpus[i].sm;
        for (size_t i = 0; same && i < a->n_nics; i++)
                same = !(a->nics[i].gbs < b->nics[i].gbs || a->nics[i].gbs > b->nics[i].gbs);
        for (size_t i = 0; same && i < a->n_links; i++)
                same = a->links[i].from == b->links[i].from && a->links[i].to == b->links[i].to &&
                       a->links[i].count == b->links[i].count;
        return same;
}

static int is_topology(const struct dirent *entry)
{
        return fnmatch("topology-*.xml", entry->d_name, 0) == 0;
}

int cli_recorded_topology(const struct capo_job *job, char *path, size_t room)
{
        _cleanup_(capo_topology_freep) struct capo_topology *first = NULL;
        const char *log = job->n_processes ? job->processes[0].path : "";
        const char *slash = strrchr(log, '/');
        char folder[PATH_MAX] = ".", file[PATH_MAX + 256], why[512];
        struct dirent **names = NULL;
        int n, r = -ENOENT;

        if (slash)
                snprintf(folder, sizeof folder, "%.*s", (int)(slash + 1 - log), log);
        n = scandir(folder, &names, is_topology, alphasort);
        for (int i = 0; i < n; i++) {
                _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;

                snprintf(file, sizeof file, "%s/%s", folder, names[i]->d_name);
                free(names[i]);
                if (r == -EXDEV || capo_topology_read(file, 0, 0, &t, why, sizeof why) < 0)
                        continue;
                if (first && !same_machine(first, t)) {
                        r = -EXDEV;
                } else if (!first && has_all_gpus(t, job) &&
                           snprintf(path, room, "%s", file) < (int)room) {
                        first = steal(&t);
                        r = 0;
                }
        }
        free(names);
        return r;
}
