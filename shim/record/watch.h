/* SPDX-License-Identifier: Apache-2.0 */
/* The watch: sees from what the segment holds anyway that calls are under way and nothing of them
 * moves. It is asked on every round of the drain thread and looks once a second; the calls
 * themselves know nothing of it. */
#pragma once

#include "core/log/unfinished.h"

#define CAPO_WATCH_STANDS \
        64 /* calls under way at once that are followed; of more, those found first */

/* A call under way that a check found: the one a thread is in, the last one of a group that is
 * open, the oldest one of a communicator that the GPU has not ended, the last one of a quiet
 * communicator whose stream the GPU has not ended. The same one as long as these stay the same. */
struct capo_stand {
        uint64_t begin; /* ticks */
        uint64_t since; /* watched_ns when it was found first */
        uint32_t seq;
        uint32_t stream; /* hash */
        uint16_t comm, thread;
        uint8_t where, call; /* enum capo_unfinished_where, enum capo_call_id */
        bool warned;         /* of a hang that was reported */
        bool framed;         /* of one that has its first frame */
};

struct capo_watch {
        uint64_t limit_ns; /* 0: nobody watches */
        uint64_t early_ns; /* when the first frame of a hang is written */
        uint64_t next_ns, last_ns;
        uint64_t watched_ns; /* in which checks were made: not while the process is stopped or the
                                machine asleep */
        struct capo_stand stands[CAPO_WATCH_STANDS];
        uint32_t n;
        const struct capo_stand *early; /* by the last check: what had just stood for early_ns, once
                                           per hang; NULL */
};

/** capo_watch_init() - @limit_ns: how long nothing must move; 0: never a hang. */
void capo_watch_init(struct capo_watch *w, uint64_t limit_ns);

/** capo_watch_check() - has a hang begun?
 * @now_ns: CLOCK_MONOTONIC
 *
 * A hang has begun when a call that was under way limit_ns of watched time ago still is. It is
 * reported once: all that stands at that moment is of it, and what begins to stand while one of
 * these does; a call that was reported stays so when it goes on from the caller to the GPU and
 * stands there. When none does any more there was progress, and the next hang is another one.
 *
 * Return: the call that stands longest, once per hang; valid until the next check. NULL otherwise.
 * One of a stream that is only known to be busy is returned if no other call stands, and then it is
 * the last one of that stream. */
const struct capo_stand *capo_watch_check(struct capo_watch *w, const struct capo_segment *seg,
                                          uint64_t now_ns);
