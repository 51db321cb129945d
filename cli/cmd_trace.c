/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cmd_trace.h"
#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "analysis/log/info_read.h"
#include "analysis/job/gpu_spans.h"
#include "analysis/job/log_calls.h"

/* Lines of streams are numbered above all threads. */
enum { STREAM_LINE = 1 << 17 };

struct process {
        struct trace *trace;
        int64_t since_base_ns;
        struct capo_record *calls;
        struct capo_gpu_span *spans; /* of the same calls, until they are placed */
        size_t n;
        uint32_t *streams; /* in the order of their first bar */
        size_t n_streams;
        char host[128];
        int rank;
};

void trace_begin(const struct trace *t)
{
        fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", t->out);
}

void trace_end(const struct trace *t)
{
        fputs("\n]}\n", t->out);
}

static void put_separator(struct trace *t)
{
        fputs(t->some ? ",\n" : "\n", t->out);
        t->some = true;
}

static void put_text(FILE *out, const char *s)
{
        for (; *s; s++) {
                if ((unsigned char)*s < ' ')
                        continue;
                if (*s == '"' || *s == '\\')
                        fputc('\\', out);
                fputc(*s, out);
        }
}

static void put_call(struct process *p, const struct capo_record *r, uint64_t begin_ns, uint64_t ns,
                     size_t line, const char *placed)
{
        char size[32];

        put_separator(p->trace);
        fprintf(p->trace->out,
                "{\"name\":\"%s %s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%u,\"tid\":%zu,\"args\":{",
                capo_call_name(r->call), capo_size_print(r->bytes, size, sizeof size),
                (double)(p->since_base_ns + (int64_t)begin_ns) / 1000, (double)ns / 1000,
                p->trace->processes, line);
        if (placed)
                fprintf(p->trace->out, "\"placed\":\"%s\",", placed);
        fprintf(p->trace->out,
                "\"bytes\":%" PRIu64
                ",\"comm\":%u,\"seq\":%u,\"clock\":\"%s\",\"algo\":\"%s\",\"proto\":\"%s\"}}",
                r->bytes, r->comm, r->seq, capo_clock_name(r->clock), capo_ran_algo(r->algo_proto),
                capo_ran_proto(r->algo_proto));
}

static int take_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct process *p = arg;

        put_call(p, r, r->t_begin, r->t_end - r->t_begin, thread, NULL);
        if (r->flags & CAPO_RECORD_MEMBER || capo_call_kind(r->call) == CAPO_KIND_OTHER)
                return 0;
        if (capo_array_room(&p->calls, p->n, sizeof *p->calls) < 0 ||
            capo_array_room(&p->spans, p->n, sizeof *p->spans) < 0)
                return -ENOMEM;
        p->calls[p->n] = *r;
        p->spans[p->n] = capo_gpu_span_of(r, (uint32_t)p->n);
        p->n++;
        return 0;
}

/* The line of a stream; -ENOMEM. */
static int stream_line(struct process *p, uint32_t stream, size_t *line)
{
        size_t i = 0;

        while (i < p->n_streams && p->streams[i] != stream)
                i++;
        if (i == p->n_streams) {
                if (capo_array_room(&p->streams, i, sizeof *p->streams) < 0)
                        return -ENOMEM;
                p->streams[p->n_streams++] = stream;
        }
        *line = STREAM_LINE + i;
        return 0;
}

static int put_streams(struct process *p)
{
        capo_gpu_spans(p->spans, p->n);
        for (size_t i = 0; i < p->n; i++) {
                const struct capo_gpu_span *s = &p->spans[i];
                size_t line;

                if (!s->measured)
                        continue;
                if (stream_line(p, s->stream, &line) < 0)
                        return -ENOMEM;
                put_call(p, &p->calls[s->nth], s->begin, s->gpu_ns, line, capo_span_by_name(s->by));
        }
        return 0;
}

static void take_info(struct process *p, const struct capo_log_frame *f)
{
        struct capo_info_line line;
        size_t at = 0;

        while (capo_info_next(f, &at, &line)) {
                if (capo_info_is(&line, CAPO_INFO_HOST))
                        snprintf(p->host, sizeof p->host, "%.*s", (int)line.n_value, line.value);
                if (capo_info_is(&line, CAPO_INFO_RANK)) {
                        char number[24]; /* the frame may end right behind it */

                        snprintf(number, sizeof number, "%.*s", (int)line.n_value, line.value);
                        p->rank = atoi(number);
                }
        }
}

static void put_names(struct process *p, unsigned pid)
{
        unsigned nth = p->trace->processes;

        put_separator(p->trace);
        fprintf(p->trace->out,
                "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":\"", nth);
        if (p->rank >= 0)
                fprintf(p->trace->out, "rank %d ", p->rank);
        put_text(p->trace->out, p->host);
        fprintf(p->trace->out, " pid %u\"}}", pid);
        for (size_t i = 0; i < p->n_streams; i++) {
                put_separator(p->trace);
                fprintf(p->trace->out,
                        "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%zu,\"args\":{\"name\":\"GPU stream "
                        "%zu\"}}",
                        nth, STREAM_LINE + i, i + 1);
        }
}

int trace_log(struct trace *t, struct capo_log *log)
{
        _cleanup_(capo_log_calls_freep) struct capo_log_calls *calls = capo_log_calls_new();
        struct process p = {.trace = t, .rank = -1};
        struct capo_log_frame f;
        int r = calls ? 0 : -ENOMEM, more = 1;

        if (!t->base_real_ns)
                t->base_real_ns = capo_log_header(log)->t0_real_ns;
        p.since_base_ns = (int64_t)(capo_log_header(log)->t0_real_ns - t->base_real_ns);
        while (r == 0 && (more = capo_log_next(log, &f)) > 0) {
                if (f.type == CAPO_FRAME_INFO)
                        take_info(&p, &f);
                else
                        r = capo_log_calls_take(calls, &f, take_call, &p);
        }
        if (r == 0)
                r = put_streams(&p);
        put_names(&p, capo_log_header(log)->pid);
        t->processes++;
        free(p.calls);
        free(p.spans);
        free(p.streams);
        return r ? r : more < 0 ? more : 0;
}
