/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When calls were on the GPU.
 *
 * A log has, for each call, when the host made it and, for those that were timed there, how long it took on the GPU; not
 * when that began. A program that synchronises after each call has it begin at once, one that enqueues a whole step has
 * it begin milliseconds later. What is known is that one stream does its work in order: a call begins when the host has
 * made it and when the calls before it on its stream have ended, whichever is later. Other work on the stream (the
 * program's own kernels) is not seen, so it may be too early by what that takes, never too late by it.
 *
 * Calls that were not timed take as long as the caller assumes (the median of their kind): then what follows them on the
 * stream rests on that, and says so.
 */
#ifndef CAPO_WHEN_H
#define CAPO_WHEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a time on the GPU rests on, from the surest down. */
enum capo_when_by {
        CAPO_WHEN_HOST,  /* the stream had nothing of ours to do when the host made the call */
        CAPO_WHEN_ORDER, /* behind calls whose time was measured */
        CAPO_WHEN_GUESS, /* behind calls of which one was not timed */
        CAPO_WHENS,
};

/** capo_when_name() - "host", "order", "guess": what JSON and the trace say. */
const char *capo_when_name(enum capo_when_by by);

struct capo_when {
        /* given */
        uint64_t host_begin, host_end; /* ns, any epoch */
        uint64_t gpu_ns;               /* how long on the GPU: measured or assumed; 0: not on the GPU at all */
        uint32_t stream;
        uint32_t nth;  /* the caller's: which call this is */
        bool measured; /* gpu_ns was */
        /* worked out */
        uint64_t begin, end; /* on the GPU; a call that was not there is where the host made it */
        enum capo_when_by by;
};

/** capo_when_all() - fill in begin, end and by of the calls of one process; they come out sorted by begin. */
void capo_when_all(struct capo_when *calls, size_t n);

#endif
