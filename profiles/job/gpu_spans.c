/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "core/base/order.h"
#include "profiles/job/gpu_spans.h"

const char *capo_span_by_name(enum capo_span_by by)
{
        static const char *const names[CAPO_SPAN_BYS] = {"host", "order", "guess"};

        return by < CAPO_SPAN_BYS ? names[by] : "?";
}

struct capo_gpu_span capo_gpu_span_of(const struct capo_record *r, uint32_t nth)
{
        bool measured = r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL;
        uint64_t kind = (r->bytes * 0x9e3779b97f4a7c15u) ^ ((uint64_t)r->comm << 8 | r->call);

        return (struct capo_gpu_span){
                .host_begin = r->t_begin,
                .host_end = r->t_end > r->t_begin ? r->t_end : r->t_begin,
                .gpu_ns = measured ? r->gpu_ns : 0,
                .kind = r->flags & CAPO_RECORD_CAPTURED ? 0 : kind | 1,
                .stream = r->stream,
                .nth = nth,
                .measured = measured,
        };
}

/* Kinds one after the other; in each what was measured first, by rising duration. */
static int by_kind(const void *a_, const void *b_)
{
        const struct capo_gpu_span *a = a_, *b = b_;

        return CAPO_ORDER(a->kind, b->kind) ?: b->measured - a->measured ?: CAPO_ORDER(a->gpu_ns, b->gpu_ns);
}

/* What was not measured lasts as long as the median of its kind; of two in the middle the shorter, as a stall may be the
 * other. */
static void assume(struct capo_gpu_span *calls, size_t n)
{
        qsort(calls, n, sizeof *calls, by_kind);
        for (size_t begin = 0, end; begin < n; begin = end) {
                size_t measured = 0;

                for (end = begin; end < n && calls[end].kind == calls[begin].kind; end++)
                        measured += calls[end].measured;
                for (size_t i = begin + measured; i < end; i++)
                        if (!calls[i].gpu_ns && calls[i].kind && measured)
                                calls[i].gpu_ns = calls[begin + (measured - 1) / 2].gpu_ns;
        }
}

/* Streams one after the other, each in the order in which the host filled it. */
static int by_stream(const void *a_, const void *b_)
{
        const struct capo_gpu_span *a = a_, *b = b_;

        return CAPO_ORDER(a->stream, b->stream) ?: CAPO_ORDER(a->host_begin, b->host_begin) ?:
               CAPO_ORDER(a->nth, b->nth);
}

static int by_begin(const void *a_, const void *b_)
{
        const struct capo_gpu_span *a = a_, *b = b_;

        return CAPO_ORDER(a->begin, b->begin) ?: CAPO_ORDER(a->nth, b->nth);
}

void capo_gpu_spans(struct capo_gpu_span *calls, size_t n)
{
        const struct capo_gpu_span *before = NULL; /* the last one on the GPU in this stream */

        if (!n)
                return;
        assume(calls, n);
        qsort(calls, n, sizeof *calls, by_stream);
        for (size_t i = 0; i < n; i++) {
                struct capo_gpu_span *c = &calls[i];

                if (before && before->stream != c->stream)
                        before = NULL;
                c->begin = c->host_begin;
                c->end = c->host_end;
                c->by = CAPO_SPAN_BY_HOST;
                if (!c->gpu_ns)
                        continue;
                if (before && before->end > c->begin) {
                        c->begin = before->end;
                        c->by = before->measured && before->by != CAPO_SPAN_BY_GUESS ? CAPO_SPAN_BY_ORDER
                                                                                     : CAPO_SPAN_BY_GUESS;
                }
                c->end = c->begin + c->gpu_ns;
                before = c;
        }
        qsort(calls, n, sizeof *calls, by_begin);
}
