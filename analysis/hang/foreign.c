/* SPDX-License-Identifier: Apache-2.0 */
#include <search.h>

#include "analysis/hang/foreign.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"

uint32_t capo_hang_foreign_process(struct capo_hang_foreign *f, int32_t rank, const char *host,
                                   uint32_t pid)
{
        struct capo_job *job = f->job;

        xarray_room(&job->processes, job->n_processes, sizeof *job->processes);
        xarray_room(&f->hang->processes, f->hang->n_processes, sizeof *f->hang->processes);
        job->processes[job->n_processes] = (struct capo_job_process){
                .path = xstrdup(""), .host = xstrdup(host), .header.pid = pid, .rank = rank};
        f->hang->processes[f->hang->n_processes++] = (struct capo_hang_process){.rank = rank};
        return job->n_processes++;
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

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
                taken = capo_index_number(&f->names, copy, by_name, job->n_comms);
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

        xarray_room(&c->members, c->n_members, sizeof *c->members);
        c->members[c->n_members] =
                (struct capo_hang_member){.process = process, .rank = rank, .whole_p2p = true};
        return c->n_members++;
}

struct capo_hang_call *capo_hang_foreign_call(struct capo_hang_foreign *f, uint32_t process,
                                              const struct capo_hang_call *call)
{
        struct capo_hang_process *p = &f->hang->processes[process];

        xarray_room(&p->calls, p->n_calls, sizeof *p->calls);
        p->calls[p->n_calls] = *call;
        return &p->calls[p->n_calls++];
}

uint16_t capo_hang_foreign_site(struct capo_hang_foreign *f, char *text)
{
        struct capo_hang_job *hang = f->hang;

        for (uint32_t i = 0; i < hang->n_sites; i++) {
                if (!strcmp(hang->sites[i], text)) {
                        free(text);
                        return (uint16_t)(i + 1);
                }
        }
        if (hang->n_sites == UINT16_MAX) {
                free(text);
                return 0;
        }
        xarray_room(&hang->sites, hang->n_sites, sizeof *hang->sites);
        hang->sites[hang->n_sites++] = text;
        return (uint16_t)hang->n_sites;
}

/* Number nodes by host name, in the order of processes. */
static void find_nodes(struct capo_job *job, struct capo_index *hosts)
{
        for (uint32_t i = 0; i < job->n_processes; i++) {
                struct capo_job_process *p = &job->processes[i];
                uint32_t node;
                char *name;

                if (!p->header.pid) /* without a pid, the host field holds a file name */
                        continue;
                node = capo_index_number(hosts, p->host, by_name, job->n_nodes);
                p->node = node;
                if (node != job->n_nodes)
                        continue;
                name = xstrdup(p->host);
                xarray_room(&job->nodes, job->n_nodes, sizeof *job->nodes);
                job->nodes[job->n_nodes++] = (struct capo_job_node){.name = name};
        }
}

int capo_hang_foreign_finish(struct capo_hang_foreign *f, int r)
{
        struct capo_job *job = f->job;
        struct capo_index hosts = {0};
        int32_t most = (int32_t)job->n_processes;

        capo_index_finish(&f->names);
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < job->n_comms; i++)
                most = job->comms[i].n_ranks > most ? job->comms[i].n_ranks : most;
        job->n_ranks = f->hang->n_ranks = most;
        find_nodes(job, &hosts);
        capo_index_finish(&hosts);
        return 0;
}

struct numbered {
        const void *key;
        int (*order)(const void *,
                     const void *); /* in each entry, because tsearch() passes nothing else */
        uint32_t number;
};

CAPO_ORDERED(by_key, struct numbered, a->order(a->key, b->key));

uint32_t capo_index_number(struct capo_index *index, const void *key,
                           int (*order)(const void *, const void *), uint32_t number)
{
        struct numbered *mine = xmalloc(sizeof *mine), **found;

        *mine = (struct numbered){.key = key, .order = order, .number = number};
        found = tsearch(mine, &index->root, by_key);
        if (!found)
                return number;
        number = (*found)->number;
        if (*found != mine)
                free(mine);
        return number;
}

void capo_index_finish(struct capo_index *index)
{
        tdestroy(index->root, free);
        index->root = NULL;
}
