/* SPDX-License-Identifier: Apache-2.0 */

#include "capo/record.h"
#include "core/base/order.h"
#include "analysis/job/gpu_spans.h"

const char *capo_span_by_name(enum capo_span_by by)
{
        static const char *const names[CAPO_SPAN_BYS] = {"event", "host", "order", "guess"};

        return by < CAPO_SPAN_BYS ? names[by] : "?";
}

struct capo_gpu_span capo_gpu_span_of(const struct capo_record *r, uint32_t nth)
{
        bool measured = r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL;
        uint64_t kind = (r->bytes * 0x9e3779b97f4a7c15u) ^ ((uint64_t)r->comm << 8 | r->call),
                 begin = 0;
        bool placed = capo_record_gpu_begin(r, &begin);

        return (struct capo_gpu_span){
                .host_begin = r->t_begin,
                .host_end = r->t_end > r->t_begin ? r->t_end : r->t_begin,
                .gpu_ns = measured ? r->gpu_ns : 0,
                .kind = r->flags & CAPO_RECORD_CAPTURED ? 0 : kind | 1,
                .stream = r->stream,
                .nth = nth,
                .measured = measured,
                .placed = placed,
                .gpu_begin = begin,
        };
}

/* By kind; within a kind the measured calls first, by rising duration. */
CAPO_ORDERED(by_kind, struct capo_gpu_span, CAPO_ORDER(a->kind, b->kind), b->measured - a->measured,
             CAPO_ORDER(a->gpu_ns, b->gpu_ns));

static uint64_t max_time(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Untimed calls get the median duration of their kind; of two in the middle the shorter, because
 * the longer may be a stall. Sets `most` to the longest of the kind for now. Returns the longest of all. */
static uint64_t assume_durations(struct capo_gpu_span *calls, size_t n)
{
        uint64_t longest = 0;

        qsort(calls, n, sizeof *calls, by_kind);
        for (size_t begin = 0, end; begin < n; begin = end) {
                size_t measured = 0;

                for (end = begin; end < n && calls[end].kind == calls[begin].kind; end++)
                        measured += calls[end].measured;
                for (size_t i = begin; i < end; i++) {
                        if (i >= begin + measured && !calls[i].gpu_ns && calls[i].kind && measured)
                                calls[i].gpu_ns = calls[begin + (measured - 1) / 2].gpu_ns;
                        calls[i].most =
                                measured ? calls[begin + measured - 1].gpu_ns : calls[i].gpu_ns;
                        longest = max_time(longest, calls[i].most);
                }
        }
        return longest;
}

/* By stream; within a stream in the order of the host's calls. */
CAPO_ORDERED(by_stream, struct capo_gpu_span, CAPO_ORDER(a->stream, b->stream),
             CAPO_ORDER(a->host_begin, b->host_begin), CAPO_ORDER(a->nth, b->nth));

CAPO_ORDERED(by_begin, struct capo_gpu_span, CAPO_ORDER(a->begin, b->begin),
             CAPO_ORDER(a->nth, b->nth));

/* Are begin and end on the GPU known? */
static bool is_known(const struct capo_gpu_span *c)
{
        return c->measured && c->by != CAPO_SPAN_BY_GUESS;
}

/* Place a call by the order of its stream. @before: the call before it there; NULL: none.
 * @placed_end: end of the last call there with a recorded begin; 0: none. @stall: extra time that
 * one untimed call can have taken. */
static void put_behind(struct capo_gpu_span *c, const struct capo_gpu_span *before,
                       uint64_t placed_end, uint64_t stall)
{
        uint64_t longest = max_time(c->most, c->gpu_ns);

        c->begin = c->host_begin;
        c->by = CAPO_SPAN_BY_HOST;
        if (c->placed) {
                c->begin = max_time(c->gpu_begin, placed_end);
                c->by = CAPO_SPAN_BY_EVENT;
        } else if (before && before->end > c->begin) {
                c->begin = before->end;
                c->by = is_known(before) ? CAPO_SPAN_BY_ORDER : CAPO_SPAN_BY_GUESS;
        }
        c->end = c->most = c->begin + c->gpu_ns;
        c->least = c->begin;
        if (is_known(c))
                return;
        if (before)
                c->least = max_time(c->host_begin, is_known(before) ? before->end : before->least);
        c->most = max_time(c->host_begin + stall, !before            ? 0
                                                  : is_known(before) ? before->end + stall
                                                                     : before->most) +
                  longest;
}

/* The @n calls are followed by one that began at @limit: their bounds end there. Calls placed
 * beyond it are shortened by one common factor, so that they end at @limit. */
static void fit_before(struct capo_gpu_span *calls, size_t n, uint64_t limit)
{
        uint64_t begin = limit, end = 0;

        for (size_t i = 0; i < n; i++) {
                begin = calls[i].gpu_ns && calls[i].begin < begin ? calls[i].begin : begin;
                end = calls[i].gpu_ns ? max_time(end, calls[i].end) : end;
        }
        for (size_t i = 0; i < n; i++) {
                struct capo_gpu_span *c = &calls[i];

                if (!c->gpu_ns) { /* no call of its kind was timed */
                        c->most = c->kind ? max_time(c->end, limit) : c->end;
                        continue;
                }
                if (end > limit) {
                        double measure = (double)(limit - begin) / (double)(end - begin);

                        c->end = begin + (uint64_t)((double)(c->end - begin) * measure);
                        c->begin = begin + (uint64_t)((double)(c->begin - begin) * measure);
                }
                c->least = c->least < c->begin ? c->least : c->begin;
                c->most = max_time(c->end, c->most < limit ? c->most : limit);
        }
}

void capo_gpu_spans(struct capo_gpu_span *calls, size_t n)
{
        const struct capo_gpu_span *before = NULL; /* the last call on the GPU in this stream */
        uint64_t stall, placed_end = 0;
        size_t from =
                0; /* first call behind the last one placed by events, which ended at placed_end */

        if (!n)
                return;
        stall = assume_durations(calls, n);
        qsort(calls, n, sizeof *calls, by_stream);
        for (size_t i = 0; i < n; i++) {
                struct capo_gpu_span *c = &calls[i];

                if (i && calls[i - 1].stream != c->stream) {
                        before = NULL;
                        placed_end = 0;
                        from = i;
                }
                if (!c->gpu_ns) {
                        c->begin = c->least = c->host_begin;
                        c->end = c->most = c->host_end;
                        c->by = CAPO_SPAN_BY_HOST;
                        continue;
                }
                put_behind(c, before, placed_end, stall);
                before = c;
                if (c->by != CAPO_SPAN_BY_EVENT)
                        continue;
                fit_before(calls + from, i - from, c->begin);
                from = i + 1;
                placed_end = c->end;
        }
        qsort(calls, n, sizeof *calls, by_begin);
}
