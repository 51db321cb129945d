/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capo dump: a log as text, frame by frame, for people who look for a fault and for tests; or all single calls of some
 * logs as a trace for chrome://tracing and Perfetto (the JSON array of "X" events, Google's Trace Event Format). Both
 * write as they read, so the size of the log does not matter.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "core/base/calls.h"
#include "core/log/find.h"
#include "core/log/info.h"
#include "core/log/read.h"
#include "core/base/size.h"
#include "core/base/util.h"

/* ---- text ---- */

static void text_lines(const struct capo_log_frame *f)
{
        const char *line;
        size_t at = 0, n;

        while ((line = capo_log_next_line(f, &at, &n)))
                printf("    %.*s\n", (int)n, line);
}

static void text_flags(unsigned flags)
{
        static const char *const names[] = {"member", "group", "captured", "async", "net"};

        for (unsigned i = 0; i < N_ELEMENTS(names); i++) {
                if (flags & 1u << i)
                        printf(" %s", names[i]);
        }
}

static void text_comm(const struct capo_log_frame *f)
{
        struct capo_log_comm c;
        const char *name;

        if (capo_log_comm(f, &c, &name) < 0) {
                puts("    bad");
                return;
        }
        printf("    id %u \"%.*s\" uid %016" PRIx64
               " rank %d of %d device %d nodes %d local %d..%d parent %u color %d hash "
               "%016" PRIx64 " born %" PRIu64 " died %" PRIu64 " library %u%s%s%s\n",
               c.id, c.name_size, name, c.uid, c.rank, c.n_ranks, c.device, c.n_nodes, c.min_local, c.max_local,
               c.parent, c.color, c.comm_hash, c.t_birth, c.t_death, c.library,
               c.flags & CAPO_COMM_NONBLOCKING ? " nonblocking" : "", c.flags & CAPO_COMM_ABORTED ? " aborted" : "",
               c.flags & CAPO_COMM_TUNED ? " tuned" : "");
}

static void text_site(const struct capo_log_frame *f)
{
        struct capo_log_site s;
        const char *text;

        if (capo_log_site(f, &s, &text) < 0) {
                puts("    bad");
                return;
        }
        printf("    id %u calls %" PRIu64 " host %" PRIu64 " ns gpu %" PRIu64 " ns in %" PRIu64 "\n", s.id, s.count,
               s.host_ns, s.gpu_ns, s.gpu_count);
        for (size_t at = 0; at < s.text_size;) {
                size_t n = strcspn(text + at, "\n");

                n = n < s.text_size - at ? n : s.text_size - at;
                printf("        %.*s\n", (int)n, text + at);
                at += n + 1;
        }
}

static void text_shapes(const struct capo_log_frame *f)
{
        const struct capo_log_shape *s;
        unsigned n = capo_log_shapes(f, &s);

        for (; n--; s++) {
                printf("    shape %u %s bytes %" PRIu64
                       " comm %u cell %u site %u stream %08x peer %d type %s op %s result %d "
                       "clock %s %s %s channels %u rule %u",
                       s->id, capo_call_name(s->call), s->bytes, s->comm, s->cell, s->site, s->stream, s->peer,
                       capo_type_name(s->type), capo_op_name(s->op), s->result, capo_clock_name(s->clock),
                       capo_algo_name(s->algo_proto >> 4), capo_proto_name(s->algo_proto & 15), s->channels, s->rule);
                text_flags(s->flags);
                putchar('\n');
        }
}

static void text_hist(const char *what, const struct capo_log_hist_view *h)
{
        if (!h->head.count)
                return;
        printf("        %s %" PRIu64 " calls, %" PRIu64 " ns, min %" PRIu64 " max %" PRIu64 ":", what, h->head.count,
               h->head.sum_ns, h->head.min_ns, h->head.max_ns);
        for (uint32_t i = 0; i < h->head.n; i++)
                printf(" %" PRIu64 "x%" PRIu64, capo_hist_floor(h->pairs[i].bucket % CAPO_HIST_BUCKETS),
                       h->pairs[i].count);
        putchar('\n');
}

static void text_cell(const struct capo_log_frame *f)
{
        struct capo_log_hist_view host, gpu;
        struct capo_log_cell c;

        if (capo_log_cell(f, &c, &host, &gpu) < 0) {
                puts("    bad");
                return;
        }
        printf("    id %u %s bytes %" PRIu64 " comm %u count %" PRIu64 " %s %s channels %u clock %s result %d rule %u",
               c.id, capo_call_name(c.call), c.bytes, c.comm, c.count, capo_algo_name(c.algo_proto >> 4),
               capo_proto_name(c.algo_proto & 15), c.channels, capo_clock_name(c.clock), c.result, c.rule);
        text_flags(c.flags);
        putchar('\n');
        text_hist("host", &host);
        text_hist("gpu", &gpu);
}

static void text_end(const struct capo_log_frame *f)
{
        struct capo_log_end e;

        if (capo_log_end(f, &e) < 0) {
                puts("    bad");
                return;
        }
        printf("    t %" PRIu64 " calls %" PRIu64 " dropped %" PRIu64 " gpu_dropped %" PRIu64 " shape_overflow %" PRIu64
               " bytes_lost %" PRIu64 " cost %.1f ns threads %u %s\n",
               e.t_ns, e.calls, e.dropped, e.gpu_dropped, e.shape_overflow, e.bytes_lost, e.cost_ns, e.threads,
               e.clean == 1   ? "clean"
               : e.clean == 2 ? "recovered"
                              : "checkpoint");
}

static void text_record(const struct capo_record *r)
{
        printf("    %" PRIu64 " +%" PRIu64 " %s bytes %" PRIu64 " comm %u seq %u group %u site %u clock %s gpu %" PRIu64
               " ns\n",
               r->t_begin, r->t_end - r->t_begin, capo_call_name(r->call), r->bytes, r->comm, r->seq, r->group, r->site,
               capo_clock_name(r->clock), r->gpu_ns);
}

/* Calls @each with every single call of a BLOCK or WIDE frame. */
static void each_record(const struct capo_log_frame *f, const struct capo_log_shape *shapes,
                        void (*each)(const struct capo_record *r, unsigned thread, void *arg), void *arg)
{
        struct capo_log_columns columns;
        struct capo_record r;

        if (f->type == CAPO_FRAME_WIDE) {
                for (unsigned i = 0; capo_log_wide(f, i, &r); i++)
                        each(&r, r.thread, arg);
        } else if (capo_log_block(f, &columns) == 0) {
                for (uint32_t i = 0; i < columns.n; i++) {
                        capo_log_record(&columns, i, &shapes[columns.shape[i]], &r);
                        each(&r, columns.thread, arg);
                }
        }
}

static void take_shapes(const struct capo_log_frame *f, struct capo_log_shape *shapes)
{
        const struct capo_log_shape *s;
        unsigned n = capo_log_shapes(f, &s);

        for (; n--; s++)
                shapes[s->id] = *s;
}

static void print_record(const struct capo_record *r, unsigned thread, void *arg)
{
        text_record(r);
}

static void text_block(const struct capo_log_frame *f)
{
        struct capo_log_columns c;

        if (capo_log_block(f, &c) < 0)
                puts("    bad");
        else
                printf("    base %" PRIu64 " calls %u thread %u%s%s\n", c.base, c.n, c.thread, c.gpu_ns ? " gpu" : "",
                       c.aux ? " aux" : "");
}

static void text_health(const struct capo_log *log)
{
        const struct capo_log_health *h = capo_log_health(log);

        for (uint64_t i = 0; i < h->n_damages && i < CAPO_DAMAGES_KEPT; i++)
                printf("damaged at byte %" PRIu64 " (%s): %" PRIu64 " bytes left out\n", h->damages[i].offset,
                       h->damages[i].what, h->damages[i].bytes);
        if (h->cut_bytes)
                printf("ends inside a frame at byte %" PRIu64 ", %" PRIu64 " bytes behind it\n", h->cut_at,
                       h->cut_bytes);
        if (h->unknown_frames)
                printf("%" PRIu64 " frames of unknown type left out\n", h->unknown_frames);
}

static int dump_text(struct capo_log *log, bool records, struct capo_log_shape *shapes)
{
        const struct capo_log_header *h = capo_log_header(log);
        struct capo_log_frame f;
        int r;

        printf("capo log version %u (readers from %u) pid %u ticks/s %" PRIu64 " epoch %" PRIu64 ".%09" PRIu64 "\n",
               h->version, h->min_reader, h->pid, h->ticks_per_s, h->t0_real_ns / 1000000000,
               h->t0_real_ns % 1000000000);
        while ((r = capo_log_next(log, &f)) > 0) {
                printf("%" PRIu64 " %s %u\n", f.offset, capo_frame_name(f.type), f.size);
                switch (f.type) {
                case CAPO_FRAME_COMM: text_comm(&f); break;
                case CAPO_FRAME_SITE: text_site(&f); break;
                case CAPO_FRAME_SHAPE:
                        text_shapes(&f);
                        take_shapes(&f, shapes);
                        break;
                case CAPO_FRAME_BLOCK: text_block(&f); __attribute__((fallthrough));
                case CAPO_FRAME_WIDE:
                        if (records)
                                each_record(&f, shapes, print_record, NULL);
                        break;
                case CAPO_FRAME_CELL: text_cell(&f); break;
                case CAPO_FRAME_END: text_end(&f); break;
                default: text_lines(&f);
                }
        }
        text_health(log);
        return r;
}

/* ---- trace ---- */

struct trace {
        unsigned process;
        uint64_t t0_real_ns, base_real_ns;
        bool some;
        char host[128];
        int rank;
};

static void trace_text(const char *s)
{
        for (; *s; s++) {
                if ((unsigned char)*s < ' ')
                        continue;
                if (*s == '"' || *s == '\\')
                        putchar('\\');
                putchar(*s);
        }
}

/* Streams are lines of their own, numbered above all threads. When the GPU began is not known: its bar starts with the
 * host's call. */
enum { GPU_LINE = 1 << 17 };

static void trace_event(struct trace *t, const struct capo_record *r, uint64_t begin_ns, uint64_t ns, uint64_t line)
{
        double ts = ((double)(int64_t)(t->t0_real_ns - t->base_real_ns) + (double)begin_ns) / 1000;
        char size[32];

        printf("%s\n{\"name\":\"%s %s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%u,\"tid\":%" PRIu64
               ",\"args\":{%s\"bytes\":%" PRIu64
               ",\"comm\":%u,\"seq\":%u,\"clock\":\"%s\",\"algo\":\"%s\",\"proto\":\"%s\"}}",
               t->some ? "," : "", capo_call_name(r->call), capo_size_print(r->bytes, size, sizeof size), ts,
               (double)ns / 1000, t->process, line,
               line >= GPU_LINE ? "\"begin\":\"not known, shown from the host's call\"," : "", r->bytes, r->comm,
               r->seq, capo_clock_name(r->clock), capo_algo_name(r->algo_proto >> 4),
               capo_proto_name(r->algo_proto & 15));
        t->some = true;
}

static void trace_record(const struct capo_record *r, unsigned thread, void *arg)
{
        trace_event(arg, r, r->t_begin, r->t_end - r->t_begin, thread);
        if (r->gpu_ns)
                trace_event(arg, r, r->t_begin, r->gpu_ns, GPU_LINE + r->stream);
}

static void trace_info(struct trace *t, const struct capo_log_frame *f)
{
        struct capo_info_line line;
        size_t at = 0;

        while (capo_info_next(f, &at, &line)) {
                if (capo_info_is(&line, CAPO_INFO_HOST))
                        snprintf(t->host, sizeof t->host, "%.*s", (int)line.n_value, line.value);
                if (capo_info_is(&line, CAPO_INFO_RANK))
                        t->rank = atoi(line.value);
        }
}

static int dump_trace(struct capo_log *log, struct trace *t, struct capo_log_shape *shapes)
{
        struct capo_log_frame f;
        int r;

        t->t0_real_ns = capo_log_header(log)->t0_real_ns;
        if (!t->base_real_ns)
                t->base_real_ns = t->t0_real_ns;
        t->host[0] = 0;
        t->rank = -1;
        while ((r = capo_log_next(log, &f)) > 0) {
                if (f.type == CAPO_FRAME_INFO)
                        trace_info(t, &f);
                else if (f.type == CAPO_FRAME_SHAPE)
                        take_shapes(&f, shapes);
                else if (f.type == CAPO_FRAME_BLOCK || f.type == CAPO_FRAME_WIDE)
                        each_record(&f, shapes, trace_record, t);
        }
        printf("%s\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":\"", t->some ? "," : "",
               t->process);
        if (t->rank >= 0)
                printf("rank %d ", t->rank);
        trace_text(t->host);
        printf(" pid %u\"}}", capo_log_header(log)->pid);
        t->some = true;
        return r;
}

/* ---- command line ---- */

static int dump_files(const struct capo_log_paths *paths, bool chrome, bool records)
{
        _cleanup_free_ struct capo_log_shape *shapes = calloc(65536, sizeof *shapes);
        struct trace t = {0};
        int status = CAPO_EXIT_OK;

        if (!shapes)
                return CAPO_EXIT_FAIL;
        if (chrome)
                fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", stdout);
        for (size_t i = 0; i < paths->n; i++) {
                _cleanup_(capo_log_closep) struct capo_log *log = NULL;
                char why[512] = "out of memory";
                int r = capo_log_open(paths->path[i], &log, why, sizeof why);

                if (r < 0) {
                        capo_error("%s %s", paths->path[i], why);
                        status = CAPO_EXIT_FAIL;
                        continue;
                }
                memset(shapes, 0, 65536 * sizeof *shapes);
                r = chrome ? dump_trace(log, &t, shapes) : dump_text(log, records, shapes);
                t.process++;
                if (r < 0) {
                        capo_error("%s: %s", paths->path[i], strerror(-r));
                        status = CAPO_EXIT_FAIL;
                }
        }
        if (chrome)
                fputs("\n]}\n", stdout);
        return status;
}

struct options {
        bool chrome, records;
};

static int dump(void *options, int n, char **words)
{
        _cleanup_(capo_log_paths_finish) struct capo_log_paths paths = {0};
        const struct options *o = options;
        char why[512];

        if (capo_log_find(words, (size_t)n, &paths, why, sizeof why) < 0) {
                capo_error("%s", why);
                return CAPO_EXIT_FAIL;
        }
        if (!paths.n) {
                capo_error("%s holds no logs (*.capo)", words[0]);
                return CAPO_EXIT_FAIL;
        }
        return dump_files(&paths, o->chrome, o->records);
}

static const struct cli_option options[] = {{"records", CLI_FLAG(struct options, records), "every single call too"},
                                            {"chrome", CLI_FLAG(struct options, chrome), "a trace: the second form"},
                                            {0}};

const struct cli_command dump_command = {
        .usage = "[--records] FILE\n"
                 "--chrome FILE|DIR... > trace.json",
        .about =
                "The first form prints one log frame by frame (docs/log-format.md); --records adds every single call. "
                "The second writes the calls that the logs keep one by one - all with `capo run --trace all`, else the "
                "last ones of each process - for https://ui.perfetto.dev or chrome://tracing: a process per rank, a "
                "line per thread with the time in the call, a line per stream with the time on the GPU where it was "
                "taken. Hosts keep their own clocks there; capo report says how far they are apart.",
        .options = options,
        .after = "  capo dump capo-logs/48213/node3.4711.capo | less\n"
                 "  capo dump --chrome capo-logs/48213 > trace.json",
        .status = "0; 1 a log cannot be read, 2 wrong command line.",
        .operand = "FILE",
        .missing = "which log? expected a file",
        .least = 1,
        .most = UINT_MAX,
        .size = sizeof(struct options),
        .run = dump,
};
