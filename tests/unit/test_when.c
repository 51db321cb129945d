/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "profiles/job/when.h"

#define CALL(at, ns, on, ...)                                                                   \
        {                                                                                       \
                .host_begin = at, .host_end = (at) + 5, .gpu_ns = ns, .stream = on, __VA_ARGS__ \
        }

Test(when, an_idle_stream_begins_with_the_host)
{
        struct capo_when c[] = {CALL(100, 50, 1, .measured = true), CALL(150, 50, 1, .measured = true)};

        capo_when_all(c, 2);
        cr_assert_eq(c[0].begin, 100);
        cr_assert_eq(c[0].end, 150);
        cr_assert_eq(c[1].begin, 150); /* free at that very moment */
        cr_assert_eq(c[1].by, CAPO_WHEN_HOST);
}

Test(when, a_busy_stream_goes_on_where_it_was)
{
        /* not in order, as logs have them: a call that is timed is written later */
        struct capo_when c[] = {
                CALL(120, 30, 1, .measured = true, .nth = 2),
                CALL(100, 50, 1, .measured = true, .nth = 0),
                CALL(110, 40, 1, .nth = 1),
                CALL(111, 10, 2, .measured = true, .nth = 3),
        };

        capo_when_all(c, 4);
        cr_assert_eq(c[0].nth, 0);
        cr_assert_eq(c[1].nth, 3); /* the other stream waits for nobody */
        cr_assert_eq(c[1].begin, 111);
        cr_assert_eq(c[1].by, CAPO_WHEN_HOST);
        cr_assert_eq(c[2].nth, 1);
        cr_assert_eq(c[2].begin, 150);
        cr_assert_eq(c[2].by, CAPO_WHEN_ORDER);
        cr_assert_eq(c[3].nth, 2);
        cr_assert_eq(c[3].begin, 190);
        cr_assert_eq(c[3].end, 220);
        cr_assert_eq(c[3].by, CAPO_WHEN_GUESS); /* the one before it was not timed */
}

Test(when, a_guess_lasts_until_the_stream_is_idle)
{
        struct capo_when c[] = {CALL(100, 50, 1), CALL(110, 10, 1, .measured = true),
                                CALL(120, 10, 1, .measured = true), CALL(171, 10, 1, .measured = true)};

        capo_when_all(c, 4);
        cr_assert_eq(c[1].by, CAPO_WHEN_GUESS);
        cr_assert_eq(c[2].by, CAPO_WHEN_GUESS);
        cr_assert_eq(c[2].begin, 160);
        cr_assert_eq(c[3].by, CAPO_WHEN_HOST);
        cr_assert_eq(c[3].begin, 171);
}

Test(when, what_is_not_on_the_gpu_holds_up_nobody)
{
        struct capo_when c[] = {CALL(100, 0, 1), CALL(101, 50, 1, .measured = true)};

        capo_when_all(c, 2);
        cr_assert_eq(c[0].begin, 100);
        cr_assert_eq(c[0].end, 105);
        cr_assert_eq(c[1].begin, 101);
        capo_when_all(NULL, 0);
}

Test(when, names)
{
        cr_assert_str_eq(capo_when_name(CAPO_WHEN_HOST), "host");
        cr_assert_str_eq(capo_when_name(CAPO_WHEN_ORDER), "order");
        cr_assert_str_eq(capo_when_name(CAPO_WHEN_GUESS), "guess");
        cr_assert_str_eq(capo_when_name(CAPO_WHENS), "?");
}
