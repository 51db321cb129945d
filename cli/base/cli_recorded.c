/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fnmatch.h>

#include "capo/msg.h"
#include "cli/base/cli_recorded.h"
#include "analysis/log/info_read.h"
#include "analysis/log/log_paths.h"
#include "core/base/among.h"
#include "core/base/others_file.h"
#include "core/base/xalloc.h"
#include "core/log/info.h"

enum { TOPOLOGY_MOST = 8 << 20 };

/* Does @t have every GPU that a process of the job used? */
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

struct search {
        struct capo_topology *first;
        char *path;
        size_t room;
        int result;
};

/* Can it be one? Whoever may write to the folder may have put anything there. */
static bool is_plausible(const char *file)
{
        struct stat st;
        _cleanup_close_ int fd = capo_others_open(file, O_RDONLY, CAPO_ANY_OWNER, &st, NULL, 0);

        return fd >= 0 && st.st_size <= TOPOLOGY_MOST;
}

static void search_folder(struct search *s, const char *folder, const struct capo_job *job)
{
        char file[PATH_MAX + 256], why[512];
        struct dirent **names = NULL;
        int n = scandir(folder, &names, is_topology, alphasort);

        for (int i = 0; i < n; i++) {
                _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;

                snprintf(file, sizeof file, "%s/%s", folder, names[i]->d_name);
                free(names[i]);
                if (s->result == -EXDEV || !is_plausible(file) ||
                    capo_topology_read(file, 0, 0, &t, why, sizeof why) < 0)
                        continue;
                if (s->first && !same_machine(s->first, t)) {
                        s->result = -EXDEV;
                } else if (!s->first && (!job || has_all_gpus(t, job)) &&
                           snprintf(s->path, s->room, "%s", file) < (int)s->room) {
                        s->first = steal(&t);
                        s->result = 0;
                }
        }
        free(names);
}

int cli_recorded_topology(const struct capo_job *job, char *path, size_t room)
{
        const char *log = job->n_processes ? job->processes[0].path : "";

        return cli_recorded_beside(&log, 1, job, path, room);
}

int cli_recorded_beside(const char *const *paths, size_t n, const struct capo_job *job, char *path,
                        size_t room)
{
        struct search s = {.path = path, .room = room, .result = -ENOENT};
        char folder[PATH_MAX], before[PATH_MAX] = "";
        struct stat st;

        for (size_t i = 0; i < n; i++) {
                const char *of = paths[i];
                size_t length = capo_log_folder_size(of);

                if (!stat(of, &st) && S_ISDIR(st.st_mode))
                        length = strlen(of);
                else if (!length)
                        of = *of == '/' ? "/" : ".";
                snprintf(folder, sizeof folder, "%.*s", length ? (int)length : 1, of);
                if (strcmp(folder, before))
                        search_folder(&s, folder, job);
                strcpy(before, folder);
        }
        capo_topology_free(s.first);
        return s.result;
}

/* A value that the member's log has for its device: CAPO_INFO_GPU_BUSID, CAPO_INFO_GPU_MIG. */
static const char *gpu_info(const struct capo_job *job, const struct capo_job_member *m,
                            const char *what)
{
        char key[32];

        snprintf(key, sizeof key, "%s.%d", what, m->device);
        return capo_job_info(&job->processes[m->process], key);
}

/* Are two ranks on one GPU of a node? Only MIG slices may be. */
static bool has_shared_gpu(const struct capo_plan_gpu *gpus, const bool *slices, uint32_t n)
{
        for (uint32_t i = 1; i < n; i++)
                if (ANY_OF(g, gpus, i,
                           g->node == gpus[i].node && g->dev == gpus[i].dev &&
                                   !(slices[i] && slices[g - gpus])))
                        return true;
        return false;
}

int cli_recorded_gpus(const struct capo_job *job, uint32_t comm, const struct capo_topology *t,
                      struct capo_plan_gpu *gpus, bool *slices, char *why, size_t room)
{
        const struct capo_job_comm *c = &job->comms[comm];
        _cleanup_free_ int *node_of = xmalloc(sizeof *node_of * (job->n_nodes + 1));
        uint16_t n_nodes = 0;

        if (c->n_members != (uint32_t)c->n_ranks)
                return capo_why(-ENOENT, why, room, "%s: %u of %d logs", c->name, c->n_members,
                                c->n_ranks);
        memset(node_of, -1, sizeof *node_of * (job->n_nodes + 1));
        for (uint32_t i = 0; i < c->n_members; i++) {
                const char *busid = gpu_info(job, &c->members[i], CAPO_INFO_GPU_BUSID);
                int gpu = busid ? capo_topology_gpu_by_busid(t, busid) : -1;
                uint32_t node = job->processes[c->members[i].process].node;
                char who[300];

                if (gpu < 0)
                        return capo_why(-ENOENT, why, room,
                                        busid ? "%s: %s is on GPU %s, which %s lacks"
                                              : "%s: the log of %s has no GPU bus id%.0s%.0s",
                                        c->name, capo_job_member_text(c, &c->members[i], who),
                                        busid ? busid : "", capo_base_name(t->name));
                if (node_of[node] < 0)
                        node_of[node] = n_nodes++;
                gpus[i] =
                        (struct capo_plan_gpu){(uint16_t)node_of[node], (uint16_t)t->gpus[gpu].dev};
                slices[i] = gpu_info(job, &c->members[i], CAPO_INFO_GPU_MIG) != NULL;
        }
        if (has_shared_gpu(gpus, slices, c->n_members))
                return capo_why(-EEXIST, why, room, "%s: two ranks are on one GPU", c->name);
        return 0;
}
