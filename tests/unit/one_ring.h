/* SPDX-License-Identifier: Apache-2.0 */
/* A segment of one thread, put together by hand: a ring and four slots, a clock whose ticks are
 * nanoseconds. */
#pragma once

#include <criterion/criterion.h>

#include "core/log/segment.h"
#include "core/log/segment_calls.h"

enum { RING = 64 };

static struct capo_segment seg = {.fd = -1};
static struct capo_ring *ring;

static inline void one_ring(void)
{
        struct capo_segment_config config = {.ring_bytes = RING * 64, .flight_records = 64};

        cr_assert_eq(capo_segment_create(&seg, "/nonexistent", &config), 0);
        seg.header->clock = (struct capo_timebase){.ns_per_tick = 1};
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_RINGS, 1), 0);
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_SLOTS, 4), 0);
        seg.header->areas[CAPO_AREA_RINGS].used = 1;
        seg.header->areas[CAPO_AREA_SLOTS].used = 4;
        ring = capo_area_at(&seg, CAPO_AREA_RINGS, 0);
}
