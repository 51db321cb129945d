/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capo's own logs. Every rank times every call, and what a rank times includes its waiting for the
 * others; so the logs of one job are read together, the calls are matched by (communicator,
 * sequence number), and one sample is made of each: the shortest rank's time where no rank can be
 * done before the last has come (all-reduce, all-gather, reduce-scatter), else the longest.
 *
 * Single calls are in the log when everything was traced (`capo sweep` does), or as the last ones
 * of the flight recorder. For calls that are only counted, the histograms of the cells stand in, as
 * quantiles: their buckets are 1/16 of an octave wide, so that such times are good to a few
 * percent.
 *
 * Only calls by themselves, timed on the GPU, count: a group's members have no time of their own,
 * and a host time is the enqueue.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/layout.h"
#include "core/base/order.h"
#include "core/base/util.h"
#include "analysis/log/log_read.h"
#include "profiles/import/import_private.h"
#include "profiles/import/log_labels.h"

enum { QUANTILES = 25, MAX_RANKS = 65536 };

struct call {
        uint64_t bytes;
        uint32_t seq, ns, run;
        uint8_t call, type, op, make, ran, channels;
        struct log_want want;
        bool unknown; /* what was forced */
        bool alone;   /* no other rank's time of it can be found */
};

struct job_comm {
        uint64_t uid;
        uint32_t run;
        int n_ranks;
        uint32_t *ranks_on; /* ranks seen, by host; of n_hosts_ hosts */
        uint32_t n_hosts_;
        uint8_t *ranks; /* seen, a bit each; NULL: too many to tell */
};

struct job {
        struct capo_input *in;
        struct call *calls;
        size_t n;
        struct job_comm *comms; /* by uid */
        size_t n_comms;
        char (*hosts)[64]; /* as NCCL tells nodes apart: NCCL_HOSTID, else the host's name */
        uint32_t n_hosts;
        uint64_t skipped_host, skipped_group; /* of the input being read */
        struct job_empty {
                const char *named;
                uint64_t host, group;
        } * empty; /* inputs without a call that is used */
        size_t n_empty;
};

static int by_match(const void *a, const void *b)
{
        const struct call *x = a, *y = b;

        return CAPO_ORDER(x->run, y->run) ?: CAPO_ORDER(x->alone, y->alone) ?:
               CAPO_ORDER(x->seq, y->seq) ?: CAPO_ORDER(x->ns, y->ns);
}

/* Logs of one host mostly come one after the other. UINT32_MAX: no memory. */
static uint32_t host_of(struct job *j, const char *name)
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

static int count_on_host(struct job_comm *k, uint32_t host)
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
static int settle_layouts(struct job *j)
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
static bool has_rank(const struct job_comm *k, const struct capo_log_comm *c)
{
        return k->ranks && c->rank >= 0 && c->rank < k->n_ranks &&
               k->ranks[c->rank / 8] & 1 << c->rank % 8;
}

/* Rank @c of @k has a log too, of the host that @f names. */
static int mark_rank(struct job *j, struct job_comm *k, struct log_said *f,
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
static uint32_t new_run(struct job *j, struct log_said *f, const struct capo_log_comm *c)
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
        struct job_comm k = {.uid = c->uid, .n_ranks = c->n_ranks};

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

static uint32_t run_of(struct job *j, struct log_said *f, const struct capo_log_comm *c)
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

static int append_call(struct job *j, const struct call *c)
{
        if (capo_array_room(&j->calls, j->n, sizeof *c) < 0)
                return -ENOMEM;
        j->calls[j->n++] = *c;
        return 0;
}

static int take_record(struct job *j, struct log_said *f, const struct capo_record *r)
{
        const struct capo_log_comm *comm = log_said_comm(f, r->comm);
        struct call c = {.bytes = r->bytes,
                         .seq = r->seq,
                         .ns = r->gpu_ns,
                         .call = r->call,
                         .type = r->type,
                         .op = r->op,
                         .ran = r->algo_proto,
                         .channels = r->channels,
                         .make = r->clock == CAPO_CLOCK_KERNEL ? CAPO_MAKE_KERNEL
                                                               : CAPO_MAKE_EVENT};
        enum log_known known;

        f->traced++;
        switch (capo_call_kind(r->call)) {
        case CAPO_KIND_OTHER:
        case CAPO_KIND_P2P:
        case CAPO_KIND_RMA: return 0;
        default: break;
        }
        if (r->flags & (CAPO_RECORD_MEMBER | CAPO_RECORD_GROUP | CAPO_RECORD_CAPTURED)) {
                j->skipped_group++;
                return 0;
        }
        if (r->gpu_ns == 0 || r->result != 0 || r->bytes == 0) {
                j->skipped_host++;
                return 0;
        }
        if (!comm)
                return 0;
        known = log_said_want(f, r->rule, r->algo_proto, &c.want);
        if (known == LOG_UNNAMED)
                return 0;
        c.unknown = known == LOG_UNKNOWN;
        c.alone = !comm->uid;
        c.run = run_of(j, f, comm);
        if (c.run == UINT32_MAX)
                return j->in->error[0] ? -EINVAL : -ENOMEM;
        return append_call(j, &c);
}

static int take_calls(struct job *j, struct log_said *f, struct capo_log *log)
{
        struct capo_log_frame frame;
        int e;

        while ((e = capo_log_next(log, &frame)) > 0) {
                struct capo_log_columns columns;
                struct capo_record record;

                if (frame.type == CAPO_FRAME_BLOCK && capo_log_block(&frame, &columns) == 0) {
                        for (uint32_t i = 0; i < columns.n && e >= 0; i++) {
                                capo_log_record(&columns, i, &f->shapes[columns.shape[i]], &record);
                                e = take_record(j, f, &record);
                        }
                } else if (frame.type == CAPO_FRAME_WIDE) {
                        for (unsigned i = 0; e >= 0 && capo_log_wide(&frame, i, &record); i++)
                                e = take_record(j, f, &record);
                }
                if (e < 0)
                        return e;
        }
        return e;
}

/* The histograms of one log, for calls that were only counted. @counted: per cell, how many came as
 * single calls is not known, so cells are used only when the log has next to none. */
static int take_cells(struct job *j, struct log_said *f, struct capo_log *log)
{
        struct capo_log_frame frame;
        int e;

        while ((e = capo_log_next(log, &frame)) > 0) {
                struct capo_log_hist_view host, gpu;
                struct capo_log_cell cell;
                struct call c = {0};
                uint64_t below = 0, q = 0, n;
                enum log_known known;

                if (frame.type != CAPO_FRAME_CELL || capo_log_cell(&frame, &cell, &host, &gpu) < 0)
                        continue;
                switch (capo_call_kind(cell.call)) {
                case CAPO_KIND_OTHER:
                case CAPO_KIND_P2P:
                case CAPO_KIND_RMA: continue;
                default: break;
                }
                if (cell.flags & (CAPO_RECORD_MEMBER | CAPO_RECORD_GROUP | CAPO_RECORD_CAPTURED)) {
                        j->skipped_group += cell.count;
                        continue;
                }
                if (gpu.head.count == 0 || cell.result != 0 || cell.bytes == 0) {
                        j->skipped_host += cell.count;
                        continue;
                }
                c = (struct call){.bytes = cell.bytes,
                                  .call = cell.call,
                                  .type = 255,
                                  .op = 255,
                                  .ran = cell.algo_proto,
                                  .channels = cell.channels,
                                  .alone = true,
                                  .make = cell.clock == CAPO_CLOCK_KERNEL ? CAPO_MAKE_KERNEL
                                                                          : CAPO_MAKE_EVENT};
                if (!log_said_comm(f, cell.comm))
                        continue;
                known = log_said_want(f, cell.rule, cell.algo_proto, &c.want);
                if (known == LOG_UNNAMED)
                        continue;
                c.unknown = known == LOG_UNKNOWN;
                c.run = run_of(j, f, log_said_comm(f, cell.comm));
                if (c.run == UINT32_MAX)
                        return j->in->error[0] ? -EINVAL : -ENOMEM;
                n = gpu.head.count < QUANTILES ? gpu.head.count : QUANTILES;
                for (uint32_t i = 0; i < gpu.head.n; i++) {
                        const struct capo_log_hist_pair *p = &gpu.pairs[i];
                        unsigned b =
                                p->bucket < CAPO_HIST_BUCKETS ? p->bucket : CAPO_HIST_BUCKETS - 1;
                        double lo = (double)capo_hist_floor(b), hi = (double)capo_hist_floor(b + 1);

                        for (; q < n; q++) {
                                double rank = ((double)q + 0.5) / (double)n *
                                              (double)gpu.head.count,
                                       ns;

                                if (rank >= (double)(below + p->count))
                                        break;
                                ns = lo + (hi - lo) * (rank - (double)below) / (double)p->count;
                                c.ns = (uint32_t)(ns < lo       ? lo
                                                  : ns > hi - 1 ? hi - 1
                                                                : ns); /* a stranger's counts */
                                c.seq = (uint32_t)q + 1;
                                if (append_call(j, &c) < 0)
                                        return -ENOMEM;
                        }
                        below += p->count;
                }
        }
        return e;
}

static int read_log(struct job *j, struct capo_log *log, struct log_said *f)
{
        int e = log_said_read(f, log);

        if (capo_log_health(log)->n_damages)
                capo_samples_note(j->in->set, "%s: damaged in %llu places, the rest is used",
                                  capo_log_path(log),
                                  (unsigned long long)capo_log_health(log)->n_damages);
        if (e >= 0) {
                capo_log_rewind(log);
                e = take_calls(j, f, log);
        }
        if (e >= 0 && !f->traced) {
                capo_log_rewind(log);
                e = take_cells(j, f, log);
        }
        return e < 0 ? e : 0;
}

/* A communicator of which it is not known of any call what was forced takes no part; of others only
 * those calls. */
static int leave_out_unknown(struct job *j)
{
        struct capo_trial *runs = j->in->set->runs;
        _cleanup_free_ bool *known = calloc(j->in->set->n_runs + 1, sizeof *known);
        size_t kept = 0;

        if (!known)
                return -ENOMEM;
        for (size_t k = 0; k < j->n; k++)
                known[j->calls[k].run] |= !j->calls[k].unknown;
        for (size_t i = 0; i < j->n_comms; i++) {
                struct capo_trial *t = &runs[j->comms[i].run];

                if (known[j->comms[i].run])
                        continue;
                snprintf(t->why, sizeof t->why,
                         "NCCL_ALGO or NCCL_PROTO is a list there: it does not say what ran");
                t->left_out = true;
        }
        for (size_t k = 0; k < j->n; k++) {
                if (!j->calls[k].unknown || runs[j->calls[k].run].left_out)
                        j->calls[kept++] = j->calls[k];
        }
        j->n = kept;
        return 0;
}

static int make_samples(struct job *j)
{
        if (leave_out_unknown(j) < 0)
                return -ENOMEM;
        if (j->n)
                qsort(j->calls, j->n, sizeof *j->calls, by_match);
        for (size_t i = 0, k; i < j->n; i = k) {
                const struct call *c = &j->calls[i];
                struct capo_sample s;
                unsigned kind = capo_call_kind(c->call);

                for (k = i + 1; k < j->n && !c->alone && j->calls[k].run == c->run &&
                                !j->calls[k].alone && j->calls[k].seq == c->seq;
                     k++)
                        ;
                if (kind != CAPO_KIND_ALLREDUCE && kind != CAPO_KIND_ALLGATHER &&
                    kind != CAPO_KIND_REDUCESCATTER)
                        c = &j->calls[k - 1];
                s = (struct capo_sample){.bytes = c->bytes,
                                         .us = c->ns / 1e3,
                                         .run = c->run,
                                         .order = c->seq,
                                         .call = c->call,
                                         .make = c->make,
                                         .type = c->type,
                                         .op = c->op,
                                         .want = c->want.algo_proto,
                                         .want_channels = c->want.channels,
                                         .want_chunk = c->want.chunk,
                                         .ran = c->ran,
                                         .ran_channels = c->channels};
                if (s.us > 0 && capo_samples_add(j->in->set, &s) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* An input is over, and nothing of it is used: what there was instead. */
static int input_empty(struct job *j, const char *named)
{
        if (capo_array_room(&j->empty, j->n_empty, sizeof *j->empty) < 0)
                return -ENOMEM;
        j->empty[j->n_empty++] = (struct job_empty){named, j->skipped_host, j->skipped_group};
        return 0;
}

/* Said of the first input where nothing of any is used, else noted of each. */
static int say_empty(struct job *j)
{
        static const char said[] =
                "%s: no collective timed on the GPU in these logs (%llu calls with host times only, "
                "%llu in groups or graphs); CAPO_GPU_SAMPLE=1 times every call";
        size_t i = j->n == 0 && j->n_empty;

        if (i)
                snprintf(j->in->error, j->in->room, said, j->empty[0].named,
                         (unsigned long long)j->empty[0].host,
                         (unsigned long long)j->empty[0].group);
        for (size_t k = i; k < j->n_empty; k++)
                capo_samples_note(j->in->set, said, j->empty[k].named,
                                  (unsigned long long)j->empty[k].host,
                                  (unsigned long long)j->empty[k].group);
        return i ? -ENODATA : 0;
}

int capo_import_logs(struct capo_input *in, struct capo_late_log *logs, size_t n)
{
        _cleanup_(log_said_freep) struct log_said *f = log_said_new();
        struct capo_input each = *in;
        char said[512] = "";
        struct job j = {.in = &each};
        size_t before = 0;
        int e = f ? 0 : -ENOMEM, wrong = 0;

        for (size_t i = 0; i < n && e == 0; i++) {
                each.path = logs[i].named;
                if (logs[i].log)
                        e = read_log(&j, logs[i].log, f);
                else
                        capo_samples_note(in->set, "left out %s: %s", logs[i].path,
                                          logs[i].why ? logs[i].why : "no memory");
                log_said_clear(f);
                if (logs[i].log)
                        capo_log_park(logs[i].log);
                if (!logs[i].lent)
                        capo_log_close(steal(&logs[i].log));
                if (e == -EINVAL) { /* this log is out, the others are not */
                        if (!wrong)
                                snprintf(said, sizeof said, "%s", in->error);
                        *in->error = 0;
                        wrong = e;
                        e = 0;
                } else if (e == 0 && (i + 1 == n || strcmp(logs[i].named, logs[i + 1].named))) {
                        e = j.n == before ? input_empty(&j, logs[i].named) : 0;
                        before = j.n;
                        j.skipped_host = j.skipped_group = 0;
                }
        }
        if (e == 0)
                e = settle_layouts(&j);
        if (e == 0)
                e = make_samples(&j);
        if (e == 0)
                e = say_empty(&j);
        if (wrong && (e == 0 || e == -ENODATA)) {
                snprintf(in->error, in->room, "%s", said);
                e = wrong;
        }
        if (e < 0 && !in->error[0])
                snprintf(in->error, in->room, "%s: %s", in->path, strerror(-e));
        for (size_t i = 0; i < j.n_comms; i++) {
                free(j.comms[i].ranks_on);
                free(j.comms[i].ranks);
        }
        free(j.calls);
        free(j.hosts);
        free(j.comms);
        free(j.empty);
        return e;
}
