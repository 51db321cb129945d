/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of one process. */
#include "analysis/causes/machine_series.h"
#include "analysis/job/gpu_spans.h"
#include "analysis/job/log_calls.h"
#include "analysis/report/job_page.h"
#include "capo/frame_types.h"
#include "cli/trace/trace.h"
#include "core/base/calls.h"
#include "analysis/job/figures.h"
#include "core/base/xalloc.h"

/* Readings of the machine as counters. */
struct machine_lines {
        struct trace *t;
        uint32_t process;
};

static void put_reading(const struct machine_lines *m, const struct capo_machine_object *o,
                        const struct capo_machine_reading *r, uint64_t at, double value)
{
        char name[200], *json;

        if (!trace_is_seen(m->t, at, at))
                return;
        snprintf(name, sizeof name, "%s %s %s %s%s", capo_machine_scopes[o->scope], o->name,
                 r->name, r->unit, r->kind != CAPO_MACHINE_GAUGE ? "/s" : "");
        json = trace_json_text(name);
        trace_event(m->t,
                    "{\"ph\":\"C\",\"name\":%s,\"pid\":%u,\"tid\":0,\"ts\":" TRACE_US
                    ",\"args\":{\"value\":%.3f}}",
                    json, m->process + 1, TRACE_IN(at), value);
        free(json);
}

/* A counter as its rate from the reading before on; it is 0 unless the next one says otherwise. */
static void write_reading(void *arg, const struct capo_machine_object *o,
                          const struct capo_machine_reading *r, uint64_t from_ns, uint64_t at_ns,
                          uint64_t value, uint64_t grew)
{
        const struct machine_lines *m = arg;
        uint64_t from = trace_ns(m->t, m->process, from_ns), at = trace_ns(m->t, m->process, at_ns);

        if (r->kind == CAPO_MACHINE_GAUGE) {
                put_reading(m, o, r, at, (double)value);
        } else if (grew && at > from) {
                put_reading(m, o, r, from, (double)grew * 1e9 / (double)(at - from));
                put_reading(m, o, r, at, 0);
        }
}

enum { THREADS = 1024 };

struct stream {
        uint32_t comm, stream;
        uint64_t until; /* end of its last bar */
};

struct writer {
        struct trace *t;
        uint32_t process;
        uint32_t comms[CAPO_IDS]; /* see capo_comms_of() */
        int32_t ranks[CAPO_IDS];
        char *site[CAPO_IDS]; /* by id: a call site as a JSON string, or NULL */
        bool thread[THREADS]; /* has calls */
        struct stream *streams;
        uint32_t n_streams;
        struct capo_gpu_span *spans; /* for calls placed by stream order */
        struct capo_record *calls;
        size_t n;
};

/* The line for a communicator's calls on a stream. */
static size_t line_of(struct writer *w, uint32_t comm, uint32_t stream)
{
        uint32_t i = 0;

        while (i < w->n_streams && (w->streams[i].comm != comm || w->streams[i].stream != stream))
                i++;
        if (i == w->n_streams)
                *xadd(w->streams, w->n_streams) = (struct stream){comm, stream, 0};
        return TRACE_STREAM_LINE + i;
}

/* @placed: on the GPU: by what its begin is known; else NULL. */
static void put_call(struct writer *w, const struct capo_record *r, size_t line, uint64_t begin,
                     uint64_t ns, const char *placed)
{
        uint32_t comm = w->comms[r->comm];
        const char *name = comm ? w->t->comm[comm - 1] : "", *site = w->site[r->site];
        char args[1600] = "";

        if (comm && strlen(name) < sizeof args / 2)
                capo_append(args, sizeof args, ",\"comm\":%s,\"rank\":%d", name, w->ranks[r->comm]);
        if (r->peer >= 0)
                capo_append(args, sizeof args, ",\"%s\":%d",
                            capo_call_kind(r->call) == CAPO_KIND_P2P ? "peer" : "root", r->peer);
        if (r->algo_proto)
                capo_append(args, sizeof args, ",\"ran\":\"%s %s\"", capo_ran_algo(r->algo_proto),
                            capo_ran_proto(r->algo_proto));
        if (site && !placed && strlen(args) + strlen(site) + 160 < sizeof args)
                capo_append(args, sizeof args, ",\"site\":%s", site);
        if (r->flags & CAPO_RECORD_CAPTURED)
                capo_append(args, sizeof args, ",\"captured\":true");
        if (r->seq)
                capo_append(args, sizeof args, ",\"seq\":%u", r->seq);
        if (placed)
                capo_append(args, sizeof args, ",\"clock\":\"%s\",\"placed\":\"%s\"",
                            r->clock == CAPO_CLOCK_EVENT ? "event" : "kernel", placed);
        trace_event(w->t,
                    "{\"ph\":\"X\",\"name\":\"%s %s\",\"cat\":\"%s\",\"pid\":%u,"
                    "\"args\":{\"bytes\":%" PRIu64 "%s},\"tid\":%zu,\"ts\":" TRACE_US
                    ",\"dur\":" TRACE_US "}",
                    capo_call_name(r->call), TEXT_SIZE(r->bytes), placed ? "gpu" : "host",
                    w->process + 1, r->bytes, args, line, TRACE_IN(begin), TRACE_IN(ns));
}

static void put_host_call(struct writer *w, const struct capo_record *r, unsigned thread)
{
        uint64_t begin = trace_ns(w->t, w->process, r->t_begin), ns = r->t_end - r->t_begin;

        if (!trace_is_seen(w->t, begin, begin + ns))
                return;
        w->thread[thread % THREADS] = true;
        put_call(w, r, thread % THREADS, begin, ns, NULL);
        w->t->n_calls++;
}

/* Mark the part of a GPU call in which it waited for the last rank, and draw an arrow from there.
 * All ranks begin to move data when the last one comes, and end together. A viewer drops an arrow
 * that ends before it begins, even by a nanosecond. So it begins at the last rank's begin, passes
 * the first quarter of the others' transfers and ends at the end of one. */
static void put_waiting(struct writer *w, const struct capo_record *r, size_t line, uint64_t begin,
                        uint64_t ns)
{
        uint32_t comm = w->comms[r->comm];
        const struct capo_last_call *m = comm && r->seq && capo_is_joint(r)
                                                 ? capo_last_call(&w->t->last, comm - 1, r->seq)
                                                 : NULL;
        uint64_t waited = capo_waited_ns(m, r), point;
        uint32_t end;

        if (!m)
                return;
        waited = waited < ns ? waited : ns;
        end = m->high[0] != m->last ? m->high[0] : m->high[1];
        point = w->process == m->last ? waited
                : w->process == end   ? ns - (ns > waited)
                                      : waited + (ns - waited) / 4;
        if (waited)
                trace_event(w->t,
                            "{\"ph\":\"X\",\"name\":\"waiting for rank %d\",\"cat\":\"waiting\","
                            "\"cname\":\"grey\",\"pid\":%u,\"tid\":%zu,\"ts\":" TRACE_US
                            ",\"dur\":" TRACE_US "}",
                            w->t->job->processes[m->last].rank, w->process + 1, line,
                            TRACE_IN(begin), TRACE_IN(waited));
        trace_event(w->t,
                    "{\"ph\":\"%s\",\"name\":\"call\",\"cat\":\"ranks\",\"id\":%" PRIu64
                    ",\"pid\":%u,\"tid\":%zu,\"ts\":" TRACE_US "%s}",
                    w->process == m->last ? "s"
                    : w->process == end   ? "f"
                                          : "t",
                    w->t->flow[comm - 1] + r->seq, w->process + 1, line, TRACE_IN(begin + point),
                    w->process == end ? ",\"bp\":\"e\"" : "");
}

static void put_gpu_call(struct writer *w, const struct capo_record *r, uint64_t t_begin,
                         enum capo_span_by by)
{
        uint64_t begin = trace_ns(w->t, w->process, t_begin);
        uint64_t ns = r->gpu_ns;
        struct stream *s;
        size_t line;

        if (!trace_is_seen(w->t, begin, begin + ns))
                return;
        line = line_of(w, w->comms[r->comm], r->stream);
        s = &w->streams[line - TRACE_STREAM_LINE];
        /* Derived begins can only be too early, so the bar moves and keeps its length. */
        if (begin < s->until && begin + ns > s->until)
                begin = s->until;
        s->until = begin + ns > s->until ? begin + ns : s->until;
        put_call(w, r, line, begin, ns, capo_span_by_name(by));
        put_waiting(w, r, line, begin, ns);
}

static int take_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct writer *w = arg;
        bool timed = r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL;
        uint64_t begin;

        if (r->t_end >= r->t_begin)
                put_host_call(w, r, thread);
        if (r->flags & CAPO_RECORD_MEMBER || capo_call_kind(r->call) == CAPO_KIND_OTHER)
                return 0;
        if (w->t->last.by_order[w->process]) { /* its place is derived from its stream's order */
                xarray_room(&w->spans, w->n, sizeof *w->spans);
                w->spans[w->n] = capo_gpu_span_of(r, (uint32_t)w->n);
                *xadd(w->calls, w->n) = *r;
        } else if (timed && capo_record_gpu_begin(r, &begin))
                put_gpu_call(w, r, begin, CAPO_SPAN_BY_EVENT);
        return 0;
}

/* Number of streams on which the communicator has calls in this process. */
static unsigned streams_of(const struct writer *w, uint32_t comm)
{
        unsigned n = 0;

        for (uint32_t i = 0; i < w->n_streams; i++)
                n += w->streams[i].comm == comm;
        return n;
}

static void put_names(struct writer *w)
{
        const struct capo_job_process *p = &w->t->job->processes[w->process];
        char text[512];
        char *json;

        if (p->rank >= 0)
                snprintf(text, sizeof text, "rank %d  %.300s pid %u", p->rank, p->host,
                         p->header.pid);
        else
                snprintf(text, sizeof text, "%.300s pid %u", p->host, p->header.pid);
        json = trace_json_text(text);
        trace_write_name(w->t, "process_name", w->process, 0, json,
                         p->rank >= 0 ? (size_t)p->rank + 1 : w->process + 1u);
        free(json);
        for (size_t i = 0; i < THREADS; i++) {
                snprintf(text, sizeof text, "\"host thread %zu\"", i);
                if (w->thread[i])
                        trace_write_name(w->t, "thread_name", w->process, i, text, i);
        }
        for (uint32_t i = 0; i < w->n_streams; i++) {
                const struct stream *s = &w->streams[i];

                snprintf(text, sizeof text, "GPU %.300s",
                         s->comm ? w->t->job->comms[s->comm - 1].name : "several communicators");
                if (streams_of(w, s->comm) > 1)
                        capo_append(text, sizeof text, ", stream %u", i + 1);
                json = trace_json_text(text);
                trace_write_name(w->t, "thread_name", w->process, TRACE_STREAM_LINE + i, json,
                                 TRACE_STREAM_LINE + i);
                free(json);
        }
}

/* Read call sites as one line each; a later frame replaces an earlier one. */
static void read_sites(struct writer *w, struct capo_log *log)
{
        struct capo_log_frame f;

        while (capo_log_next(log, &f) > 0) {
                struct capo_log_site site;
                const char *text;
                char *whole, line[512];

                if (f.type != CAPO_FRAME_SITE || capo_log_site(&f, &site, &text) < 0)
                        continue;
                whole = xstrndup(text, site.text_size);
                capo_page_site_line(whole, false, line, sizeof line);
                free(whole);
                free(w->site[site.id]);
                w->site[site.id] = *line ? trace_json_text(line) : NULL;
        }
        capo_log_rewind(log);
}

int trace_write_process(struct trace *t, uint32_t process)
{
        struct capo_log *log = capo_job_log(t->job, process);
        struct writer *w = xcalloc(1, sizeof *w);
        int r;

        w->t = t;
        w->process = process;
        capo_comms_of(t->job, process, w->comms, w->ranks);
        read_sites(w, log);
        r = capo_log_calls_each(log, take_call, w);
        if (r == 0 || r == -EIO) { /* a damaged log ends early */
                r = 0;
                capo_gpu_spans(w->spans, w->n);
                for (size_t i = 0; i < w->n; i++) {
                        if (w->spans[i].measured)
                                put_gpu_call(w, &w->calls[w->spans[i].nth], w->spans[i].begin,
                                             w->spans[i].by);
                }
                put_names(w);
        }
        trace_write_network(t, process);
        capo_machine_visit(&t->job->processes[process], write_reading,
                           &(struct machine_lines){t, process});
        capo_log_park(log);
        for (size_t i = 0; i < CAPO_IDS; i++)
                free(w->site[i]);
        xfree(w->streams, w->spans, w->calls, w);
        return r;
}
