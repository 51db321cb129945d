/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL Inspector's records (plugins/profiler/inspector, formats v4.0 to v4.2): one object per
 * collective and rank, back to back or one per line; every process writes its own file.
 *
 * Inspector identifies calls by NCCL's seqNumber, which counts each kind of collective of a
 * communicator, equally on all ranks. A rank that waits for others measures the waiting too.
 * All-reduce, all-gather and reduce-scatter cannot end on any rank before the last one has come, so
 * the shortest time is the transfer. Where a root may finish early, the longest is.
 *
 * coll_msg_size_bytes is the program's count times the element size: for all-gather and
 * reduce-scatter one rank's share (inspectorComputeOpBw() multiplies it by the ranks). */
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "profiles/import/import_json.h"

struct inspector_call {
        uint64_t comm, bytes;
        double us;
        uint32_t sn, file, host,
                line; /* file, host: indices in struct inspector; host UINT32_MAX: not given */
        int n_ranks, n_nodes;
        uint8_t call, make, ran, channels;
};

/* The calls of one communicator: a run. */
struct inspector_run {
        size_t first, n; /* range in the sorted calls */
        const struct inspector_call *earliest;
};

static int same_run(const struct inspector_call *x, const struct inspector_call *y)
{
        return CAPO_ORDER(x->comm, y->comm) ?: CAPO_ORDER(x->n_ranks, y->n_ranks) ?:
               CAPO_ORDER(x->n_nodes, y->n_nodes) ?: x->comm ? 0 : CAPO_ORDER(x->file, y->file);
}

static int same_call(const struct inspector_call *x, const struct inspector_call *y)
{
        return CAPO_ORDER(x->call, y->call) ?: CAPO_ORDER(x->sn, y->sn) ?: CAPO_ORDER(x->bytes, y->bytes);
}

CAPO_ORDERED(by_call, struct inspector_call, same_run(a, b), same_call(a, b),
             CAPO_ORDER(a->us, b->us));

static int by_place(const struct inspector_call *x, const struct inspector_call *y)
{
        return CAPO_ORDER(x->file, y->file) ?: CAPO_ORDER(x->line, y->line);
}

CAPO_ORDERED(by_earliest, struct inspector_run, by_place(a->earliest, b->earliest),
             CAPO_ORDER(a->first, b->first));

/* The index of @name in @names, added if new. Most records have the same
 * name as the one before. */
static uint32_t name_of(struct inspector_names *names, const char *name)
{
        if (names->n && !strcmp(names->v[names->last], name))
                return (uint32_t)names->last;
        for (size_t i = 0; i < names->n; i++) {
                if (!strcmp(names->v[i], name))
                        return (uint32_t)(names->last = i);
        }
        xarray_room(&names->v, names->n, sizeof *names->v);
        names->v[names->n] = xstrdup(name);
        return (uint32_t)(names->last = names->n++);
}

int inspector_add(struct capo_input *in, struct inspector *all, const json_t *o, unsigned line)
{
        const json_t *header = json_object_get(o, "header"),
                     *perf = json_object_get(o, "coll_perf");
        const char *host = json_str(json_object_get(o, "metadata"), "hostname"), *clock;
        struct inspector_call h = {.line = line, .host = UINT32_MAX};
        unsigned kind;

        if (!json_is_object(perf))
                return 0; /* p2p_perf, dump_stats, ... */
        h.call = (uint8_t)capo_call_find(json_str(perf, "coll"));
        if (!h.call)
                return capo_input_error(in, line,
                                        "coll_perf.coll: expected a collective, found \"%s\"",
                                        json_str(perf, "coll"));
        h.bytes = json_count(perf, "coll_msg_size_bytes", 0, JSON_BYTES_MAX);
        h.us = json_num(perf, "coll_exec_time_us", 0);
        h.sn = (uint32_t)json_count(perf, "coll_sn", 0, UINT32_MAX);
        if (h.bytes == 0 || !(h.us > 0)) {
                in->set->n_empty++;
                return 0;
        }
        clock = json_str(perf, "coll_timing_source");
        h.make = !strcmp(clock, "kernel_gpu")        ? CAPO_MAKE_KERNEL
                 : !strncmp(clock, "kernel_cpu", 10) ? CAPO_MAKE_REPORT
                 : strstr(clock, "cpu")              ? CAPO_MAKE_HOST
                                                     : CAPO_MAKE_UNKNOWN;
        h.ran = CAPO_ALGO_PROTO(capo_algo_find(json_str(perf, "coll_algo")),
                                capo_proto_find(json_str(perf, "coll_proto")));
        h.channels = (uint8_t)json_count(perf, "coll_n_channels", 0, UINT8_MAX);
        h.comm = strtoull(json_str(header, "id"), NULL, 16);
        h.n_ranks = (int)json_count(header, "n_ranks", 0, INT_MAX);
        h.n_nodes = (int)json_count(header, "nnodes", 0, INT_MAX);
        if (h.n_ranks < 2)
                return 0;
        kind = capo_call_kind(h.call);
        if (kind == CAPO_KIND_ALLGATHER || kind == CAPO_KIND_REDUCESCATTER) {
                if (h.bytes > JSON_BYTES_MAX / (unsigned)h.n_ranks)
                        return capo_input_error(
                                in, line,
                                "coll_msg_size_bytes: expected bytes, found more than there are");
                h.bytes *= (unsigned)h.n_ranks;
        }
        h.file = name_of(&all->files, in->path);
        if (*host)
                h.host = name_of(&all->hosts, host);
        *xadd(all->v, all->n) = h;
        return 0;
}

/* Add the run of @r to in->set. Return: its index; -EINVAL with the error set. */
static int64_t add_run(struct capo_input *in, const struct inspector *all,
                       const struct inspector_run *r)
{
        const struct inspector_call *h = r->earliest;
        _cleanup_free_ const char **names = xcalloc(all->hosts.n + 1, sizeof *names);
        _cleanup_free_ bool *seen = xcalloc(all->hosts.n + 1, sizeof *seen);
        struct capo_trial run = {.source = all->files.v[h->file],
                                 .line = h->line,
                                 .iterations = 1,
                                 .n_ranks = h->n_ranks,
                                 .n_nodes = h->n_nodes};
        size_t n = 0;

        if (run.n_nodes == 1 || run.n_nodes == run.n_ranks)
                capo_input_even(&run);
        in->path = run.source;
        if (capo_input_label(in, &run) < 0)
                return -EINVAL;
        for (size_t i = r->first; i < r->first + r->n; i++) {
                uint32_t host = all->v[i].host;

                if (host == UINT32_MAX || seen[host])
                        continue;
                seen[host] = true;
                names[n++] = all->hosts.v[host];
        }
        if (n && n == (size_t)run.n_nodes) /* every node gave its name; some records have none */
                capo_input_hosts(&run, names, n);
        return capo_samples_run(in->set, &run);
}

/* Add one sample per call. Return: 0; -EINVAL with the error set. */
static int add_calls(struct capo_input *in, const struct inspector_call *v, size_t n, uint32_t run)
{
        const struct capo_label *user = in->label;

        for (size_t i = 0, k; i < n; i = k) {
                const struct inspector_call *h = &v[i];
                struct capo_sample s;

                for (k = i + 1; k < n && h->comm && !same_call(&v[k], h); k++)
                        ;
                if (!capo_input_earliest(h->call))
                        h = &v[k - 1];
                s = (struct capo_sample){.bytes = h->bytes,
                                         .us = h->us,
                                         .run = run,
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
                     (CAPO_PROTO_OF(s.want) && CAPO_PROTO_OF(s.want) != CAPO_PROTO_OF(s.ran))))
                        return capo_input_error(
                                in, 0,
                                "contradicting labels: the command line says %s %s, the file %s %s",
                                capo_ran_algo(s.want), capo_ran_proto(s.want), capo_ran_algo(s.ran),
                                capo_ran_proto(s.ran));
                capo_samples_add(in->set, &s);
        }
        return 0;
}

/* Split the calls by communicator. */
static struct inspector_run *runs_of(const struct inspector *all, size_t *n)
{
        struct inspector_run *runs = NULL;

        *n = 0;
        for (size_t i = 0; i < all->n; i++) {
                const struct inspector_call *c = &all->v[i];
                struct inspector_run *r;

                if (i == 0 || same_run(c, c - 1))
                        *xadd(runs, *n) = (struct inspector_run){i, 0, c};
                r = &runs[*n - 1];
                r->n++;
                if (by_place(c, r->earliest) < 0)
                        r->earliest = c;
        }
        return runs;
}

int inspector_samples(struct capo_input *in, struct inspector *all)
{
        _cleanup_free_ struct inspector_run *runs = NULL;
        size_t n = 0, before = in->set->n;

        if (all->n == 0)
                return 0;
        qsort(all->v, all->n, sizeof *all->v, by_call);
        runs = runs_of(all, &n);
        qsort(runs, n, sizeof *runs, by_earliest);
        for (size_t i = 0; i < n; i++) {
                int64_t run = add_run(in, all, &runs[i]);
                int e = run < 0 ? (int)run
                                : add_calls(in, all->v + runs[i].first, runs[i].n, (uint32_t)run);

                if (e < 0) {
                        in->set->n = before;
                        return e;
                }
        }
        return 0;
}

void inspector_finish(struct inspector *all)
{
        for (size_t i = 0; i < all->files.n; i++)
                free(all->files.v[i]);
        for (size_t i = 0; i < all->hosts.n; i++)
                free(all->hosts.v[i]);
        xfree(all->files.v, all->hosts.v, all->v);
}
