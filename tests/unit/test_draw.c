/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "shim/gpu/draw.h"
#include "shim/record/state.h"
#include "tests/log_numbers.h"

enum { CALLS = 4096, EARLY = 32 };

static struct capo_draw next_draw(struct capo_comm *comm)
{
        comm->seq++;
        return capo_draw_call(comm, CAPO_CALL_ALLREDUCE, 4096, 1);
}

static unsigned alike(struct capo_comm a, struct capo_comm b)
{
        unsigned n = 0;

        for (int i = 0; i < CALLS; i++)
                n += next_draw(&a).timed == next_draw(&b).timed;
        return n;
}

Test(draw, the_first_calls_stand_for_themselves_and_one_in_eight_for_others)
{
        struct capo_comm comm = {.uid = 0x123456789abcdef};
        unsigned drawn = 0;

        capo_draw_one_in(8, true);
        for (int i = 0; i < EARLY; i++) {
                struct capo_draw draw = next_draw(&comm);

                cr_assert(draw.timed && draw.chosen, "call %d", i);
        }
        for (int i = 0; i < 80000; i++) {
                struct capo_draw draw = next_draw(&comm);

                cr_assert_not(draw.chosen);
                drawn += draw.timed;
        }
        cr_expect(drawn > 9500 && drawn < 10500, "%u", drawn);
        cr_expect(capo_draw_call(&comm, CAPO_CALL_ALLREDUCE, 8192, 1).chosen,
                  "the first of its size");
        cr_expect(capo_draw_call(&comm, CAPO_CALL_ALLREDUCE, 8192, 1).chosen, "the second");
        cr_expect_not(capo_draw_call(&comm, CAPO_CALL_ALLREDUCE, 8192, 1).chosen, "the third");
        for (int i = 0; i < 4; i++)
                cr_expect(capo_draw_call(&comm, CAPO_CALL_ALLREDUCE, 1 << 28, 1).chosen,
                          "large ones are all timed, so they stand for no others");
        cr_expect(capo_draw_call(&comm, CAPO_CALL_ALLREDUCE, 4096, 21).chosen, "after a pause");
        for (uint64_t ms = 40; ms < 2000; ms += 19)
                cr_expect_not(capo_draw_call(&comm, CAPO_CALL_ALLREDUCE, 4096, ms).chosen);
}

Test(draw, ranks_agree_and_runs_differ)
{
        struct capo_comm one = {.uid = 0x1111222233334444, .rank = 0},
                         other = {.uid = 0x1111222233334444, .rank = 7},
                         later = {.uid = 0x5555666677778888}, grown = {.uid = 1, .apart = true},
                         grown_too = {.uid = 2, .apart = true};

        capo_draw_one_in(8, true);
        cr_expect_eq(alike(one, other), CALLS);
        cr_expect_lt(alike(one, later), CALLS - CALLS / 16);
        cr_expect_eq(alike(grown, grown_too), CALLS, "ranks that know no common number");
}

Test(draw, all)
{
        struct capo_comm comm = {.uid = 3};

        capo_draw_one_in(1, true);
        for (int i = 0; i < 100; i++) {
                struct capo_draw draw = next_draw(&comm);

                cr_assert(draw.timed && !draw.chosen);
        }
}
