/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/hang/foreign.h"
#include "core/base/xalloc.h"

uint32_t capo_hang_foreign_process(struct capo_hang_foreign *f, int32_t rank, const char *host,
                                   uint32_t pid)
{
        struct capo_job *job = f->job;

        *xadd(job->processes, job->n_processes) = (struct capo_job_process){
                .path = xstrdup(""), .host = xstrdup(host), .header.pid = pid, .rank = rank};
        *xadd(f->hang->processes, f->hang->n_processes) = (struct capo_hang_process){.rank = rank};
        return job->n_processes - 1;
}

uint32_t capo_hang_foreign_number(json_t **known, const char *key, uint32_t number)
{
        json_t *found = json_object_get(*known, key);

        if (found)
                return (uint32_t)json_integer_value(found);
        *known = *known ?: json_object();
        json_object_set_new_nocheck(*known, key, json_integer(number));
        return number;
}

uint32_t capo_hang_foreign_comm(struct capo_hang_foreign *f, const char *name, uint64_t uid,
                                int32_t n_ranks)
{
        struct capo_job *job = f->job;
        struct capo_hang_job *hang = f->hang;
        char *copy = NULL;
        int64_t taken = -1;

        xarray_room(&job->comms, job->n_comms, sizeof *job->comms);
        xarray_room(&hang->comms, hang->n_comms, sizeof *hang->comms);
        for (unsigned i = 0; taken != job->n_comms; i++) { /* as long as another one has it */
                free(steal(&copy));
                copy = i ? xprintf("%s/%u", name, i) : xstrdup(name);
                taken = capo_hang_foreign_number(&f->names, copy, job->n_comms);
        }
        job->comms[job->n_comms] =
                (struct capo_job_comm){.uid = uid, .name = copy, .n_ranks = n_ranks};
        hang->comms[hang->n_comms++] =
                (struct capo_hang_comm){.name = copy, .uid = uid, .n_ranks = n_ranks};
        return job->n_comms++;
}

uint32_t capo_hang_foreign_member(struct capo_hang_foreign *f, uint32_t comm, uint32_t process,
                                  int32_t rank)
{
        struct capo_hang_comm *c = &f->hang->comms[comm];

        *xadd(c->members, c->n_members) =
                (struct capo_hang_member){.process = process, .rank = rank, .whole_p2p = true};
        return c->n_members - 1;
}

void capo_hang_foreign_call(struct capo_hang_foreign *f, uint32_t process,
                            const struct capo_hang_call *call)
{
        struct capo_hang_process *p = &f->hang->processes[process];

        *xadd(p->calls, p->n_calls) = *call;
}

uint16_t capo_hang_foreign_site(struct capo_hang_foreign *f, char *text)
{
        struct capo_hang_job *hang = f->hang;
        uint32_t i = 0;

        while (i < hang->n_sites && strcmp(hang->sites[i], text) != 0)
                i++;
        if (i < hang->n_sites || i == UINT16_MAX) {
                free(text);
                return i < hang->n_sites ? (uint16_t)(i + 1) : 0;
        }
        *xadd(hang->sites, hang->n_sites) = text;
        return (uint16_t)hang->n_sites;
}

int capo_hang_foreign_finish(struct capo_hang_foreign *f, int r)
{
        struct capo_job *job = f->job;
        json_t *hosts = NULL;

        json_decref(f->names);
        if (r < 0)
                return r;
        job->n_ranks = (int32_t)job->n_processes;
        for (uint32_t i = 0; i < job->n_comms; i++) {
                if (job->comms[i].n_ranks > job->n_ranks)
                        job->n_ranks = job->comms[i].n_ranks;
        }
        f->hang->n_ranks = job->n_ranks;
        for (uint32_t i = 0; i < job->n_processes; i++) { /* nodes, in the order of processes */
                struct capo_job_process *p = &job->processes[i];

                if (!p->header.pid) /* without a pid, the host field holds a file name */
                        continue;
                p->node = capo_hang_foreign_number(&hosts, p->host, job->n_nodes);
                if (p->node != job->n_nodes)
                        continue;
                *xadd(job->nodes, job->n_nodes) = (struct capo_job_node){.name = xstrdup(p->host)};
        }
        json_decref(hosts);
        return 0;
}
