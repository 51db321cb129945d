/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of a job in Google's Trace Event Format, for https://ui.perfetto.dev and
 * chrome://tracing. Each rank is a process with these lines: one per host thread with its calls;
 * one per communicator and stream with the time on the GPU, in which waiting for late ranks is
 * marked; arrows between the ranks of one call; network traffic as counters; the job's steps. */
#pragma once

#include <zlib.h>

#include "analysis/job/clocks.h"
#include "analysis/network/network.h"
#include "analysis/steps/job_steps.h"
#include "analysis/timeline/last_ranks.h"

struct trace {
        struct capo_job *job;
        struct capo_clocks clocks;
        const struct capo_fabric_job *fabric; /* NULL: no libfabric */
        struct capo_job_steps steps;
        struct capo_last_ranks last;
        bool *wanted;            /* by process */
        uint64_t *flow;          /* by communicator: number of the arrow of its call 0 */
        char **comm;             /* names as JSON strings */
        double base_ns;          /* begin of the trace, by the job's clock */
        uint64_t from_ns, to_ns; /* the window, after that begin */
        uint64_t n_calls;        /* written */
        gzFile out;
        bool some; /* an event has been written: the next one needs a comma */
};

/* Lines of streams are numbered above all threads. */
enum { TRACE_STREAM_LINE = 1 << 17 };

#define TRACE_NS_MOST 9e18 /* larger times come from damaged logs */

/** trace_ns() - @at of a log in ns after the begin of the trace; never below 0. */
static inline uint64_t trace_ns(const struct trace *t, uint32_t process, uint64_t at)
{
        double ns = capo_clocks_ns(&t->clocks, process, at) - t->base_ns;

        return ns <= 0 ? 0 : ns < TRACE_NS_MOST ? (uint64_t)ns : (uint64_t)TRACE_NS_MOST;
}

/** trace_is_seen() - does the stretch overlap the window? One that ends where the window begins, or
 * begins where it ends, does not. */
static inline bool trace_is_seen(const struct trace *t, uint64_t begin, uint64_t end)
{
        return (end > t->from_ns || begin >= t->from_ns) && begin < t->to_ns;
}

/** trace_event() - write an event, behind a comma if it is not the first. */
void trace_event(struct trace *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* @ns as microseconds with three decimals: a format, and its arguments. */
#define TRACE_US     "%" PRIu64 ".%03u"
#define TRACE_IN(ns) (ns) / 1000, (unsigned)((ns) % 1000)

/** trace_json_text() - a quoted JSON string of plain text (core/base/plain_text.h), owned by the
 * caller. */
char *trace_json_text(const char *text);

/** trace_write_process() - write everything of one process. Return: 0; the error of reading. */
int trace_write_process(struct trace *t, uint32_t process);

/** trace_write_steps() - write the job's steps; trace_write_network() - write the traffic of a
 * process. */
void trace_write_steps(struct trace *t);
void trace_write_network(struct trace *t, uint32_t process);

/** trace_write_name() - write a line's name and position; @what: "process_name" (without @line),
 * "thread_name". @name: JSON. */
void trace_write_name(struct trace *t, const char *what, uint32_t process, size_t line,
                      const char *name, size_t order);
