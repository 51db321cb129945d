/* SPDX-License-Identifier: Apache-2.0 */
/* The single calls of a log as spans of time on the host's clock: when each was on the GPU (gpu_spans.h), where it was. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/util.h"
#include "profiles/job/fabric_parts.h"
#include "profiles/job/gpu_spans.h"
#include "profiles/job/log_calls.h"

static uint32_t comm_of(const struct capo_job *job, uint32_t process, uint16_t id)
{
        for (uint32_t c = 0; c < job->n_comms; c++) {
                for (uint32_t m = 0; m < job->comms[c].n_members; m++) {
                        if (job->comms[c].members[m].process == process && job->comms[c].members[m].id == id)
                                return c;
                }
        }
        return CAPO_NO_COMM;
}

/* What is known of calls of one kind, over all ranks and all calls. */
struct kind {
        uint64_t usual_ns; /* on the GPU; 0 where none was timed */
        double weight;     /* how many of them each one stands for that was drawn */
};

static struct kind kind_of(const struct capo_job *job, uint32_t comm, const struct capo_record *r)
{
        struct kind kind = {.weight = 1};

        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *row = &job->rows[i];
                struct capo_sampled s = capo_job_row_sampled(row);

                if (row->comm != comm || row->call != r->call || row->bytes != r->bytes ||
                    capo_job_row_clock(row) < CAPO_CLOCK_EVENT)
                        continue;
                kind.usual_ns = (uint64_t)capo_sampled_quantile(&s, 0.5);
                kind.weight = capo_sampled_weight(&s);
        }
        return kind;
}

/* Was any call timed on the GPU? If so, what the host saw of another is its enqueueing. */
bool fabric_gpu_timed(const struct capo_job *job)
{
        for (uint32_t i = 0; i < job->n_rows; i++) {
                if (job->rows[i].time[CAPO_CLOCK_EVENT].count || job->rows[i].time[CAPO_CLOCK_KERNEL].count)
                        return true;
        }
        return false;
}

/*
 * A communicator of one rank has nobody to send to: where there are others the traffic is theirs, and its calls take their turn on
 * the stream. (Where all are of one rank it is a program that talks to itself.)
 */
#define SHARE_NONE UINT32_MAX

/* The calls of one log while they are gathered: when, and which share each counts in. */
struct gathered {
        struct capo_fabric_job *f;
        const struct capo_job *job;
        uint32_t process;
        struct capo_gpu_span *spans;
        struct fabric_span *as; /* by span.nth: its share, and for how many it stands */
        bool any_placed;        /* by events */
        bool others;            /* there is a communicator of more than one rank */
        size_t n;
};

static int add_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct gathered *g = arg;
        uint32_t comm = comm_of(g->job, g->process, r->comm), share = SHARE_NONE;
        bool alone = g->others && comm != CAPO_NO_COMM && g->job->comms[comm].n_ranks == 1;
        struct kind kind;
        struct capo_gpu_span span = capo_gpu_span_of(r, (uint32_t)g->n);

        if (r->flags & CAPO_RECORD_MEMBER || capo_call_kind(r->call) == CAPO_KIND_OTHER ||
            (r->flags & CAPO_RECORD_GROUP && !r->bytes)) /* such as one that makes communicators */
                return 0;
        if ((!alone && fabric_share_of(g->f, comm, r->call, &share)) ||
            capo_array_room(&g->spans, g->n, sizeof *g->spans) < 0 || capo_array_room(&g->as, g->n, sizeof *g->as) < 0)
                return -ENOMEM;
        kind = kind_of(g->job, comm, r);
        if (span.kind && !span.measured)
                span.gpu_ns = kind.usual_ns;
        g->any_placed |= span.placed;
        g->spans[g->n] = span;
        g->as[g->n++] = (struct fabric_span){.share = share,
                                             .stands = r->flags & CAPO_RECORD_CHOSEN ? (float)(1 / kind.weight) : 1};
        return 0;
}

static int add_span(struct fabric_spans *s, struct fabric_span span)
{
        if (capo_array_room(&s->span, s->n, sizeof *s->span) < 0)
                return -ENOMEM;
        s->all_measured &= span.measured;
        s->span[s->n++] = span;
        return 0;
}

static int place(struct gathered *g, uint64_t epoch, struct fabric_calls *calls)
{
        struct capo_fabric_job *f = g->f;

        f->placed |= g->any_placed;
        capo_gpu_spans(g->spans, g->n);
        for (size_t i = 0; i < g->n; i++) {
                const struct capo_gpu_span *w = &g->spans[i];
                struct fabric_span as = g->as[w->nth];
                uint64_t end = w->end;

                if (w->by <= CAPO_SPAN_BY_HOST && w->host_end > end)
                        end = w->host_end; /* the host was in the call, and may have moved data, longer than the GPU */
                if (end <= w->begin || as.share == SHARE_NONE)
                        continue;
                f->shares[as.share].calls++;
                f->shares[as.share].guessed += w->by == CAPO_SPAN_BY_GUESS;
                f->shares[as.share].call_ns += (double)(end - w->begin);
                as.begin = epoch + w->begin;
                as.end = epoch + end;
                as.measured = !f->gpu_timed || (w->measured && w->by != CAPO_SPAN_BY_GUESS);
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
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        struct gathered g = {.f = f, .job = job, .process = process};
        char why[128];
        int r = 0;

        for (uint32_t i = 0; i < job->n_comms; i++)
                g.others |= job->comms[i].n_ranks > 1;
        if (!p->n_records || capo_log_open(p->path, &log, why, sizeof why) < 0)
                return 0;
        if (capo_log_calls_each(log, add_call, &g) == -ENOMEM || place(&g, p->header.t0_mono_ns, calls) < 0)
                r = -ENOMEM;
        free(g.spans);
        free(g.as);
        return r;
}
