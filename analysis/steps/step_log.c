/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of one log as steps are made of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job/gpu_spans.h"
#include "analysis/job/log_calls.h"
#include "analysis/steps/steps_job_parts.h"
#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/util.h"

struct reader {
        struct step_log *to;
        const uint32_t *comms;
        uint32_t most;
        bool spans;
};

void step_log_comms(const struct capo_job *job, uint32_t process, uint32_t *comms)
{
        uint32_t n;
        const struct capo_job_use *use = capo_job_uses(job, process, &n);

        for (; n--; use++)
                comms[job->comms[use->comm].members[use->member].id] = use->comm + 1;
}

/* Twice as many as are wanted are held; then the older half goes. (They are nearly in order.) */
static void drop_old(struct step_log *l, uint32_t most)
{
        if (l->n < 2 * most)
                return;
        memmove(l->call, l->call + most, (l->n - most) * sizeof *l->call);
        l->n -= most;
}

static int take_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct reader *rd = arg;
        struct step_log *l = rd->to;

        if (capo_call_kind(r->call) == CAPO_KIND_OTHER)
                return 0;
        l->captured |= r->flags & CAPO_RECORD_CAPTURED;
        if (r->flags & CAPO_RECORD_CAPTURED)
                return 0;
        if (rd->spans && !(r->flags & CAPO_RECORD_MEMBER) && l->n_spans < 2 * rd->most) {
                if (capo_array_room(&l->span, l->n_spans, sizeof *l->span) < 0)
                        return -ENOMEM;
                l->span[l->n_spans] = capo_gpu_span_of(r, l->n_spans);
                l->n_spans++;
        }
        if (r->flags & CAPO_RECORD_GROUP)
                return 0;
        drop_old(l, rd->most);
        if (capo_array_room(&l->call, l->n, sizeof *l->call) < 0)
                return -ENOMEM;
        l->call[l->n++] = (struct capo_step_call){.t_ns = r->t_begin,
                                                  .bytes = r->bytes,
                                                  .comm = rd->comms[r->comm],
                                                  .seq = r->seq,
                                                  .peer = r->peer,
                                                  .call = r->call};
        return 0;
}

static int by_time(const void *a, const void *b)
{
        const struct capo_step_call *x = a, *y = b;

        if (x->t_ns != y->t_ns)
                return (x->t_ns > y->t_ns) - (x->t_ns < y->t_ns);
        return (x->seq > y->seq) - (x->seq < y->seq);
}

int step_log_read(const struct capo_job *job, uint32_t process, uint32_t most, bool spans,
                  struct step_log *out)
{
        struct capo_log *log = capo_job_log(job, process);
        _cleanup_free_ uint32_t *comms = calloc(65536, sizeof *comms);
        struct reader rd = {.to = out, .comms = comms, .most = most, .spans = spans};

        *out = (struct step_log){0};
        if (!comms)
                return -ENOMEM;
        if (!log)
                return 0;
        step_log_comms(job, process, comms);
        if (capo_log_calls_each(log, take_call, &rd) == -ENOMEM)
                return -ENOMEM;
        capo_log_park(log);
        if (out->n)
                qsort(out->call, out->n, sizeof *out->call, by_time);
        if (out->n > most) {
                memmove(out->call, out->call + (out->n - most), most * sizeof *out->call);
                out->n = most;
        }
        if (out->n_spans)
                capo_gpu_spans(out->span, out->n_spans);
        return 0;
}

void step_log_free(struct step_log *l)
{
        free(l->call);
        free(l->span);
        *l = (struct step_log){0};
}
