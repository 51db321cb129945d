/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL Inspector's records (plugins/profiler/inspector, formats v4.0 to v4.2), one object per collective and rank, back to
 * back or one per line.
 *
 * Inspector counts coll_sn per communicator the same on all ranks. A rank that waits for others measures the waiting:
 * all-reduce, all-gather and reduce-scatter cannot end on any rank before the last one has come, so the shortest rank's
 * time is the transfer; where a root may be done early, the longest is.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/util.h"
#include "profiles/import/json.h"

struct inspector_call {
        uint64_t comm, bytes;
        double us;
        uint32_t sn, run;
        uint8_t call, make, ran, channels;
};

static int by_call(const void *a, const void *b)
{
        const struct inspector_call *x = a, *y = b;

        return CAPO_ORDER(x->comm, y->comm) ?: CAPO_ORDER(x->sn, y->sn) ?: CAPO_ORDER(x->us, y->us);
}

static unsigned make_of(const char *source)
{
        if (!strcmp(source, "kernel_gpu"))
                return CAPO_MAKE_KERNEL;
        if (!strncmp(source, "kernel_cpu", 10))
                return CAPO_MAKE_REPORT;
        return strstr(source, "cpu") ? CAPO_MAKE_HOST : CAPO_MAKE_UNKNOWN;
}

/* The run of this file with the ranks and nodes of @run, or a new one; its place in all->runs, or -ENOMEM. */
static int run_of(struct capo_input *in, struct inspector *all, const struct capo_trial *run)
{
        for (size_t i = all->n_runs; i > 0; i--) {
                const struct capo_trial *r = &in->set->runs[all->runs[i - 1].run];

                if (r->n_ranks == run->n_ranks && r->n_nodes == run->n_nodes)
                        return (int)i - 1;
        }
        if (capo_array_room(&all->runs, all->n_runs, sizeof *all->runs) < 0)
                return -ENOMEM;
        all->runs[all->n_runs] = (struct inspector_run){.run = capo_samples_run(in->set, run)};
        return all->runs[all->n_runs].run == UINT32_MAX ? -ENOMEM : (int)all->n_runs++;
}

static int add_host(struct inspector_run *r, const char *name)
{
        for (size_t i = 0; i < r->n_hosts; i++) {
                if (!strcmp(r->hosts[i], name))
                        return 0;
        }
        if (!*name || strlen(name) >= sizeof *r->hosts)
                return 0;
        if (capo_array_room(&r->hosts, r->n_hosts, sizeof *r->hosts) < 0)
                return -ENOMEM;
        strcpy(r->hosts[r->n_hosts++], name);
        return 0;
}

int inspector_add(struct capo_input *in, struct inspector *all, const json_t *o, unsigned line)
{
        const json_t *header = json_object_get(o, "header"), *perf = json_object_get(o, "coll_perf");
        struct capo_trial run = {.source = (char *)in->path, .line = line, .iterations = 1};
        struct inspector_call h = {0};
        int r;

        if (!json_is_object(header))
                return capo_input_error(in, line,
                                        "expected \"header\" (NCCL Inspector) or \"results\" (nccl-tests -J)");
        if (!json_is_object(perf))
                return 0; /* p2p_perf, dump_stats, ... */
        h.call = (uint8_t)capo_call_find(json_str(perf, "coll"));
        if (!h.call)
                return capo_input_error(in, line, "coll_perf.coll: expected a collective, found \"%s\"",
                                        json_str(perf, "coll"));
        h.bytes = json_count(perf, "coll_msg_size_bytes", 0, JSON_BYTES_MAX);
        h.us = json_num(perf, "coll_exec_time_us", 0);
        h.sn = (uint32_t)json_count(perf, "coll_sn", 0, UINT32_MAX);
        if (h.bytes == 0 || !(h.us > 0)) {
                in->set->n_empty++;
                return 0;
        }
        h.make = (uint8_t)make_of(json_str(perf, "coll_timing_source"));
        h.ran = CAPO_ALGO_PROTO(capo_algo_find(json_str(perf, "coll_algo")),
                                capo_proto_find(json_str(perf, "coll_proto")));
        h.channels = (uint8_t)json_count(perf, "coll_n_channels", 0, UINT8_MAX);
        h.comm = strtoull(json_str(header, "id"), NULL, 16);
        run.n_ranks = (int)json_count(header, "n_ranks", 0, INT_MAX);
        run.n_nodes = (int)json_count(header, "nnodes", 0, INT_MAX);
        if (run.n_ranks < 2)
                return 0;
        if (run.n_nodes == 1)
                snprintf(run.layout, sizeof run.layout, "%d", run.n_ranks);
        else if (run.n_nodes == run.n_ranks) {
                char text[24];

                snprintf(text, sizeof text, "%dx1", run.n_nodes);
                capo_input_layout(text, &run);
        }
        if (capo_input_label(in, &run) < 0)
                return -EINVAL;
        r = run_of(in, all, &run);
        if (r < 0 || add_host(&all->runs[r], json_str(json_object_get(o, "metadata"), "hostname")) < 0 ||
            capo_array_room(&all->v, all->n, sizeof *all->v) < 0)
                return -ENOMEM;
        h.run = all->runs[r].run;
        all->v[all->n++] = h;
        return 0;
}

/* Once every node has said its name; some of them tell nothing. */
static int settle_hosts(struct capo_input *in, const struct inspector *all)
{
        for (size_t i = 0; i < all->n_runs; i++) {
                const struct inspector_run *r = &all->runs[i];
                struct capo_trial *t = &in->set->runs[r->run];
                _cleanup_free_ const char **names = calloc(r->n_hosts + 1, sizeof *names);

                if (!names)
                        return -ENOMEM;
                for (size_t k = 0; k < r->n_hosts; k++)
                        names[k] = r->hosts[k];
                if (r->n_hosts && r->n_hosts == (size_t)t->n_nodes)
                        capo_input_hosts(t, names, r->n_hosts);
        }
        return 0;
}

void inspector_finish(struct inspector *all)
{
        for (size_t i = 0; i < all->n_runs; i++)
                free(all->runs[i].hosts);
        free(all->runs);
        free(all->v);
}

int inspector_samples(struct capo_input *in, struct inspector *all)
{
        struct inspector_call *v = all->v;
        size_t n = all->n, before = in->set->n;
        const struct capo_label *user = in->label;

        if (n)
                qsort(v, n, sizeof *v, by_call);
        for (size_t i = 0, k; i < n; i = k) {
                const struct inspector_call *h = &v[i];
                struct capo_sample s;
                unsigned kind = capo_call_kind(h->call);

                for (k = i + 1; k < n && h->comm && v[k].comm == h->comm && v[k].sn == h->sn; k++)
                        ;
                if (kind != CAPO_KIND_ALLREDUCE && kind != CAPO_KIND_ALLGATHER && kind != CAPO_KIND_REDUCESCATTER)
                        h = &v[k - 1];
                s = (struct capo_sample){.bytes = h->bytes,
                                         .us = h->us,
                                         .run = h->run,
                                         .order = h->sn,
                                         .call = h->call,
                                         .make = h->make,
                                         .type = 255,
                                         .op = 255,
                                         .ran = h->ran,
                                         .ran_channels = h->channels};
                if (user)
                        s.want = CAPO_ALGO_PROTO(user->algo, user->proto);
                if (user)
                        s.want_channels = user->channels;
                if (s.want && s.ran &&
                    ((CAPO_ALGO_OF(s.want) && CAPO_ALGO_OF(s.want) != CAPO_ALGO_OF(s.ran)) ||
                     (CAPO_PROTO_OF(s.want) && CAPO_PROTO_OF(s.want) != CAPO_PROTO_OF(s.ran)))) {
                        in->set->n = before;
                        return capo_input_error(in, 0,
                                                "contradicting labels: the command line says %s %s, the file %s %s",
                                                capo_ran_algo(s.want), capo_ran_proto(s.want), capo_ran_algo(s.ran),
                                                capo_ran_proto(s.ran));
                }
                if (capo_samples_add(in->set, &s) < 0)
                        return -ENOMEM;
        }
        return settle_hosts(in, all);
}
