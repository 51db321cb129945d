/* SPDX-License-Identifier: Apache-2.0 */
/* When calls were on the GPU.
 *
 * A log has the host time of each call. For calls that were timed on the GPU, it also has the
 * duration there, and the begin if events timed it. The others are placed by the order of their
 * stream: a call begins when the host has made it and the calls before it on its stream have ended,
 * and it ends before the next one begins. Other work on the stream (the program's own kernels) is
 * not in the log, so the true begin can be later than the computed one, never earlier.
 *
 * An untimed call is assumed to last as long as the median of the timed calls of its kind, or less
 * where its two neighbours with a known place leave less room. Calls behind it on the stream are
 * then marked as guessed. (The mean would be wrong: one call in a thousand that stalled would move
 * all others.) Each call also gets bounds: the span in which it can have been. */
#pragma once

#include "capo/call_kinds.h"
#include "core/base/util.h"

struct capo_record;

/* What a time on the GPU rests on, from the surest down. */
enum capo_span_by {
        CAPO_SPAN_BY_EVENT, /* the events around it */
        CAPO_SPAN_BY_HOST,  /* the stream had nothing of ours to do when the host made the call */
        CAPO_SPAN_BY_ORDER, /* behind calls whose time was measured */
        CAPO_SPAN_BY_GUESS, /* behind calls of which one was not timed */
        CAPO_SPAN_BYS,
};

/** capo_span_by_name() - "event", "host", "order", "guess": what JSON and the trace say. */
const char *capo_span_by_name(enum capo_span_by by);

struct capo_gpu_span {
        /* given by the caller */
        uint64_t host_begin, host_end; /* ns, any epoch */
        uint64_t gpu_ns; /* duration on the GPU when `measured`. Else what the caller assumes for
                            its kind, or 0: then it is filled in from the others. It stays 0 if none
                            of its kind was measured, and the call is placed at its host time */
        uint64_t kind;   /* communicator, call and size as one number; 0: never on the GPU */
        uint32_t stream;
        uint32_t nth;  /* the caller's number of the call */
        bool measured; /* gpu_ns was measured */
        bool placed;   /* gpu_begin was measured */
        uint64_t gpu_begin;
        /* results */
        uint64_t begin, end;  /* on the GPU; for a call that was not there, its host times */
        uint64_t least, most; /* bounds: it was not on the GPU before `least` or after `most`; equal
                                 to begin and end if its place is not guessed. Behind the last call
                                 with a known place, calls are bounded by the longest of their kind,
                                 plus once the longest of all */
        enum capo_span_by by;
};

/** capo_gpu_span_of() - from a record of a log; @nth is the caller's number for the call. */
struct capo_gpu_span capo_gpu_span_of(const struct capo_record *r, uint32_t nth);

/** capo_gpu_spans() - fill in the results for the calls of one process, and sort them by begin. */
void capo_gpu_spans(struct capo_gpu_span *calls, size_t n);
