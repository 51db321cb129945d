/* SPDX-License-Identifier: Apache-2.0 */
/* The areas of a segment that hold calls: the threads' rings, and the slots of calls on the GPU. */
#pragma once

#include <stdatomic.h>

#include "capo/record.h"

/* One thread's calls. Recycled: head and tail only ever grow. */
enum capo_ring_state {
        CAPO_RING_FREE,
        CAPO_RING_LIVE,
        CAPO_RING_LEFT /* its thread is gone; free once drained */
};
struct capo_ring {
        _Atomic uint64_t head; /* records published */
        _Atomic uint64_t dropped;
        _Atomic uint32_t state;      /* enum capo_ring_state */
        _Atomic uint32_t thread;     /* number of the thread in this process, 1 .. */
        _Atomic uint64_t closing;    /* ticks: since when its thread is in the ncclGroupEnd() of a
                                        group; 0 not */
        _Atomic uint64_t dropped_at; /* ticks: when the last one dropped began */
        uint32_t size;               /* of records, a power of two; not above header.ring_records */
        _Atomic uint32_t tid;        /* of its thread, as the kernel counts */
        char pad1[64 - 48];
        _Atomic uint64_t tail; /* records taken out */
        char pad2[64 - 8];
        struct capo_record records[];
};
static_assert(sizeof(struct capo_ring) == 128, "layout");

/* A call on its way through the GPU: the host half is here so that a kill keeps it. */
enum capo_slot_state {
        CAPO_SLOT_FREE,
        CAPO_SLOT_TAKEN, /* a thread fills it: the call has not returned */
        CAPO_SLOT_ARMED, /* the record is whole but for its GPU time */
        CAPO_SLOT_DONE,  /* the GPU time is in, or there will be none: the drain may take it */
};
struct capo_slot {
        struct capo_record record;
        _Atomic uint32_t state;
        uint32_t thread;
        uint64_t reserved[7];
};
static_assert(sizeof(struct capo_slot) == 128, "layout");
