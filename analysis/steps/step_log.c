/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the calls of a log in the form that step detection needs. */
#include "analysis/job/gpu_spans.h"
#include "analysis/job/log_calls.h"
#include "analysis/steps/steps_job_parts.h"
#include "capo/record.h"
#include "core/base/order.h"
#include "core/base/calls.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"

struct reader {
        struct step_log *to;
        const uint32_t *comms;
        uint32_t most;
        bool spans, measured;
        uint64_t n, n_spans; /* number seen so far */
};

void step_log_comms(const struct capo_job *job, uint32_t process, uint32_t *comms)
{
        uint32_t n;
        const struct capo_job_use *use = capo_job_uses(job, process, &n);

        for (; n--; use++)
                comms[job->comms[use->comm].members[use->member].id] = use->comm + 1;
}

/* Place for the next item of a ring of @most. NULL: no memory. */
static void *next_place(void *list, uint64_t *n, uint32_t most, size_t size)
{
        uint64_t at = (*n)++;
        char **items = list;

        if (at < most)
                xarray_room(list, at, size);
        return *items + at % most * size;
}

static void take_span(struct reader *rd, const struct capo_record *r)
{
        uint64_t nth = rd->n_spans;
        struct capo_gpu_span *to =
                next_place(&rd->to->span, &rd->n_spans, rd->most, sizeof *rd->to->span);

        *to = capo_gpu_span_of(r, (uint32_t)(nth % rd->most));
        rd->measured |= to->measured;
}

static int take_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct reader *rd = arg;
        struct capo_step_call *to;

        if (capo_call_kind(r->call) == CAPO_KIND_OTHER)
                return 0;
        rd->to->captured |= r->flags & CAPO_RECORD_CAPTURED;
        if (r->flags & CAPO_RECORD_CAPTURED)
                return 0;
        if (rd->spans && !(r->flags & CAPO_RECORD_MEMBER))
                take_span(rd, r);
        if (r->flags & CAPO_RECORD_GROUP)
                return 0;
        to = next_place(&rd->to->call, &rd->n, rd->most, sizeof *to);
        *to = (struct capo_step_call){.t_ns = r->t_begin,
                                      .bytes = r->bytes,
                                      .comm = rd->comms[r->comm],
                                      .seq = r->seq,
                                      .peer = r->peer,
                                      .call = r->call,
                                      .rule = r->rule};
        return 0;
}

CAPO_ORDERED(by_time, struct capo_step_call, CAPO_ORDER(a->t_ns, b->t_ns),
             CAPO_ORDER(a->seq, b->seq));

static void sort_calls(struct step_log *l)
{
        uint32_t i = 1;

        while (i < l->n && by_time(&l->call[i - 1], &l->call[i]) <= 0)
                i++;
        if (i < l->n)
                qsort(l->call, l->n, sizeof *l->call, by_time);
}

void step_log_read(const struct capo_job *job, uint32_t process, uint32_t most, bool spans,
                   struct step_log *out)
{
        struct capo_log *log = capo_job_log(job, process);
        _cleanup_free_ uint32_t *comms = xcalloc(65536, sizeof *comms);
        struct reader rd = {.to = out, .comms = comms, .most = most, .spans = spans};

        *out = (struct step_log){0};
        if (!log)
                return;
        step_log_comms(job, process, comms);
        capo_log_calls_each(log, take_call, &rd);
        capo_log_park(log);
        out->n = rd.n < most ? (uint32_t)rd.n : most;
        out->n_spans = rd.n_spans < most ? (uint32_t)rd.n_spans : most;
        sort_calls(out);
        if (rd.measured) /* without any, spans say nothing */
                capo_gpu_spans(out->span, out->n_spans);
        else
                out->n_spans = 0;
}

void step_log_free(struct step_log *l)
{
        free(l->call);
        free(l->span);
        *l = (struct step_log){0};
}
