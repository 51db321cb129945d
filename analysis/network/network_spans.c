/* SPDX-License-Identifier: Apache-2.0 */
/* The single calls of a log as spans on the host's clock: on the GPU if they ran there
 * (gpu_spans.h). */
#include <errno.h>
#include <stdlib.h>

#include "capo/record.h"
#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/util.h"
#include "analysis/network/network_parts.h"
#include "analysis/job/gpu_spans.h"
#include "analysis/job/stats_private.h"
#include "analysis/job/log_calls.h"

static uint32_t comm_of(const struct capo_job *job, uint32_t process, uint16_t id)
{
        uint32_t n;
        const struct capo_job_use *use = capo_job_uses(job, process, &n);

        for (; n--; use++) {
                if (job->comms[use->comm].members[use->member].id == id)
                        return use->comm;
        }
        return CAPO_NO_COMM;
}

/* Order of rows: communicator, call, bytes. */
static int by_kind(const struct capo_job_row *row, uint32_t comm, const struct capo_record *r)
{
        return CAPO_ORDER(row->comm, comm) ?: row->call - r->call ?: CAPO_ORDER(row->bytes, r->bytes);
}

/* Usual GPU time of calls like @r; 0: none was timed. */
static uint64_t usual_time_of(const struct capo_job *job, uint32_t comm,
                              const struct capo_record *r)
{
        uint64_t usual_ns = 0;
        uint32_t first = 0, end = job->n_rows;

        while (first < end) {
                uint32_t middle = first + (end - first) / 2;

                if (by_kind(&job->rows[middle], comm, r) < 0)
                        first = middle + 1;
                else
                        end = middle;
        }
        for (; first < job->n_rows && by_kind(&job->rows[first], comm, r) == 0; first++) {
                struct capo_sampled s = capo_job_row_sampled(&job->rows[first]);

                if (capo_job_row_clock(&job->rows[first]) < CAPO_CLOCK_EVENT)
                        continue;
                usual_ns = (uint64_t)capo_sampled_quantile(&s, 0.5);
        }
        return usual_ns;
}

/*
 * Calls on communicators with one rank send nothing: if the process has larger communicators, the
 * traffic belongs to those, and the calls only take their time on the stream. (If all communicators
 * have one rank, the program talks to itself.)
 */
#define SHARE_NONE UINT32_MAX

/* What equal calls of a process have in common: a log has millions of calls of a few hundred kinds.
 */
struct alike {
        uint64_t bytes;
        uint32_t share;
        uint16_t comm;
        uint8_t call;
        uint64_t usual_ns; /* on the GPU; 0: none was timed */
};

/* The calls of one log while they are read: times, and the share in which each counts. */
struct gathered {
        struct capo_fabric_job *f;
        const struct capo_job *job;
        uint32_t process;
        struct alike *alike;
        uint32_t n_alike;
        struct job_index index; /* index of the kinds */
        struct capo_gpu_span *spans;
        struct fabric_span *as; /* by span.nth: its share */
        bool any_placed;        /* some have a begin measured by events */
        bool others;            /* some communicator has more than one rank */
        size_t n;
};

static uint64_t alike_hash(uint64_t bytes, uint16_t comm, uint8_t call)
{
        uint64_t key[2] = {bytes, (uint64_t)comm << 8 | call};

        return job_hash(key, sizeof key);
}

/* NULL: no memory. */
static const struct alike *alike_of(struct gathered *g, const struct capo_record *r)
{
        uint64_t hash = alike_hash(r->bytes, r->comm, r->call);
        int grown = job_index_grow(&g->index, g->n_alike);
        uint32_t comm;
        struct alike new = {
                .bytes = r->bytes, .comm = r->comm, .call = r->call, .share = SHARE_NONE};

        if (grown < 0)
                return NULL;
        for (uint32_t i = 0; grown && i < g->n_alike; i++)
                job_index_enter(&g->index,
                                alike_hash(g->alike[i].bytes, g->alike[i].comm, g->alike[i].call),
                                i);
        for (uint32_t at = 0, i; (i = job_index_next(&g->index, hash, &at)) != JOB_INDEX_END;) {
                const struct alike *a = &g->alike[i];

                if (a->bytes == r->bytes && a->comm == r->comm && a->call == r->call)
                        return a;
        }
        comm = comm_of(g->job, g->process, r->comm);
        new.usual_ns = usual_time_of(g->job, comm, r);
        if ((!(g->others && comm != CAPO_NO_COMM && g->job->comms[comm].n_ranks == 1) &&
             fabric_share_of(g->f, comm, r->call, &new.share) < 0) ||
            capo_array_room(&g->alike, g->n_alike, sizeof *g->alike) < 0)
                return NULL;
        job_index_enter(&g->index, hash, g->n_alike);
        g->alike[g->n_alike] = new;
        return &g->alike[g->n_alike++];
}

static int add_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct gathered *g = arg;
        struct capo_gpu_span span = capo_gpu_span_of(r, (uint32_t)g->n);
        const struct alike *a;

        if (r->flags & CAPO_RECORD_MEMBER || capo_call_kind(r->call) == CAPO_KIND_OTHER ||
            (r->flags & CAPO_RECORD_GROUP &&
             !r->bytes)) /* for example a group that creates communicators */
                return 0;
        if (!(a = alike_of(g, r)) || capo_array_room(&g->spans, g->n, sizeof *g->spans) < 0 ||
            capo_array_room(&g->as, g->n, sizeof *g->as) < 0)
                return -ENOMEM;
        if (span.kind && !span.measured)
                span.gpu_ns = a->usual_ns;
        g->any_placed |= span.placed;
        g->spans[g->n] = span;
        g->as[g->n++] = (struct fabric_span){.share = a->share};
        return 0;
}

static int add_span(struct fabric_spans *s, struct fabric_span span)
{
        if (capo_array_room(&s->span, s->n, sizeof *s->span) < 0)
                return -ENOMEM;
        s->span[s->n++] = span;
        return 0;
}

static int place_calls(struct gathered *g, uint64_t epoch, struct fabric_calls *calls)
{
        struct capo_fabric_job *f = g->f;

        f->placed |= g->any_placed;
        capo_gpu_spans(g->spans, g->n);
        for (size_t i = 0; i < g->n; i++) {
                const struct capo_gpu_span *w = &g->spans[i];
                struct fabric_span as = g->as[w->nth];
                uint64_t end = w->end;

                if (w->by <= CAPO_SPAN_BY_HOST && w->host_end > end)
                        end = w->host_end; /* the host was in the call, and may have moved data, for
                                              longer than the GPU */
                if (end <= w->begin || as.share == SHARE_NONE)
                        continue;
                f->shares[as.share].calls++;
                f->shares[as.share].guessed += w->by == CAPO_SPAN_BY_GUESS;
                f->shares[as.share].call_ns += (double)(end - w->begin);
                as.begin = epoch + w->begin;
                as.end = epoch + end;
                if (add_span(&calls->were, as) < 0)
                        return -ENOMEM;
                if (!g->any_placed || (w->least >= w->begin && w->most <= end))
                        continue;
                as.begin = epoch + w->least;
                as.end = epoch + w->most;
                if (add_span(&calls->maybe, as) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int fabric_spans_read(struct capo_fabric_job *f, const struct capo_job *job, uint32_t process,
                      struct fabric_calls *calls)
{
        const struct capo_job_process *p = &job->processes[process];
        struct capo_log *log = capo_job_log(job, process);
        struct gathered g = {.f = f, .job = job, .process = process};
        int r = 0;

        for (uint32_t i = 0; i < job->n_comms; i++)
                g.others |= job->comms[i].n_ranks > 1;
        if (!p->n_records || !log)
                return 0;
        if (capo_log_calls_each(log, add_call, &g) == -ENOMEM ||
            place_calls(&g, p->header.t0_mono_ns, calls) < 0)
                r = -ENOMEM;
        capo_log_park(log);
        free(g.alike);
        free(g.index.slots);
        free(g.spans);
        free(g.as);
        return r;
}
