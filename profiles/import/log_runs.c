/* SPDX-License-Identifier: Apache-2.0 */
/* Which run a communicator of a log is: the same one in the logs of all its ranks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/layout.h"
#include "core/base/util.h"
#include "profiles/import/log_runs.h"

enum { MAX_RANKS = 65536 };

/* Logs of one host mostly come one after the other. UINT32_MAX: no memory. */
static uint32_t host_of(struct log_job *j, const char *name)
{
        uint32_t h = j->n_hosts;

        while (h > 0 && strcmp(j->hosts[h - 1], name))
                h--;
        if (h)
                return h - 1;
        if (capo_array_room(&j->hosts, j->n_hosts, sizeof *j->hosts) < 0)
                return UINT32_MAX;
        snprintf(j->hosts[j->n_hosts], sizeof *j->hosts, "%s", name);
        return j->n_hosts++;
}

static int count_on_host(struct log_comm_run *k, uint32_t host)
{
        uint32_t *more;

        if (host >= k->n_hosts_) {
                more = reallocarray(k->ranks_on, 2 * (size_t)host + 8, sizeof *more);
                if (!more)
                        return -ENOMEM;
                memset(more + k->n_hosts_, 0, (2 * (size_t)host + 8 - k->n_hosts_) * sizeof *more);
                k->ranks_on = more;
                k->n_hosts_ = 2 * host + 8;
        }
        k->ranks_on[host]++;
        return 0;
}

/* Where nobody told how many nodes there are, the hosts of the logs do, once every rank has left
 * one. */
int log_job_settle(struct log_job *j)
{
        _cleanup_free_ const char **names = calloc(j->n_hosts + 1, sizeof *names);

        if (!names)
                return -ENOMEM;
        for (size_t i = 0; i < j->n_comms; i++) {
                struct capo_trial *t = &j->in->set->runs[j->comms[i].run];
                struct capo_layout layout = {0};
                char text[CAPO_LAYOUT_TEXT];
                size_t n = 0;

                for (uint32_t h = 0; h < j->n_hosts && h < j->comms[i].n_hosts_; h++) {
                        if (j->comms[i].ranks_on[h]) {
                                capo_layout_add(&layout, j->comms[i].ranks_on[h], 1);
                                names[n++] = j->hosts[h];
                        }
                }
                if ((int)layout.n_ranks == j->comms[i].n_ranks) /* else not all are known */
                        capo_input_hosts(t, names, n);
                if (t->layout[0] || t->n_nodes || (int)layout.n_ranks != j->comms[i].n_ranks)
                        continue;
                t->n_nodes = (int)layout.n_nodes;
                capo_layout_print(&layout, text, sizeof text);
                if (strlen(text) < sizeof t->layout)
                        strcpy(t->layout, text);
        }
        return 0;
}

/* Has another log this rank of @k? Then @c is of another job, though its communicator has the same
 * number. */
static bool has_rank(const struct log_comm_run *k, const struct capo_log_comm *c)
{
        return k->ranks && c->rank >= 0 && c->rank < k->n_ranks &&
               k->ranks[c->rank / 8] & 1 << c->rank % 8;
}

/* Rank @c of @k has a log too, of the host that @f names. */
static int mark_rank(struct log_job *j, struct log_comm_run *k, struct log_said *f,
                     const struct capo_log_comm *c)
{
        uint32_t host = host_of(j, f->host);

        if (host == UINT32_MAX || count_on_host(k, host) < 0)
                return -ENOMEM;
        if (k->ranks && c->rank >= 0 && c->rank < k->n_ranks)
                k->ranks[c->rank / 8] |= (uint8_t)(1 << c->rank % 8);
        f->comms[c->id].run = k->run + 1;
        return 0;
}

/* A run for @c, the first of its communicator that is met. UINT32_MAX: no memory, or what in->error
 * says. */
static uint32_t new_run(struct log_job *j, struct log_said *f, const struct capo_log_comm *c)
{
        struct capo_trial run = {.source = (char *)j->in->path,
                                 .iterations = 1,
                                 .nccl = f->nccl,
                                 .began = {.at = f->began},
                                 .n_ranks = c->n_ranks > 0 ? c->n_ranks : 0,
                                 .n_nodes = c->n_nodes > 0 ? c->n_nodes : 0};
        struct capo_layout world, layout;
        struct capo_layout_told told = {c->n_ranks, c->n_nodes, c->min_local, c->max_local};
        char text[CAPO_LAYOUT_TEXT];
        bool have_world = f->layout[0] && capo_layout_parse(f->layout, &world, NULL) == 0;
        struct log_comm_run k = {.uid = c->uid, .n_ranks = c->n_ranks};

        if (have_world && told.n_nodes <= 0 && (int)world.n_ranks == c->n_ranks)
                run.n_nodes = told.n_nodes = (int)world.n_nodes;
        if (capo_layout_of_comm(have_world ? &world : NULL, &told, &layout, NULL) == 0) {
                capo_layout_print(&layout, text, sizeof text);
                if (strlen(text) < sizeof run.layout)
                        strcpy(run.layout, text);
                run.n_nodes = (int)layout.n_nodes;
        }
        memcpy(run.gpu, f->gpu, sizeof run.gpu);
        memcpy(run.driver, f->driver, sizeof run.driver);
        memcpy(run.settings, f->settings.text, sizeof run.settings);
        capo_input_tuner(&run, f->tuner, f->sweep || f->env_algo || f->env_proto);
        if (capo_input_label(j->in, &run) < 0)
                return UINT32_MAX;
        if (capo_array_room(&j->comms, j->n_comms, sizeof *j->comms) < 0)
                return UINT32_MAX;
        k.ranks = c->uid && c->n_ranks > 0 && c->n_ranks <= MAX_RANKS
                          ? calloc((size_t)c->n_ranks / 8 + 1, 1)
                          : NULL;
        k.run = capo_samples_run(j->in->set, &run);
        if (k.run == UINT32_MAX) {
                free(k.ranks);
                return UINT32_MAX;
        }
        j->comms[j->n_comms++] = k;
        return k.run;
}

uint32_t log_job_run(struct log_job *j, struct log_said *f, const struct capo_log_comm *c)
{
        size_t i = 0;

        if (f->comms[c->id].run) /* as for nearly all calls */
                return f->comms[c->id].run - 1;
        while (i < j->n_comms && (j->comms[i].uid != c->uid || j->comms[i].n_ranks != c->n_ranks ||
                                  has_rank(&j->comms[i], c)))
                i++;
        if (i == j->n_comms && new_run(j, f, c) == UINT32_MAX)
                return UINT32_MAX;
        if (mark_rank(j, &j->comms[i], f, c) < 0)
                return UINT32_MAX;
        return j->comms[i].run;
}
