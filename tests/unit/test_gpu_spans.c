/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "profiles/job/gpu_spans.h"

/* Timed on the GPU unless @ns is 0. */
#define CALL(at, ns, on, what, ...)                                                               \
        {                                                                                         \
                .host_begin = at, .host_end = (at) + 5, .gpu_ns = ns, .stream = on, .kind = what, \
                .measured = (ns) > 0, __VA_ARGS__                                                 \
        }

Test(gpu_spans, an_idle_stream_begins_with_the_host)
{
        struct capo_gpu_span c[] = {CALL(100, 50, 1, 1), CALL(150, 50, 1, 1)};

        capo_gpu_spans(c, 2);
        cr_assert_eq(c[0].begin, 100);
        cr_assert_eq(c[0].end, 150);
        cr_assert_eq(c[1].begin, 150); /* free at that very moment */
        cr_assert_eq(c[1].by, CAPO_SPAN_BY_HOST);
}

Test(gpu_spans, a_busy_stream_goes_on_where_it_was)
{
        /* not in order, as logs have them: a call that is timed is written later */
        struct capo_gpu_span c[] = {
                CALL(120, 30, 1, 1, .nth = 2),  CALL(100, 50, 1, 1, .nth = 0), CALL(110, 0, 1, 2, .nth = 1),
                CALL(1000, 40, 9, 2, .nth = 9), CALL(111, 10, 2, 1, .nth = 3),
        };

        capo_gpu_spans(c, 5);
        cr_assert_eq(c[0].nth, 0);
        cr_assert_eq(c[1].nth, 3); /* the other stream waits for nobody */
        cr_assert_eq(c[1].begin, 111);
        cr_assert_eq(c[1].by, CAPO_SPAN_BY_HOST);
        cr_assert_eq(c[2].nth, 1);
        cr_assert_eq(c[2].begin, 150);
        cr_assert_eq(c[2].by, CAPO_SPAN_BY_ORDER);
        cr_assert_eq(c[3].nth, 2);
        cr_assert_eq(c[3].begin, 190);
        cr_assert_eq(c[3].end, 220);
        cr_assert_eq(c[3].by, CAPO_SPAN_BY_GUESS); /* the one before it was not timed */
}

Test(gpu_spans, a_guess_lasts_until_the_stream_is_idle)
{
        struct capo_gpu_span c[] = {CALL(100, 0, 1, 2), CALL(9000, 50, 8, 2), CALL(110, 10, 1, 1), CALL(120, 10, 1, 1),
                                    CALL(171, 10, 1, 1)};

        capo_gpu_spans(c, 5);
        cr_assert_eq(c[0].gpu_ns, 50);
        cr_assert_eq(c[1].by, CAPO_SPAN_BY_GUESS);
        cr_assert_eq(c[2].by, CAPO_SPAN_BY_GUESS);
        cr_assert_eq(c[2].begin, 160);
        cr_assert_eq(c[3].by, CAPO_SPAN_BY_HOST);
        cr_assert_eq(c[3].begin, 171);
}

Test(gpu_spans, what_is_not_on_the_gpu_holds_up_nobody)
{
        struct capo_gpu_span c[] = {CALL(100, 0, 1, 0), CALL(101, 50, 1, 1)};

        capo_gpu_spans(c, 2);
        cr_assert_eq(c[0].begin, 100);
        cr_assert_eq(c[0].end, 105);
        cr_assert_eq(c[1].begin, 101);
        capo_gpu_spans(NULL, 0);
}

Test(gpu_spans, the_median_stands_for_what_was_not_measured)
{
        struct capo_gpu_span c[] = {CALL(0, 7000, 1, 1), CALL(10000, 60, 1, 1), CALL(20000, 50, 1, 1),
                                    CALL(30000, 0, 1, 1), CALL(40000, 0, 1, 3)};

        capo_gpu_spans(c, 5);
        cr_assert_eq(c[3].end - c[3].begin, 60);
        cr_assert_not(c[3].measured);
        cr_assert_eq(c[4].gpu_ns, 0); /* nothing of its kind was measured */
        cr_assert_eq(c[4].end, 40005);
}

Test(gpu_spans, of_a_record)
{
        struct capo_record r = {.t_begin = 10,
                                .t_end = 30,
                                .bytes = 64,
                                .call = CAPO_CALL_ALLREDUCE,
                                .comm = 1,
                                .stream = 7,
                                .clock = CAPO_CLOCK_EVENT,
                                .gpu_ns = 5000000000u},
                           other = r;
        struct capo_gpu_span w = capo_gpu_span_of(&r, 3);

        cr_assert_eq(w.host_begin, 10);
        cr_assert_eq(w.host_end, 30);
        cr_assert_eq(w.gpu_ns, 5000000000u);
        cr_assert(w.measured && w.kind && w.stream == 7 && w.nth == 3);
        other.bytes = 65;
        cr_assert_neq(capo_gpu_span_of(&other, 0).kind, w.kind);
        other = r;
        other.comm = 2;
        cr_assert_neq(capo_gpu_span_of(&other, 0).kind, w.kind);
        other = r;
        other.call = CAPO_CALL_BROADCAST;
        cr_assert_neq(capo_gpu_span_of(&other, 0).kind, w.kind);
        r.flags = CAPO_RECORD_CAPTURED;
        r.clock = CAPO_CLOCK_NONE;
        cr_assert_eq(capo_gpu_span_of(&r, 0).kind, 0);
        cr_assert_not(capo_gpu_span_of(&r, 0).measured);
}

Test(gpu_spans, names)
{
        cr_assert_str_eq(capo_span_by_name(CAPO_SPAN_BY_HOST), "host");
        cr_assert_str_eq(capo_span_by_name(CAPO_SPAN_BY_ORDER), "order");
        cr_assert_str_eq(capo_span_by_name(CAPO_SPAN_BY_GUESS), "guess");
        cr_assert_str_eq(capo_span_by_name(CAPO_SPAN_BYS), "?");
}
