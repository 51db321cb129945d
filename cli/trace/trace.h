/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace of a job in Google's Trace Event Format, for https://ui.perfetto.dev and
 * chrome://tracing: a process per rank, a line per thread of the host with the time in its calls, a
 * line per communicator and stream with the time on the GPU, waiting for late ranks inside of that,
 * arrows between the ranks of one call, the network's traffic as counters, and the job's steps.
 */
#ifndef CAPO_TRACE_H
#define CAPO_TRACE_H

#include "analysis/job/clocks.h"
#include "analysis/job/job.h"
#include "analysis/network/network.h"
#include "analysis/steps/job_steps.h"
#include "analysis/timeline/last_ranks.h"
#include "cli/trace/trace_out.h"

struct trace {
        struct capo_job *job;
        struct capo_clocks clocks;
        const struct capo_fabric_job *fabric; /* NULL: none */
        struct capo_job_steps steps;
        struct capo_last_ranks last;
        bool *wanted;            /* by process */
        uint64_t *flow;          /* by communicator: number of the arrow of its call 0 */
        char **comm;             /* names as JSON */
        double base_ns;          /* of the job's clock: where the trace begins */
        uint64_t from_ns, to_ns; /* the window, after that */
        uint64_t n_calls;        /* written */
        struct trace_out *out;
        bool some; /* an event has been written: the next one needs a comma */
};

/* Lines of streams are numbered above all threads. */
enum { TRACE_STREAM_LINE = 1 << 17 };

#define TRACE_NS_MOST 9e18 /* what a damaged log may say is more */

/** trace_ns() - @t of a log, ns after the begin of the trace; never below 0. */
static inline uint64_t trace_ns(const struct trace *t, uint32_t process, uint64_t at)
{
        double ns = capo_clocks_ns(&t->clocks, process, at) - t->base_ns;

        return ns <= 0 ? 0 : ns < TRACE_NS_MOST ? (uint64_t)ns : (uint64_t)TRACE_NS_MOST;
}

/** trace_is_seen() - does the stretch reach into the window? */
static inline bool trace_is_seen(const struct trace *t, uint64_t begin, uint64_t end)
{
        return end >= t->from_ns && begin <= t->to_ns;
}

/** trace_event() - begin an event: a comma if it needs one. */
void trace_event(struct trace *t);

/** trace_printf() - any text, up to 4 KiB. */
void trace_printf(struct trace *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** trace_json_text() - as a JSON string with its quotes, of valid UTF-8; owned by the caller; NULL:
 * no memory. */
char *trace_json_text(const char *text);

/** trace_write_process() - all that is of one process. Return: 0; -ENOMEM. */
int trace_write_process(struct trace *t, uint32_t process);

/** trace_write_steps(), trace_write_network() - steps of the job; traffic of a process. */
void trace_write_steps(struct trace *t);
void trace_write_network(struct trace *t, uint32_t process);

/** trace_write_name() - a line's name and place; @what: "process_name" (@line is not written),
 * "thread_name". @name: JSON. */
void trace_write_name(struct trace *t, const char *what, uint32_t process, size_t line,
                      const char *name, size_t order);

#endif
