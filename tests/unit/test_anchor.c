/* SPDX-License-Identifier: Apache-2.0 */
/* Where events of a GPU lie on the host's clock, of which only distances and two bounds are known.
 */
#include <criterion/criterion.h>

#include "shim/gpu/anchor.h"

static struct capo_anchor a;

/* The GPU is @ahead of the host; the host asked for an event at @asked, it ran at @ran and the host
 * saw its end, 10 later, at
 * @seen; the anchor ran at @zero. */
static uint64_t place(uint64_t zero, uint64_t ran, uint64_t asked, uint64_t seen)
{
        return capo_anchor_place(&a, (double)ran - (double)zero, 10, asked, seen);
}

Test(anchor, an_idle_stream_says_where_it_is)
{
        a = (struct capo_anchor){0};
        cr_expect_eq(place(1000, 1000, 1000, 5000), 1000);
        cr_expect_eq(place(1000, 7000, 2000, 9000), 7000, "it waited for others");
        cr_expect_eq(place(1000, 900, 100, 9000), 900, "before the anchor, on another stream");
}

Test(anchor, too_early_until_one_is)
{
        a = (struct capo_anchor){0};
        cr_expect_eq(place(1000, 1000, 400, 5000), 400, "behind other work");
        cr_expect_eq(place(1000, 2000, 1500, 5000), 1500);
        cr_expect_eq(place(1000, 3000, 2990, 5000), 2990);
        cr_expect_eq(place(1000, 4000, 3000, 5000), 3990);
        cr_expect_eq(place(1000, 4500, 4500, 5000), 4500);
        cr_expect_eq(place(1000, 5500, 4500, 6000), 5500);
}

Test(anchor, never_behind_what_the_host_has_seen)
{
        a = (struct capo_anchor){0};
        cr_expect_eq(place(1000, 1000, 1000, 5000), 1000);
        cr_expect_eq(place(1000, 9000, 8000, 8910), 8900, "the GPU's clock is fast");
        cr_expect_eq(place(1000, 9100, 8000, 9900), 9000, "and so are the others");
        cr_expect_eq(place(1000, 9000, 8950, 8910), 8950,
                     "not before it was asked for, whatever that says");
}

/* Distances from the new one; an error of one clock against the other does not stay. */
Test(anchor, a_later_event_takes_its_place)
{
        a = (struct capo_anchor){0};
        cr_expect_eq(place(1000, 1000, 1000, 5000), 1000);
        cr_expect_eq(place(1000, 1001000, 500000, 1002000), 1001000);
        capo_anchor_move(&a, 1000000);
        cr_expect_eq(place(1001000, 1501000, 600000, 1600000), 1501000 - 50);
        cr_expect_eq(place(1001000, 1501000, 1500980, 1600000), 1501000 - 20);
        cr_expect_eq(place(1001000, 1701000, 1600000, 1800000), 1701000 - 20);
}
