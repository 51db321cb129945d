/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of one process. There may be millions: the common text of similar calls is made once
 * and copied, and only numbers are written for each call.
 */
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
        trace_event(m->t);
        trace_printf(m->t, "{\"ph\":\"C\",\"name\":%s,\"pid\":%u,\"tid\":0", json, m->process + 1);
        trace_put_time(m->t, "ts", at);
        trace_printf(m->t, ",\"args\":{\"value\":%.3f}}", value);
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

enum { PREFIXES = 4096, PREFIX_TEXT = 1600, THREADS = 1024, TAIL = 256 };

/* The common parts of similar calls. */
struct prefix {
        struct key {
                uint64_t bytes;
                uint32_t stream;
                int32_t peer;
                uint16_t comm, site;
                uint8_t call, algo_proto, flags, on_gpu;
        } key;
        char *text; /* an event up to the part of its args that differs by call */
        size_t n;
        size_t line; /* on the GPU */
};

struct stream {
        uint32_t comm, stream;
        uint64_t until; /* end of its last bar */
};

struct writer {
        struct trace *t;
        uint32_t process;
        struct prefix prefixes[PREFIXES];
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

static uint64_t hash_key(const struct key *k)
{
        const uint64_t *word = (const uint64_t *)k;
        uint64_t h = 0;

        for (size_t i = 0; i < sizeof *k / sizeof *word; i++)
                h = (h ^ word[i]) * 0x9e3779b97f4a7c15;
        return h >> 40;
}

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

static void fill_prefix(struct writer *w, struct prefix *p, const struct key *key)
{
        uint32_t comm = w->comms[key->comm];
        const char *name = comm ? w->t->comm[comm - 1] : "", *site = w->site[key->site];
        char text[PREFIX_TEXT];

        snprintf(
                text, sizeof text,
                "{\"ph\":\"X\",\"name\":\"%s %s\",\"cat\":\"%s\",\"pid\":%u,\"args\":{\"bytes\":%llu",
                capo_call_name(key->call), TEXT_SIZE(key->bytes), key->on_gpu ? "gpu" : "host",
                w->process + 1, (unsigned long long)key->bytes);
        if (comm && strlen(name) < sizeof text / 2)
                capo_append(text, sizeof text, ",\"comm\":%s,\"rank\":%d", name,
                            w->ranks[key->comm]);
        if (key->peer >= 0)
                capo_append(text, sizeof text, ",\"%s\":%d",
                            capo_call_kind(key->call) == CAPO_KIND_P2P ? "peer" : "root",
                            key->peer);
        if (key->algo_proto)
                capo_append(text, sizeof text, ",\"ran\":\"%s %s\"", capo_ran_algo(key->algo_proto),
                            capo_ran_proto(key->algo_proto));
        if (site && !key->on_gpu && strlen(text) + strlen(site) + 64 < sizeof text)
                capo_append(text, sizeof text, ",\"site\":%s", site);
        if (key->flags & CAPO_RECORD_CAPTURED)
                capo_append(text, sizeof text, ",\"captured\":true");
        if (key->on_gpu)
                p->line = line_of(w, comm, key->stream);
        free(p->text);
        p->text = xstrdup(text);
        p->n = strlen(text);
        p->key = *key;
}

static struct prefix *prefix_of(struct writer *w, const struct capo_record *r, bool on_gpu)
{
        struct key key = {.bytes = r->bytes,
                          .stream = on_gpu ? r->stream : 0,
                          .peer = r->peer,
                          .comm = r->comm,
                          .site = r->site,
                          .call = r->call,
                          .algo_proto = r->algo_proto,
                          .flags = r->flags & CAPO_RECORD_CAPTURED,
                          .on_gpu = on_gpu};
        struct prefix *p = &w->prefixes[hash_key(&key) % PREFIXES];

        if (!p->text || memcmp(&p->key, &key, sizeof key))
                fill_prefix(w, p, &key);
        return p;
}

static char *put_word(char *to, const char *word, size_t n)
{
        memcpy(to, word, n);
        return to + n;
}
#define PUT(to, word) put_word(to, word, sizeof(word) - 1)

/* Write an event except its end: args are still open. */
static char *begin_call(struct writer *w, const struct prefix *p, uint32_t seq)
{
        char *to = trace_out_room(w->t->out, p->n + TAIL);

        to = w->t->some ? PUT(to, ",\n") : PUT(to, "\n");
        w->t->some = true;
        to = put_word(to, p->text, p->n);
        if (seq) {
                to = PUT(to, ",\"seq\":");
                to = trace_put_number(to, seq);
        }
        return to;
}

static void end_call(struct writer *w, const struct prefix *p, char *to, size_t line,
                     uint64_t begin, uint64_t ns)
{
        char *start = trace_out_room(w->t->out, p->n + TAIL); /* start of the event */

        to = PUT(to, "},\"tid\":");
        to = trace_put_number(to, line);
        to = PUT(to, ",\"ts\":");
        to = trace_put_us(to, begin);
        to = PUT(to, ",\"dur\":");
        to = trace_put_us(to, ns);
        *to++ = '}';
        trace_out_take(w->t->out, (size_t)(to - start));
}

static void put_host_call(struct writer *w, const struct capo_record *r, unsigned thread)
{
        uint64_t begin = trace_ns(w->t, w->process, r->t_begin), ns = r->t_end - r->t_begin;
        struct prefix *p;

        if (!trace_is_seen(w->t, begin, begin + ns))
                return;
        p = prefix_of(w, r, false);
        w->thread[thread % THREADS] = true;
        end_call(w, p, begin_call(w, p, r->seq), thread % THREADS, begin, ns);
        w->t->n_calls++;
}

/* Mark the part of a GPU call in which it waited for the last rank, and draw an arrow from there.
 * All ranks begin to move data when the last one comes, and end together. A viewer drops an arrow
 * that ends before it begins, even by a nanosecond. So it begins at the last rank's begin, passes
 * the first quarter of the others' transfers and ends at the end of one. */
static void put_waiting(struct writer *w, const struct capo_record *r, const struct prefix *p,
                        uint64_t begin, uint64_t ns)
{
        uint32_t comm = w->comms[r->comm];
        const struct capo_last_call *m = comm && r->seq && capo_is_joint(r)
                                                 ? capo_last_call(&w->t->last, comm - 1, r->seq)
                                                 : NULL;
        uint64_t waited = capo_waited_ns(m, r), point;
        uint32_t end;
        char from[32], for_ns[32], at[32];
        int rank;

        if (!m)
                return;
        waited = waited < ns ? waited : ns;
        end = m->high[0] != m->last ? m->high[0] : m->high[1];
        point = w->process == m->last ? waited
                : w->process == end   ? ns - (ns > waited)
                                      : waited + (ns - waited) / 4;
        *trace_put_us(from, begin) = 0;
        *trace_put_us(for_ns, waited) = 0;
        *trace_put_us(at, begin + point) = 0;
        rank = w->t->job->processes[m->last].rank;
        if (waited) {
                trace_event(w->t);
                trace_printf(w->t,
                             "{\"ph\":\"X\",\"name\":\"waiting for rank %d\",\"cat\":\"waiting\","
                             "\"cname\":\"grey\",\"pid\":%u,\"tid\":%zu,\"ts\":%s,\"dur\":%s}",
                             rank, w->process + 1, p->line, from, for_ns);
        }
        trace_event(w->t);
        trace_printf(
                w->t,
                "{\"ph\":\"%s\",\"name\":\"call\",\"cat\":\"ranks\",\"id\":%llu,\"pid\":%u,\"tid\":%zu,\"ts\":%s%s}",
                w->process == m->last ? "s"
                : w->process == end   ? "f"
                                      : "t",
                (unsigned long long)(w->t->flow[comm - 1] + r->seq), w->process + 1, p->line, at,
                w->process == end ? ",\"bp\":\"e\"" : "");
}

static void put_gpu_call(struct writer *w, const struct capo_record *r, uint64_t t_begin,
                         enum capo_span_by by)
{
        uint64_t begin = trace_ns(w->t, w->process, t_begin);
        uint64_t ns = r->gpu_ns;
        struct stream *s;
        struct prefix *p;
        char *to;

        if (!trace_is_seen(w->t, begin, begin + ns))
                return;
        p = prefix_of(w, r, true);
        s = &w->streams[p->line - TRACE_STREAM_LINE];
        /* Derived begins can only be too early, so the bar moves and keeps its length. */
        if (begin < s->until && begin + ns > s->until)
                begin = s->until;
        s->until = begin + ns > s->until ? begin + ns : s->until;
        to = begin_call(w, p, r->seq);
        to = r->clock == CAPO_CLOCK_EVENT ? PUT(to, ",\"clock\":\"event\",\"placed\":\"")
                                          : PUT(to, ",\"clock\":\"kernel\",\"placed\":\"");
        to = put_word(to, capo_span_by_name(by), strlen(capo_span_by_name(by)));
        *to++ = '"';
        end_call(w, p, to, p->line, begin, ns);
        put_waiting(w, r, p, begin, ns);
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
        for (size_t i = 0; i < PREFIXES; i++)
                free(w->prefixes[i].text);
        for (size_t i = 0; i < CAPO_IDS; i++)
                free(w->site[i]);
        xfree(w->streams, w->spans, w->calls, w);
        return r;
}
