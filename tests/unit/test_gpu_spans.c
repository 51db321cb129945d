/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "analysis/job/gpu_spans.h"
#include "capo/record.h"
#include "tests/log_numbers.h"

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
                CALL(120, 30, 1, 1, .nth = 2), CALL(100, 50, 1, 1, .nth = 0),
                CALL(110, 0, 1, 2, .nth = 1),  CALL(1000, 40, 9, 2, .nth = 9),
                CALL(111, 10, 2, 1, .nth = 3),
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
        struct capo_gpu_span c[] = {CALL(100, 0, 1, 2), CALL(9000, 50, 8, 2), CALL(110, 10, 1, 1),
                                    CALL(120, 10, 1, 1), CALL(171, 10, 1, 1)};

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
        struct capo_gpu_span c[] = {CALL(0, 7000, 1, 1), CALL(10000, 60, 1, 1),
                                    CALL(20000, 50, 1, 1), CALL(30000, 0, 1, 1),
                                    CALL(40000, 0, 1, 3)};

        capo_gpu_spans(c, 5);
        cr_assert_eq(c[3].end - c[3].begin, 60);
        cr_assert_not(c[3].measured);
        cr_assert_eq(c[4].gpu_ns, 0); /* nothing of its kind was measured */
        cr_assert_eq(c[4].end, 40005);
}

#define PLACED(at, begins, ns, on, what, ...) \
        CALL(at, ns, on, what, .placed = true, .gpu_begin = begins, __VA_ARGS__)

/* What was not timed lies between the two that were. */
Test(gpu_spans, events_tell_where_the_neighbours_are)
{
        struct capo_gpu_span c[] = {
                PLACED(100, 110, 50, 1, 1, .nth = 0), CALL(101, 0, 1, 1, .nth = 1),
                CALL(102, 0, 1, 1, .nth = 2),         PLACED(103, 1000, 70, 1, 1, .nth = 3),
                CALL(104, 0, 1, 1, .nth = 4),         CALL(105, 0, 1, 1, .nth = 5)};
        static const uint64_t begin[] = {110, 160, 210, 1000, 1070, 1120},
                              least[] = {110, 160, 160, 1000, 1070, 1070},
                              most[] = {160, 300, 370, 1070, 1210, 1280};
        static const enum capo_span_by by[] = {CAPO_SPAN_BY_EVENT, CAPO_SPAN_BY_ORDER,
                                               CAPO_SPAN_BY_GUESS, CAPO_SPAN_BY_EVENT,
                                               CAPO_SPAN_BY_ORDER, CAPO_SPAN_BY_GUESS};

        capo_gpu_spans(c, 6);
        for (uint32_t i = 0; i < 6; i++) {
                cr_expect_eq(c[i].nth, i);
                cr_expect(c[i].begin == begin[i] && c[i].by == by[i], "%u begins %lu by %d", i,
                          c[i].begin, c[i].by);
                cr_expect(c[i].least == least[i] && c[i].most == most[i], "%u: %lu to %lu", i,
                          c[i].least, c[i].most);
                cr_expect_eq(c[i].end - c[i].begin, i == 3 ? 70 : 50);
        }
}

/* Three calls of 50 in a gap of 60: each has 20. */
Test(gpu_spans, there_is_only_so_much_room_between_them)
{
        struct capo_gpu_span c[] = {
                PLACED(100, 100, 50, 1, 1, .nth = 0), CALL(101, 0, 1, 1, .nth = 1),
                CALL(102, 0, 1, 1, .nth = 2),         CALL(103, 0, 1, 1, .nth = 3),
                PLACED(104, 210, 50, 1, 1, .nth = 4), PLACED(105, 255, 50, 1, 1, .nth = 5),
                PLACED(10, 20, 50, 2, 1, .nth = 6)};

        capo_gpu_spans(c, 7);
        for (uint32_t i = 1; i <= 4; i++) { /* 0 is the one of the other stream */
                cr_expect_eq(c[i].nth, i - 1);
                cr_expect_eq(c[i].begin, i == 1 ? 100 : 130 + 20 * i - 20);
                cr_expect_leq(c[i].most, i == 1 ? 150 : 210);
        }
        cr_expect_eq(c[4].end, 210);
        cr_expect_eq(c[6].begin, 260,
                     "one stream does one thing at a time, whatever the stamps say");
        cr_expect_eq(c[0].end, 70);
}

/* A kind that was never timed is where the host made it, and can have been there until the next
 * that was. */
Test(gpu_spans, what_was_never_timed_ends_before_the_next)
{
        struct capo_gpu_span c[] = {CALL(100, 0, 1, 2, .nth = 0), CALL(101, 0, 1, 0, .nth = 1),
                                    PLACED(110, 500, 50, 1, 1, .nth = 2),
                                    CALL(600, 0, 1, 2, .nth = 3)};

        capo_gpu_spans(c, 4);
        cr_expect(c[0].begin == 100 && c[0].end == 105 && c[0].most == 500);
        cr_expect(c[1].most == 106, "while a graph was captured it was on no GPU");
        cr_expect(c[3].begin == 600 && c[3].most == 605);
}

/* Only what was timed is moved together. */
Test(gpu_spans, what_was_never_timed_stays_where_the_host_made_it)
{
        struct capo_gpu_span c[] = {PLACED(100, 100, 50, 1, 1, .nth = 0),
                                    CALL(101, 0, 1, 1, .nth = 1), CALL(190, 0, 1, 2, .nth = 2),
                                    CALL(191, 0, 1, 1, .nth = 3),
                                    PLACED(192, 210, 50, 1, 1, .nth = 4)};

        capo_gpu_spans(c, 5);
        cr_assert(c[1].nth == 1 && c[1].begin == 150 && c[1].end == 180, "%lu to %lu", c[1].begin,
                  c[1].end);
        for (uint32_t i = 2; i < 4; i++) {
                if (c[i].nth == 2)
                        cr_assert(c[i].begin == 190 && c[i].least == 190 && c[i].end == 195 &&
                                          c[i].most == 210,
                                  "%lu to %lu", c[i].begin, c[i].end);
                else
                        cr_assert(c[i].nth == 3 && c[i].end == 210);
        }
}

Test(gpu_spans, of_a_record)
{
        uint64_t begin;

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
        cr_assert(w.measured && w.kind && w.stream == 7 && w.nth == 3 && !w.placed);
        other.group = 1 + 25; /* tenths of microseconds */
        cr_assert(capo_gpu_span_of(&other, 0).placed &&
                  capo_gpu_span_of(&other, 0).gpu_begin == 2510);
        other.flags = CAPO_RECORD_MEMBER; /* the number of its group */
        cr_assert_not(capo_record_gpu_begin(&other, &begin));
        other = r;
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
        cr_assert_str_eq(capo_span_by_name(CAPO_SPAN_BY_EVENT), "event");
        cr_assert_str_eq(capo_span_by_name(CAPO_SPAN_BY_HOST), "host");
        cr_assert_str_eq(capo_span_by_name(CAPO_SPAN_BY_ORDER), "order");
        cr_assert_str_eq(capo_span_by_name(CAPO_SPAN_BY_GUESS), "guess");
        cr_assert_str_eq(capo_span_by_name(CAPO_SPAN_BYS), "?");
}

/* Events place a call as early as is known at that moment, so a later one may seem to begin within
 * an earlier one. */
Test(gpu_spans, one_that_was_not_timed_between_two_lets_them_not_overlap)
{
        struct capo_gpu_span c[] = {CALL(100, 400, 1, 1, .placed = true, .gpu_begin = 150),
                                    CALL(110, 0, 1, 1),
                                    CALL(120, 50, 1, 1, .placed = true, .gpu_begin = 480)};

        capo_gpu_spans(c, 3);
        cr_assert_eq(c[0].begin, 150);
        cr_assert_eq(c[0].end, 550);
        cr_assert_eq(c[1].begin, 550, "%llu",
                     (unsigned long long)c[1].begin); /* no room is left for it */
        cr_assert_eq(c[1].end, 550);
        cr_assert_eq(c[2].begin, 550, "%llu", (unsigned long long)c[2].begin);
        cr_assert_eq(c[2].end, 600);
}
