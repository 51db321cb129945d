/* SPDX-License-Identifier: Apache-2.0 */
/* When the GPU passed an event, on the host's clock. The driver tells how far apart two events are
 * and nothing else, so one of them, the anchor, needs a place on the host's clock. Two things are
 * known of every event that was timed: the GPU cannot have passed it before the host asked for it,
 * and had done so when the host saw it; each is a bound of where the anchor is. The anchor is taken
 * to be as early as the former allow: that is right within the launch of an event as soon as one of
 * them found an idle stream, and too early, never too late, while all wait behind other work.
 *
 * Clocks of a GPU and of its host run apart, and the driver's floats have 24 bits: an anchor is
 * used for a few seconds, then a later event takes its place, a little earlier than it would
 * follow, so that an error does not stay. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CAPO_ANCHOR_MS 4000.0 /* use it for as long */

struct capo_anchor {
        bool set;
        double at; /* when the GPU passed it, in the host's ticks */
};

/** capo_anchor_place() - when the GPU passed an event, in ticks
 * @since: how long after the anchor it did; below 0 before it
 * @took:  and how long after that the GPU passed a second one, which the host has seen
 * @asked: when the host asked for the event: before that
 * @seen:  when it looked for the second one: behind that
 *
 * All in ticks. The first event of all becomes the anchor: @since is 0 then. */
uint64_t capo_anchor_place(struct capo_anchor *a, double since, double took, uint64_t asked,
                           uint64_t seen);

/** capo_anchor_move() - the event placed last, @since after it, is the anchor from now on. */
void capo_anchor_move(struct capo_anchor *a, double since);
