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

/* How long calls of this kind take on the GPU, over all ranks and all calls; 0 where none was timed. */
static uint64_t usual_ns(const struct capo_job *job, uint32_t comm, const struct capo_record *r)
{
        double usual = 0;

        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *row = &job->rows[i];

                if (row->comm != comm || row->call != r->call || row->bytes != r->bytes)
                        continue;
                if (capo_job_row_clock(row) >= CAPO_CLOCK_EVENT) {
                        struct capo_sampled s = capo_job_row_sampled(row);

                        usual = capo_sampled_quantile(&s, 0.5);
                }
        }
        return (uint64_t)usual;
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

/* The calls of one log while they are gathered: when, and which share each counts in. */
struct gathered {
        struct capo_fabric_job *f;
        const struct capo_job *job;
        uint32_t process;
        struct capo_gpu_span *spans;
        uint32_t *share; /* by span.nth */
        size_t n;
};

static int add_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct gathered *g = arg;
        uint32_t comm = comm_of(g->job, g->process, r->comm), share;
        struct capo_gpu_span span = capo_gpu_span_of(r, (uint32_t)g->n);

        if (r->flags & CAPO_RECORD_MEMBER || capo_call_kind(r->call) == CAPO_KIND_OTHER)
                return 0;
        if (fabric_share_of(g->f, comm, r->call, &share) || capo_array_room(&g->spans, g->n, sizeof *g->spans) < 0 ||
            capo_array_room(&g->share, g->n, sizeof *g->share) < 0)
                return -ENOMEM;
        if (span.kind && !span.measured)
                span.gpu_ns = usual_ns(g->job, comm, r);
        g->spans[g->n] = span;
        g->share[g->n++] = share;
        return 0;
}

static int place(struct gathered *g, uint64_t epoch, struct fabric_spans *s)
{
        struct capo_fabric_job *f = g->f;

        capo_gpu_spans(g->spans, g->n);
        for (size_t i = 0; i < g->n; i++) {
                const struct capo_gpu_span *w = &g->spans[i];
                uint32_t share = g->share[w->nth];
                bool sure = !f->gpu_timed || (w->measured && w->by != CAPO_SPAN_BY_GUESS);
                uint64_t end = w->end;

                if (w->by == CAPO_SPAN_BY_HOST && w->host_end > end)
                        end = w->host_end; /* the host was in the call, and may have moved data, longer than the GPU */
                if (end <= w->begin)
                        continue;
                f->shares[share].calls++;
                f->shares[share].guessed += w->by == CAPO_SPAN_BY_GUESS;
                f->shares[share].call_ns += (double)(end - w->begin);
                if (capo_array_room(&s->span, s->n, sizeof *s->span) < 0)
                        return -ENOMEM;
                s->all_measured &= sure;
                s->span[s->n++] = (struct fabric_span){epoch + w->begin, epoch + end, share, sure};
        }
        return 0;
}

int fabric_spans_read(struct capo_fabric_job *f, const struct capo_job *job, uint32_t process, struct fabric_spans *s)
{
        const struct capo_job_process *p = &job->processes[process];
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        struct gathered g = {.f = f, .job = job, .process = process};
        char why[128];
        int r = 0;

        if (!p->n_records || capo_log_open(p->path, &log, why, sizeof why) < 0)
                return 0;
        if (capo_log_calls_each(log, add_call, &g) == -ENOMEM || place(&g, p->header.t0_mono_ns, s) < 0)
                r = -ENOMEM;
        free(g.spans);
        free(g.share);
        return r;
}
