/* SPDX-License-Identifier: Apache-2.0 */
/* capo dump: prints a log as text, frame by frame, for debugging and for tests. It prints while it
 * reads, so the size of the log does not matter. */
#include "capo/frame_types.h"
#include "capo/msg.h"
#include "capo/record.h"
#include "cli/base/cli.h"
#include "cli/trace/cmd_trace.h"
#include "core/base/calls.h"
#include "analysis/log/log_find.h"
#include "analysis/job/log_calls.h"

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
        static const char *const names[] = {"member", "group", "captured", "async", "chosen"};

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
               "%016" PRIx64 " born %" PRIu64 " died %" PRIu64 " library %u%s%s%s%s\n",
               c.id, c.name_size, name, c.uid, c.rank, c.n_ranks, c.device, c.n_nodes, c.min_local,
               c.max_local, c.parent, c.color, c.comm_hash, c.t_created, c.t_destroyed, c.library,
               c.flags & CAPO_COMM_NONBLOCKING ? " nonblocking" : "",
               c.flags & CAPO_COMM_ABORTED ? " aborted" : "",
               c.flags & CAPO_COMM_TUNED ? " tuned" : "",
               c.flags & CAPO_COMM_SEVERAL ? " several" : "");
}

static void text_site(const struct capo_log_frame *f)
{
        struct capo_log_site s;
        const char *text;

        if (capo_log_site(f, &s, &text) < 0) {
                puts("    bad");
                return;
        }
        printf("    id %u calls %" PRIu64 " host %" PRIu64 " ns gpu %" PRIu64 " ns in %" PRIu64,
               s.id, s.count, s.host_ns, s.gpu_ns, s.gpu_count);
        if (s.chosen)
                printf(", chosen %" PRIu64 " ns in %" PRIu64, capo_log_site_chosen(f).gpu_ns,
                       capo_log_site_chosen(f).gpu_count);
        putchar('\n');
        for (size_t at = 0; at < s.text_size;) {
                const char *end = memchr(text + at, '\n',
                                         s.text_size - at); /* it may be the end of the frame */
                size_t n = end ? (size_t)(end - text) - at : s.text_size - at;

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
                       s->id, capo_call_name(s->call), s->bytes, s->comm, s->cell, s->site,
                       s->stream, s->peer, capo_type_name(s->type), capo_op_name(s->op), s->result,
                       capo_clock_name(s->clock), capo_ran_algo(s->algo_proto),
                       capo_ran_proto(s->algo_proto), capo_call_channels(s->call, s->channels),
                       s->rule);
                text_flags(s->flags);
                putchar('\n');
        }
}

static void text_hist(const char *what, const struct capo_log_hist_view *h)
{
        if (!h->head.count)
                return;
        printf("        %s %" PRIu64 " calls, %" PRIu64 " ns, min %" PRIu64 " max %" PRIu64 ":",
               what, h->head.count, h->head.sum_ns, h->head.min_ns, h->head.max_ns);
        for (uint32_t i = 0; i < h->head.n; i++)
                printf(" %" PRIu64 "x%" PRIu64,
                       capo_hist_floor(h->pairs[i].bucket % CAPO_HIST_BUCKETS), h->pairs[i].count);
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
        printf("    id %u %s bytes %" PRIu64 " comm %u count %" PRIu64
               " %s %s channels %u clock %s result %d rule %u",
               c.id, capo_call_name(c.call), c.bytes, c.comm, c.count, capo_ran_algo(c.algo_proto),
               capo_ran_proto(c.algo_proto), capo_call_channels(c.call, c.channels),
               capo_clock_name(c.clock), c.result, c.rule);
        text_flags(c.flags);
        putchar('\n');
        text_hist("host", &host);
        text_hist("gpu", &gpu);
        if (capo_log_cell_waited(f, &gpu) == 0)
                text_hist("waited", &gpu);
}

static void text_end(const struct capo_log_frame *f)
{
        struct capo_log_end e;

        if (capo_log_end(f, &e) < 0) {
                puts("    bad");
                return;
        }
        printf("    t %" PRIu64 " calls %" PRIu64 " dropped %" PRIu64 " gpu_dropped %" PRIu64
               " shape_overflow %" PRIu64 " bytes_lost %" PRIu64 " cost %.1f ns threads %u %s\n",
               e.t_ns, e.calls, e.dropped, e.gpu_dropped, e.shape_overflow, e.bytes_lost, e.cost_ns,
               e.threads,
               e.clean == 1   ? "clean"
               : e.clean == 2 ? "recovered"
                              : "checkpoint");
}

/* Print a field other than time, duration and call; in words if it has them. */
static void text_field(const struct capo_record *r, const char *name, int64_t value)
{
        uint64_t gpu_begin;

        if (!strcmp(name, "clock"))
                printf(" clock %s", capo_clock_name(r->clock));
        else if (!strcmp(name, "flags"))
                text_flags(r->flags);
        else if (!strcmp(name, "group") && capo_record_gpu_begin(r, &gpu_begin))
                printf(" gpu_begin %" PRIu64, gpu_begin);
        else if (!strcmp(name, "algo_proto"))
                printf(" %s %s", capo_ran_algo(r->algo_proto), capo_ran_proto(r->algo_proto));
        else if (strcmp(name, "t_begin") && strcmp(name, "t_end") && strcmp(name, "call"))
                printf(" %s %" PRId64, name, value);
}

static int print_record(const struct capo_record *r, unsigned thread, void *arg)
{
        printf("    %" PRIu64 " +%" PRIu64 " %s", r->t_begin, r->t_end - r->t_begin,
               capo_call_name(r->call));
#define CAPO_FIELD(type, name, kept) text_field(r, #name, (int64_t)r->name);
#include "capo/record_fields.def"
        putchar('\n');
        return 0;
}

static void text_block(const struct capo_log_frame *f)
{
        struct capo_log_columns c;

        if (capo_log_block(f, &c) < 0)
                puts("    bad");
        else
                printf("    base %" PRIu64 " calls %u thread %u%s%s\n", c.base, c.n, c.thread,
                       c.gpu_ns ? " gpu" : "", c.aux ? " aux" : "");
}

static void text_health(const struct capo_log *log)
{
        const struct capo_log_health *h = capo_log_health(log);

        for (uint64_t i = 0; i < h->n_damages && i < CAPO_DAMAGES_KEPT; i++)
                printf("damaged at byte %" PRIu64 " (%s): %" PRIu64 " bytes left out\n",
                       h->damages[i].offset, h->damages[i].what, h->damages[i].bytes);
        if (h->cut_bytes)
                printf("ends inside a frame at byte %" PRIu64 ", %" PRIu64 " bytes behind it\n",
                       h->cut_at, h->cut_bytes);
        if (h->unknown_frames)
                printf("%" PRIu64 " frames of unknown type left out\n", h->unknown_frames);
}

static int dump_text(struct capo_log *log, bool records)
{
        const struct capo_log_header *h = capo_log_header(log);
        _cleanup_(capo_log_calls_freep) struct capo_log_calls *calls = capo_log_calls_new();
        struct capo_log_frame f;
        int r;

        printf("capo log version %u (readers from %u) pid %u ticks/s %" PRIu64 " epoch %" PRIu64
               ".%09" PRIu64 "\n",
               h->version, h->min_reader, h->pid, h->ticks_per_s, h->t0_real_ns / 1000000000,
               h->t0_real_ns % 1000000000);
        while ((r = capo_log_next(log, &f)) > 0) {
                printf("%" PRIu64 " %s %u\n", f.offset, capo_frame_name(f.type), f.size);
                switch (f.type) {
                case CAPO_FRAME_COMM: text_comm(&f); break;
                case CAPO_FRAME_SITE: text_site(&f); break;
                case CAPO_FRAME_SHAPE: text_shapes(&f); break;
                case CAPO_FRAME_BLOCK: text_block(&f); break;
                case CAPO_FRAME_WIDE: break;
                case CAPO_FRAME_CELL: text_cell(&f); break;
                case CAPO_FRAME_END: text_end(&f); break;
                default: text_lines(&f);
                }
                r = capo_log_calls_take(calls, &f, records ? print_record : NULL, NULL);
                if (r < 0)
                        return r;
        }
        text_health(log);
        return r;
}

/* ---- command line ---- */

struct options {
        bool chrome, records;
        const char *out;
};

static int run_dump(void *options, int n, char **words)
{
        _cleanup_(capo_log_paths_finish) struct capo_log_paths paths = {0};
        const struct options *o = options;
        int status = CAPO_EXIT_OK;
        char why[512];

        if (o->out && !o->chrome)
                return capo_fail(CAPO_EXIT_USAGE,
                                 "dump: -o is where a trace goes: expected --chrome, too");
        if (o->chrome)
                return trace_make(&(struct trace_options){.out = o->out}, "dump", words, (size_t)n);
        if (capo_log_find(words, (size_t)n, &paths, why, sizeof why) < 0)
                return capo_fail(CAPO_EXIT_FAIL, "%s", why);
        if (!paths.n)
                return capo_fail(CAPO_EXIT_FAIL, "%s holds no logs (*.capo)", words[0]);
        for (size_t i = 0; i < paths.n; i++) {
                _cleanup_(capo_log_closep) struct capo_log *log = NULL;
                int r = capo_log_paths_take(&paths, i, &log, why, sizeof why);

                if (r < 0)
                        status = capo_fail(CAPO_EXIT_FAIL, "%s %s", paths.path[i], why);
                else if ((r = dump_text(log, o->records)) < 0)
                        status = capo_fail(CAPO_EXIT_FAIL, "%s: %s", paths.path[i], strerror(-r));
        }
        return status;
}

static const struct cli_option options[] = {
        {"records", CLI_FLAG(struct options, records), "every single call too"},
        {"chrome", CLI_FLAG(struct options, chrome), NULL},
        {"output", CLI_FILE(struct options, out, "FILE"), NULL, .letter = 'o'},
        {0}};

const struct cli_command dump_command = {
        .usage = "[--records] FILE...",
        .about =
                "Prints a log frame by frame (docs/internals/log-format.md); --records adds every single call. "
                "capo trace has the calls as a picture of time.",
        .options = options,
        .after = "  capo dump capo-logs/JOB/node3.4711.capo | less",
        .status = "0; 1 a log cannot be read, 2 wrong command line.",
        .missing = "which log? expected a file",
        .least = 1,
        .most = UINT_MAX,
        .size = sizeof(struct options),
        .run = run_dump,
};
