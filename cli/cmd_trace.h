/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_TRACE_H
#define CAPO_TRACE_H

#include <stdio.h>

#include "analysis/log/log_read.h"

/* A trace for Perfetto and chrome://tracing: Google's Trace Event Format, an array of events. */
struct trace {
        FILE *out;
        unsigned processes;    /* written so far */
        uint64_t base_real_ns; /* where the trace begins: the first log's epoch */
        bool some;             /* an event has been written: the next one needs a comma */
};

void trace_begin(const struct trace *t);
void trace_end(const struct trace *t);

/**
 * trace_log() - one process: a line per thread with the time in its calls, a line per stream with
 * the time on the GPU
 *
 * When a call began on the GPU follows from the order of its stream (analysis/job/gpu_spans.h);
 * "placed" says what that rests on. Calls that were not timed there have no bar on a stream's line.
 * The log's calls are held in memory.
 *
 * Return: 0; -ENOMEM; -EIO.
 */
int trace_log(struct trace *t, struct capo_log *log);

#endif
