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

#include "capo/frame_types.h"
#include "capo/record.h"
#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/util.h"
#include "analysis/job/log_calls.h"
#include "profiles/import/log_runs.h"

enum { QUANTILES = 25 };

static int by_match(const void *a, const void *b)
{
        const struct log_call *x = a, *y = b;

        return CAPO_ORDER(x->run, y->run) ?: CAPO_ORDER(x->alone, y->alone) ?:
               CAPO_ORDER(x->seq, y->seq) ?: CAPO_ORDER(x->ns, y->ns);
}

static int append_call(struct log_job *j, const struct log_call *c)
{
        if (capo_array_room(&j->calls, j->n, sizeof *c) < 0)
                return -ENOMEM;
        j->calls[j->n++] = *c;
        return 0;
}

/* What a sample is made of. @calls: how many are left out where it is none. Return: 1 @c is set; 0;
 * negative errno. */
static int describe_call(struct log_job *j, struct log_said *f, const struct capo_record *r,
                         uint64_t calls, struct log_call *c)
{
        const struct capo_log_comm *comm = log_said_comm(f, r->comm);
        enum log_known known;

        switch (capo_call_kind(r->call)) {
        case CAPO_KIND_OTHER:
        case CAPO_KIND_P2P:
        case CAPO_KIND_RMA: return 0;
        default: break;
        }
        if (r->flags & (CAPO_RECORD_MEMBER | CAPO_RECORD_GROUP | CAPO_RECORD_CAPTURED)) {
                j->skipped_group += calls;
                return 0;
        }
        if (r->gpu_ns == 0 || r->result != 0 || r->bytes == 0) {
                j->skipped_host += calls;
                return 0;
        }
        if (!comm)
                return 0;
        *c = (struct log_call){.bytes = r->bytes,
                               .seq = r->seq,
                               .ns = r->gpu_ns,
                               .call = r->call,
                               .type = r->type,
                               .op = r->op,
                               .ran = r->algo_proto,
                               .channels = r->channels,
                               .make = r->clock == CAPO_CLOCK_KERNEL ? CAPO_MAKE_KERNEL
                                                                     : CAPO_MAKE_EVENT,
                               .alone = !comm->uid};
        known = log_said_want(f, r->rule, r->algo_proto, &c->want);
        if (known == LOG_UNNAMED)
                return 0;
        c->unknown = known == LOG_UNKNOWN;
        c->run = log_job_run(j, f, comm);
        if (c->run == UINT32_MAX)
                return j->in->error[0] ? -EINVAL : -ENOMEM;
        return 1;
}

struct log_reading {
        struct log_job *job;
        struct log_said *said;
};

static int take_record(const struct capo_record *r, unsigned thread, void *arg)
{
        struct log_reading *l = arg;
        struct log_call c;
        int e;

        (void)thread;
        l->said->traced++;
        e = describe_call(l->job, l->said, r, 1, &c);
        return e > 0 ? append_call(l->job, &c) : e;
}

/* Times of a call that was only counted, out of its histogram. */
static int append_quantiles(struct log_job *j, struct log_call *c,
                            const struct capo_log_hist_view *gpu)
{
        uint64_t below = 0, q = 0, n = gpu->head.count < QUANTILES ? gpu->head.count : QUANTILES;

        for (uint32_t i = 0; i < gpu->head.n; i++) {
                const struct capo_log_hist_pair *p = &gpu->pairs[i];
                unsigned b = p->bucket < CAPO_HIST_BUCKETS ? p->bucket : CAPO_HIST_BUCKETS - 1;
                double lo = (double)capo_hist_floor(b), hi = (double)capo_hist_floor(b + 1);

                for (; q < n; q++) {
                        double rank = ((double)q + 0.5) / (double)n * (double)gpu->head.count, ns;

                        if (rank >= (double)(below + p->count))
                                break;
                        ns = lo + (hi - lo) * (rank - (double)below) / (double)p->count;
                        /* the counts may be a stranger's */
                        c->ns = (uint32_t)(ns < lo ? lo : ns > hi - 1 ? hi - 1 : ns);
                        c->seq = (uint32_t)q + 1;
                        if (append_call(j, c) < 0)
                                return -ENOMEM;
                }
                below += p->count;
        }
        return 0;
}

/* For a log without single calls. */
static int take_cells(struct log_job *j, struct log_said *f, struct capo_log *log)
{
        struct capo_log_frame frame;
        int e;

        while ((e = capo_log_next(log, &frame)) > 0) {
                struct capo_log_hist_view host, gpu;
                struct capo_log_cell cell;
                struct log_call c;

                if (frame.type != CAPO_FRAME_CELL || capo_log_cell(&frame, &cell, &host, &gpu) < 0)
                        continue;
                e = describe_call(j, f,
                                  &(struct capo_record){.bytes = cell.bytes,
                                                        .gpu_ns = gpu.head.count > 0,
                                                        .comm = cell.comm,
                                                        .rule = cell.rule,
                                                        .call = cell.call,
                                                        .type = 255,
                                                        .op = 255,
                                                        .result = cell.result,
                                                        .clock = cell.clock,
                                                        .flags = cell.flags,
                                                        .algo_proto = cell.algo_proto,
                                                        .channels = cell.channels},
                                  cell.count, &c);
                if (e > 0) {
                        c.alone = true;
                        e = append_quantiles(j, &c, &gpu);
                }
                if (e < 0)
                        return e;
        }
        return e;
}

static int read_log(struct log_job *j, struct capo_log *log, struct log_said *f)
{
        int e = log_said_read(f, log);

        if (capo_log_health(log)->n_damages)
                capo_samples_note(j->in->set, "%s: damaged in %llu places, the rest is used",
                                  capo_log_path(log),
                                  (unsigned long long)capo_log_health(log)->n_damages);
        if (e >= 0) {
                capo_log_rewind(log);
                e = capo_log_calls_each(log, take_record, &(struct log_reading){j, f});
        }
        if (e >= 0 && !f->traced) {
                capo_log_rewind(log);
                e = take_cells(j, f, log);
        }
        return e < 0 ? e : 0;
}

/* A communicator of which it is not known of any call what was forced takes no part; of others only
 * those calls. */
static int leave_out_unknown(struct log_job *j)
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

static int make_samples(struct log_job *j)
{
        if (leave_out_unknown(j) < 0)
                return -ENOMEM;
        if (j->n)
                qsort(j->calls, j->n, sizeof *j->calls, by_match);
        for (size_t i = 0, k; i < j->n; i = k) {
                const struct log_call *c = &j->calls[i];
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
static int input_empty(struct log_job *j, const char *named)
{
        if (capo_array_room(&j->empty, j->n_empty, sizeof *j->empty) < 0)
                return -ENOMEM;
        j->empty[j->n_empty++] = (struct log_empty){named, j->skipped_host, j->skipped_group};
        return 0;
}

/* Said of the first input where nothing of any is used, else noted of each. */
static int say_empty(struct log_job *j)
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
        struct log_job j = {.in = &each};
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
                e = log_job_settle(&j);
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
