/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When calls were on the GPU.
 *
 * A log has, for each call, when the host made it and, for those that were timed there, how long it
 * took on the GPU and (where events timed it) when that began. Of the others it is known that one
 * stream does its work in order: a call begins when the host has made it and when the calls before
 * it on its stream have ended, whichever is later, and it ends before the next one begins. Other
 * work on the stream (the program's own kernels) is not seen, so it may be too early by what that
 * takes, never too late by it.
 *
 * A call that was not timed is taken to last as long as the median of its kind that was, or as long
 * as there is room for between the two next to it whose place is known; what follows it on the
 * stream rests on that, and says so. (The mean would not do: one call in a thousand that stalled
 * would push all others back.) Beside that there is the time in which it can have been.
 */
#ifndef CAPO_GPU_SPANS_H
#define CAPO_GPU_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capo/call_kinds.h"

struct capo_record;

/* What a time on the GPU rests on, from the surest down. */
enum capo_span_by {
        CAPO_SPAN_BY_EVENT, /* the events around it */
        CAPO_SPAN_BY_HOST,  /* the stream had nothing of ours to do when the host made the call */
        CAPO_SPAN_BY_ORDER, /* behind calls whose time was measured */
        CAPO_SPAN_BY_GUESS, /* behind calls of which one was not timed, before the next whose place
                               is known */
        CAPO_SPAN_BYS,
};

/** capo_span_by_name() - "event", "host", "order", "guess": what JSON and the trace say. */
const char *capo_span_by_name(enum capo_span_by by);

struct capo_gpu_span {
        /* given */
        uint64_t host_begin, host_end; /* ns, any epoch */
        uint64_t gpu_ns; /* how long on the GPU, when `measured`; else what the caller knows of its
                            kind, or 0: filled in from the others, and left 0 where none of its kind
                            was measured: then it is placed where the host made it */
        uint64_t kind; /* what it is (communicator, call, size); 0: never on the GPU (while a graph
                          is captured) */
        uint32_t stream;
        uint32_t nth;  /* the caller's: which call this is */
        bool measured; /* gpu_ns was */
        bool placed;   /* and gpu_begin */
        uint64_t gpu_begin;
        /* worked out */
        uint64_t begin, end;  /* on the GPU; a call that was not there is where the host made it */
        uint64_t least, most; /* it was not there before and behind; begin and end where its place
                                 is no guess. Behind the last one whose place is known, calls take
                                 no longer than the longest of their kind, but one of them as long
                                 again as the longest of all */
        enum capo_span_by by;
};

/** capo_gpu_span_of() - a call out of a log; @nth is the caller's own number for it. */
struct capo_gpu_span capo_gpu_span_of(const struct capo_record *r, uint32_t nth);

/** capo_gpu_spans() - fill in begin, end and by of the calls of one process; they come out sorted
 * by begin. */
void capo_gpu_spans(struct capo_gpu_span *calls, size_t n);

#endif
