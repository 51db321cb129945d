/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capo report: logs in, one page out. Here: the command line, reading the logs, choosing and sorting the rows, and what
 * is wrong with the logs. The faces are report_text.c, report_json.c and report_html.c.
 */
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "core/calls.h"
#include "core/log_find.h"
#include "core/segment.h"
#include "core/size.h"
#include "core/table.h"
#include "core/util.h"

enum format { TEXT, JSON, CSV };

enum sort_key {
        BY_TIME,
        BY_COUNT,
        BY_SIZE,
        BY_P50,
        BY_P95,
        BY_P99,
        BY_MAX,
        BY_ALGBW,
        BY_BUSBW,
        BY_COMM,
        BY_CALL,
        SORTS
};
static const char *const sort_names[SORTS] = {"time", "count", "size",  "p50",  "p95", "p99",
                                              "max",  "algbw", "busbw", "comm", "call"};

struct options {
        enum format format;
        enum sort_key sort;
        const char *comm, *html;
        unsigned call; /* enum capo_call_id; 0: all */
        bool all, recover;
        char **args;
        int n_args;
};

static void help(void)
{
        puts("usage: capo report [OPTIONS] DIR|FILE...\n"
             "\n"
             "Merges the logs of all ranks of a job into one page: what its collectives cost, who came late, where\n"
             "they were called, what was wrong. DIR stands for the logs in it; a folder of jobs (capo-logs/) for the\n"
             "newest of them. What processes that were killed on this machine had not yet written is taken up first.\n"
             "\n"
             "  --all          every row and every exact size (else the rows that cost most, many sizes as ranges)\n"
             "  --sort KEY     time (default), count, size, p50, p95, p99, max, algbw, busbw, comm or call\n"
             "  --comm NAME    only communicators of this name; * and ? match as in the shell\n"
             "  --call NAME    only this call: AllReduce, allreduce and ncclAllReduce are the same\n"
             "  --json         for programs: docs/report.md lists the keys\n"
             "  --csv          the rows, for a spreadsheet\n"
             "  --html FILE    also write a page with pictures: time by size, lateness by rank\n"
             "  --no-recover   leave what killed processes left in memory alone\n"
             "\n"
             "How to read it. Times are per call, over all ranks; the column `clock` says what measured them: `event`\n"
             "and `kernel` are GPU times (waiting for late ranks included), `host` is only how long the call took to\n"
             "return, which is not the transfer, so it gives no bandwidth. Count is calls per rank: an AllReduce of 8\n"
             "ranks is one. Bandwidths follow nccl-tests: algbw is size over time (here p50), busbw is algbw times\n"
             "2(n-1)/n for AllReduce, (n-1)/n for AllGather and ReduceScatter, ...; for the latter two the size is "
             "the\n"
             "total over ranks. Percentiles are exact to 1/16 (they come from histograms of every call).\n"
             "\n"
             "  capo run -- torchrun --nproc-per-node 8 train.py && capo report capo-logs/\n"
             "  capo report --json logs/ | jq '.rows[] | select(.call == \"AllReduce\") | {bytes, busbw_gbs}'\n"
             "\n"
             "Exit status: 0; 1 when there is no log to report, 2 for a wrong command line.");
}

static int option(struct options *o, int argc, char **argv, int *i)
{
        const struct {
                const char *name;
                const char **value;
        } valued[] = {{"--comm", &o->comm}, {"--html", &o->html}, {"--sort", NULL}, {"--call", NULL}};

        if (!strcmp(argv[*i], "--all"))
                o->all = true;
        else if (!strcmp(argv[*i], "--json"))
                o->format = JSON;
        else if (!strcmp(argv[*i], "--csv"))
                o->format = CSV;
        else if (!strcmp(argv[*i], "--no-recover"))
                o->recover = false;
        else {
                for (size_t k = 0; k < N_ELEMENTS(valued); k++) {
                        size_t n = strlen(valued[k].name);
                        const char *value;

                        if (strncmp(argv[*i], valued[k].name, n) != 0 || (argv[*i][n] && argv[*i][n] != '='))
                                continue;
                        value = argv[*i][n] ? argv[*i] + n + 1 : *i + 1 < argc ? argv[++*i] : NULL;
                        if (!value) {
                                capo_error("report: %s needs a value", valued[k].name);
                                return -EINVAL;
                        }
                        if (valued[k].value) {
                                *valued[k].value = value;
                        } else if (!strcmp(valued[k].name, "--call")) {
                                o->call = capo_call_find(value);
                                if (!o->call) {
                                        capo_error("report: --call %s: not an NCCL call that capo records", value);
                                        return -EINVAL;
                                }
                        } else {
                                for (o->sort = 0; o->sort < SORTS && strcmp(sort_names[o->sort], value) != 0; o->sort++)
                                        ;
                                if (o->sort == SORTS) {
                                        capo_error("report: --sort %s: expected time, count, size, p50, p95, p99, max, "
                                                   "algbw, busbw, comm or call",
                                                   value);
                                        return -EINVAL;
                                }
                        }
                        return 0;
                }
                capo_error("report: unknown option \"%s\"; capo report --help", argv[*i]);
                return -EINVAL;
        }
        return 0;
}

static int parse(struct options *o, int argc, char **argv)
{
        bool files_only = false;

        *o = (struct options){.recover = true, .args = argv};
        for (int i = 1; i < argc; i++) {
                if (!files_only && !strcmp(argv[i], "--")) {
                        files_only = true;
                } else if (!files_only && argv[i][0] == '-' && argv[i][1]) {
                        if (option(o, argc, argv, &i) < 0)
                                return -EINVAL;
                } else {
                        o->args[o->n_args++] = argv[i]; /* never overtakes i */
                }
        }
        if (!o->n_args) {
                capo_error("report: which logs? expected a folder or files; capo report --help");
                return -EINVAL;
        }
        return 0;
}

/* ---- what is wrong ---- */

static void __attribute__((format(printf, 2, 3))) problem(struct report *r, const char *format, ...)
{
        va_list args;
        char *text = NULL;
        void *larger = realloc(r->problems, (r->n_problems + 1) * sizeof *r->problems);

        if (!larger)
                return;
        r->problems = larger;
        va_start(args, format);
        if (vasprintf(&text, format, args) >= 0)
                r->problems[r->n_problems++] = text;
        va_end(args);
}

char *report_ranks_text(const bool *is, uint32_t n_ranks)
{
        char *text = NULL;
        size_t size;
        FILE *out = NULL;

        for (uint32_t from = 0, to; from < n_ranks; from = to) {
                to = from + 1;
                if (is[from])
                        continue;
                while (to < n_ranks && !is[to])
                        to++;
                if (!out && !(out = open_memstream(&text, &size)))
                        return NULL;
                fprintf(out,
                        to - from > 2    ? "%s%u-%u"
                        : to - from == 2 ? "%s%u, %u"
                                         : "%s%u",
                        ftell(out) ? ", " : "", from, to - 1);
        }
        if (out)
                fclose(out);
        return text;
}

static void missing_of(struct report *r, const struct capo_job_comm *c)
{
        _cleanup_free_ bool *is = NULL;
        _cleanup_free_ char *text = NULL;
        uint32_t n_missing;

        if (c->n_ranks <= 0 || c->n_ranks > 1 << 20 || c->n_members >= (uint32_t)c->n_ranks)
                return;
        is = calloc((size_t)c->n_ranks, sizeof *is);
        if (!is)
                return;
        n_missing = (uint32_t)c->n_ranks;
        for (uint32_t i = 0; i < c->n_members; i++) {
                if (c->members[i].rank >= 0 && c->members[i].rank < c->n_ranks && !is[c->members[i].rank]) {
                        is[c->members[i].rank] = true;
                        n_missing--;
                }
        }
        text = report_ranks_text(is, (uint32_t)c->n_ranks);
        if (text)
                problem(r, "rank%s %s of %d of communicator %s left no log", n_missing > 1 ? "s" : "", text, c->n_ranks,
                        c->name);
}

/* Ranks by the launcher's count; where there is none, of the largest communicators. */
static void missing_ranks(struct report *r)
{
        const struct capo_job *job = r->job;
        _cleanup_free_ bool *is = job->n_ranks > 0 && job->n_ranks <= 1 << 20 ? calloc((size_t)job->n_ranks, 1) : NULL;
        _cleanup_free_ char *text = NULL;
        bool by_launcher = job->n_processes > 0 && is;
        int32_t n_seen = 0;

        for (uint32_t i = 0; i < job->n_processes && is; i++) {
                int rank = job->processes[i].rank;

                by_launcher &= capo_job_info(&job->processes[i], "rank") && rank >= 0 && rank < job->n_ranks;
                if (rank >= 0 && rank < job->n_ranks && !is[rank]) {
                        is[rank] = true;
                        n_seen++;
                }
        }
        if (by_launcher) {
                text = report_ranks_text(is, (uint32_t)job->n_ranks);
                if (text)
                        problem(r, "rank%s %s of %d left no log", job->n_ranks - n_seen > 1 ? "s" : "", text,
                                job->n_ranks);
                return;
        }
        for (uint32_t i = 0; i < job->n_comms && job->comms[i].n_ranks == job->comms[0].n_ranks && i < 8; i++)
                missing_of(r, &job->comms[i]);
}

static const char *base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

static bool alive_here(const struct capo_job_process *p)
{
        char host[256] = "";

        gethostname(host, sizeof host - 1);
        return !strcmp(host, p->host) && (kill((pid_t)p->header.pid, 0) == 0 || errno == EPERM);
}

static void process_problems(struct report *r, const struct capo_job_process *p)
{
        const struct capo_log_health *h = &p->health;
        const char *name = base_name(p->path);
        char n1[32], n2[32];

        for (uint64_t i = 0; i < h->n_damages && i < CAPO_DAMAGES_KEPT; i++)
                problem(r, "%s: damaged at byte %s (%s): %s bytes left out, the rest is used", name,
                        capo_text_count(h->damages[i].offset, n1), h->damages[i].what,
                        capo_text_count(h->damages[i].bytes, n2));
        if (h->n_damages > CAPO_DAMAGES_KEPT)
                problem(r, "%s: damaged in %s more places, %s bytes lost in all", name,
                        capo_text_count(h->n_damages - CAPO_DAMAGES_KEPT, n1), capo_text_count(h->bytes_lost, n2));
        if (p->read_error)
                problem(r, "%s: reading stopped at %s", name, strerror(-p->read_error));
        if (h->cut_bytes)
                problem(r, "%s: ends inside a frame at byte %s; all before it is used", name,
                        capo_text_count(h->cut_at, n1));
}

/* Many logs may share a trouble: one line beyond a few. */
static void all_process_problems(struct report *r)
{
        uint32_t shown = 0, hidden = 0;

        for (uint32_t i = 0; i < r->job->n_processes; i++) {
                const struct capo_job_process *p = &r->job->processes[i];
                uint32_t before = r->n_problems;

                if (shown >= 8 && !r->all) {
                        hidden += p->health.n_damages || p->health.cut_bytes || p->read_error;
                        continue;
                }
                process_problems(r, p);
                shown += r->n_problems - before;
        }
        if (hidden)
                problem(r, "%u more logs are cut or damaged: capo report --all names them", hidden);
}

/* Processes that did not end by themselves, or not yet: by rank where ranks are known, else by name. */
static void unfinished(struct report *r, bool alive)
{
        const struct capo_job *job = r->job;
        uint32_t n_ranks = job->n_ranks > 0 && job->n_ranks <= 1 << 20 ? (uint32_t)job->n_ranks : 0, n = 0;
        _cleanup_free_ bool *ended = malloc(n_ranks + 1);
        _cleanup_free_ char *text = NULL;

        if (!ended)
                return;
        memset(ended, true, n_ranks + 1);
        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];

                if ((p->has_end && p->end.clean) || alive_here(p) != alive)
                        continue;
                if (p->rank >= 0 && (uint32_t)p->rank < n_ranks) {
                        ended[p->rank] = false;
                        n++;
                } else {
                        problem(r,
                                alive ? "%s: its process still runs; this is what it has written so far"
                                      : "%s: its process was killed, or ended without an exit that capo sees",
                                base_name(p->path));
                }
        }
        text = report_ranks_text(ended, n_ranks);
        if (text)
                problem(r,
                        alive ? "rank%s %s still run%s: this is what has been written so far"
                              : "rank%s %s: killed, or ended without an exit that capo sees%s; all written before is "
                                "used",
                        n > 1 ? "s" : "", text, alive && n < 2 ? "s" : "");
}

/* Ranks that tuned by another profile than most. */
static void rule_problems(struct report *r)
{
        const struct capo_job *job = r->job;
        const struct capo_job_process *first = NULL;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];
                size_t n = p->rules ? strcspn(p->rules, "\n") : 0;

                if (!first) {
                        first = p;
                        continue;
                }
                if (!p->rules != !first->rules ||
                    (p->rules && (strncmp(p->rules, first->rules, n) != 0 || strcspn(first->rules, "\n") != n))) {
                        problem(r, "rank %d uses profile %.*s, rank %d %.*s: ranks that decide differently hang",
                                p->rank, n ? (int)n : 4, n ? p->rules : "none", first->rank,
                                first->rules ? (int)strcspn(first->rules, "\n") : 4,
                                first->rules ? first->rules : "none");
                        return;
                }
        }
}

static void find_problems(struct report *r)
{
        const struct capo_job *job = r->job;
        uint64_t failed = 0;
        char n[32];

        missing_ranks(r);
        rule_problems(r);
        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_skew *s = job->comms[i].skew;

                if (s && s->mismatched)
                        problem(r,
                                "ranks of %s disagree on what its call number %u is (kind or size): a hang or wrong "
                                "data",
                                job->comms[i].name, s->mismatch_seq);
        }
        for (uint32_t i = 0; i < job->n_rows; i++)
                failed += job->rows[i].failed;
        if (failed)
                problem(r, "%s calls returned an error", capo_text_count(failed, n));
        if (job->dropped)
                problem(r, "%s calls were not recorded: a thread's ring was full (CAPO_RING=1M makes them larger)",
                        capo_text_count(job->dropped, n));
        if (job->shape_overflow)
                problem(r, "%s calls are counted together: there were more different calls than the log has places for",
                        capo_text_count(job->shape_overflow, n));
        if (job->bytes_lost)
                problem(r, "%s bytes of log could not be written (disk full, or the folder went away)",
                        capo_text_count(job->bytes_lost, n));
        unfinished(r, false);
        unfinished(r, true);
        all_process_problems(r);
}

/* ---- rows ---- */

static bool wanted(const struct report *r, const struct options *o, const struct capo_job_row *row)
{
        if (o->call && row->call != o->call)
                return false;
        return !o->comm || (row->comm != CAPO_NO_COMM && fnmatch(o->comm, r->job->comms[row->comm].name, 0) == 0);
}

static bool moves_data(const struct capo_job_row *row)
{
        return capo_call_kind(row->call) != CAPO_KIND_OTHER;
}

/* Which rows belong together when not everything is shown: sizes of one power of two, when there are many sizes. */
static bool belongs(const struct capo_job_row *a, const struct capo_job_row *b, bool ranges)
{
        bool same_size = a->bytes == b->bytes;

        if (ranges && a->bytes && b->bytes)
                same_size = __builtin_clzll(a->bytes) == __builtin_clzll(b->bytes);
        return same_size && a->comm == b->comm && a->call == b->call && a->algo_proto == b->algo_proto &&
               a->channels == b->channels && a->flags == b->flags;
}

enum { MANY_SIZES = 16, NEAR = 256 };

/* Different sizes of the call at rows[i], which are together; *end is behind its last row. */
static uint32_t count_sizes(const struct capo_job *job, uint32_t i, uint32_t *end)
{
        uint32_t n = 1, k = i + 1;

        for (; k < job->n_rows && job->rows[k].comm == job->rows[i].comm && job->rows[k].call == job->rows[i].call; k++)
                n += job->rows[k].bytes != job->rows[k - 1].bytes;
        *end = k;
        return n;
}

static int add_row(struct report *r, const struct capo_job_row *row, uint32_t first, bool ranges)
{
        struct report_row *to = NULL;
        uint64_t moved = row->count * row->bytes;

        /* rows come sorted by size, so what this one belongs to is near */
        for (uint32_t i = r->n_rows; i-- > first && r->n_rows - i <= NEAR && !to;) {
                if (belongs(&r->rows[i].row, row, ranges))
                        to = &r->rows[i];
        }
        if (!to) {
                to = &r->rows[r->n_rows++];
                *to = (struct report_row){.row = *row, .n_comms = 1};
                memset(to->row.time, 0, sizeof to->row.time);
                to->row.calls = to->row.count = to->row.failed = 0;
        }
        to->bytes_max = row->bytes > to->bytes_max ? row->bytes : to->bytes_max;
        for (unsigned c = 0; c < CAPO_CLOCKS; c++)
                to->timed_bytes[c] += (double)row->bytes * (double)row->time[c].count;
        if (!(row->flags & CAPO_RECORD_GROUP)) {
                r->collectives += row->count;
                r->moved_bytes += moved;
        }
        return capo_job_row_merge(&to->row, row);
}

static bool on_gpu(enum capo_clock clock)
{
        return clock == CAPO_CLOCK_EVENT || clock == CAPO_CLOCK_KERNEL;
}

/* The numbers of each row, and their shares: of GPU time where the job has any, else of host time. */
static void rate_rows(struct report *r)
{
        double gpu_ns = 0, sum = 0;

        for (uint32_t i = 0; i < r->n_rows; i++) {
                struct report_row *row = &r->rows[i];

                row->clock = capo_job_row_clock(&row->row);
                row->total_ns = capo_job_row_total_ns(&row->row);
                if (on_gpu(row->clock)) {
                        r->gpu = true;
                        gpu_ns += row->total_ns;
                }
                row->has_bandwidth = capo_job_row_bandwidth(r->job, &row->row, &row->algbw, &row->busbw);
                if (row->has_bandwidth && row->row.bytes != row->bytes_max) {
                        double factor = row->busbw / row->algbw;

                        row->algbw = row->timed_bytes[row->clock] / (double)row->row.time[row->clock].sum_ns;
                        row->busbw = row->algbw * factor;
                }
        }
        for (uint32_t i = 0; i < r->n_rows; i++) {
                if (on_gpu(r->rows[i].clock) || !r->gpu)
                        sum += r->rows[i].total_ns;
        }
        for (uint32_t i = 0; i < r->n_rows; i++)
                r->rows[i].share =
                        (on_gpu(r->rows[i].clock) || !r->gpu) && sum > 0 && r->rows[i].clock != CAPO_CLOCK_NONE
                                ? r->rows[i].total_ns / sum
                                : -1;
        r->gpu_share = -1;
        if (r->gpu && capo_job_duration_ns(r->job))
                r->gpu_share = gpu_ns / ((double)capo_job_duration_ns(r->job) * r->job->n_processes);
}

static double sort_value(const struct report_row *row, enum sort_key key)
{
        const struct capo_hist *h = &row->row.time[row->clock];

        switch (key) {
        case BY_COUNT: return (double)row->row.count;
        case BY_SIZE: return (double)row->row.bytes;
        case BY_P50: return capo_hist_quantile(h, 0.5);
        case BY_P95: return capo_hist_quantile(h, 0.95);
        case BY_P99: return capo_hist_quantile(h, 0.99);
        case BY_MAX: return (double)h->max_ns;
        case BY_ALGBW: return row->has_bandwidth ? row->algbw : -1;
        case BY_BUSBW: return row->has_bandwidth ? row->busbw : -1;
        case BY_COMM:
        case BY_CALL: return 0;
        default: return row->share >= 0 ? row->share : row->total_ns / 1e30 - 1; /* those without a share behind */
        }
}

static enum sort_key sorting_by;

/* Largest first; names and sizes rising where those are asked for, and where all else is equal. */
static int by_key(const void *a, const void *b)
{
        const struct report_row *x = a, *y = b;
        double vx = sort_value(x, sorting_by), vy = sort_value(y, sorting_by);

        if (vx != vy)
                return (vx > vy ? -1 : 1) * (sorting_by == BY_SIZE ? -1 : 1);
        if (sorting_by == BY_CALL && x->row.call != y->row.call)
                return x->row.call - y->row.call;
        if (x->row.comm != y->row.comm)
                return x->row.comm < y->row.comm ? -1 : 1;
        if (x->row.call != y->row.call)
                return x->row.call - y->row.call;
        if (x->row.bytes != y->row.bytes)
                return x->row.bytes < y->row.bytes ? -1 : 1;
        if (x->row.algo_proto != y->row.algo_proto)
                return x->row.algo_proto - y->row.algo_proto;
        if (x->row.channels != y->row.channels)
                return x->row.channels - y->row.channels;
        return x->row.flags - y->row.flags;
}

static int choose_rows(struct report *r, const struct options *o)
{
        const struct capo_job *job = r->job;
        uint32_t end;

        r->rows = calloc(job->n_rows + 1, sizeof *r->rows);
        r->others = calloc(job->n_rows + 1, sizeof *r->others);
        if (!r->rows || !r->others)
                return -ENOMEM;
        for (uint32_t i = 0; i < job->n_rows; i = end) {
                bool ranges = count_sizes(job, i, &end) > MANY_SIZES && o->format == TEXT && !o->all;
                uint32_t first = r->n_rows;

                for (uint32_t k = i; k < end; k++) {
                        if (!wanted(r, o, &job->rows[k]))
                                continue;
                        if (!moves_data(&job->rows[k]))
                                r->others[r->n_others++] = (struct report_row){
                                        .row = job->rows[k], .clock = capo_job_row_clock(&job->rows[k])};
                        else if (add_row(r, &job->rows[k], first, ranges) < 0)
                                return -ENOMEM;
                }
        }
        rate_rows(r);
        sorting_by = o->sort;
        qsort(r->rows, r->n_rows, sizeof *r->rows, by_key);
        return 0;
}

static void report_finish(struct report *r)
{
        for (uint32_t i = 0; i < r->n_rows; i++) {
                for (unsigned c = 0; c < CAPO_CLOCKS; c++)
                        capo_hist_finish(&r->rows[i].row.time[c]);
        }
        for (uint32_t i = 0; i < r->n_problems; i++)
                free(r->problems[i]);
        free(r->problems);
        free(r->rows);
        free(r->others);
        capo_job_free(r->job);
}

/* ---- small texts the faces share ---- */

const char *report_comm_name(const struct report *r, uint32_t comm)
{
        return comm == CAPO_NO_COMM ? "-" : r->job->comms[comm].name;
}

char *report_size(const struct report_row *row, char *text, size_t room)
{
        char from[32], to[32];
        size_t n;

        if (row->row.bytes == row->bytes_max)
                return capo_size_print(row->row.bytes, text, room);
        capo_size_print(row->row.bytes, from, sizeof from);
        capo_size_print(row->bytes_max, to, sizeof to);
        n = strcspn(from, " ");
        if (!strcmp(from + n, to + strcspn(to, " ")))
                from[n] = 0; /* "1-1.9 MiB" */
        snprintf(text, room, "%s-%s", from, to);
        return text;
}

const char *report_call(const struct capo_job_row *row, char *text, size_t room)
{
        snprintf(text, room, "%s%s%s", capo_call_name(row->call), row->flags & CAPO_RECORD_MEMBER ? " in group" : "",
                 row->flags & CAPO_RECORD_CAPTURED ? " captured" : "");
        return text;
}

char *report_site_line(const struct capo_job_site *site, unsigned n, char *text, size_t room)
{
        const char *line = site->text;
        size_t at = 0;

        *text = 0;
        for (unsigned i = 0; i < n && *line && at + 1 < room; i++) {
                size_t length = strcspn(line, "\n");
                int wrote = snprintf(text + at, room - at, "%s%.*s", i ? " <- " : "", (int)length, line);

                at += wrote > 0 ? (size_t)wrote : 0;
                line += length + (line[length] == '\n');
        }
        return text;
}

bool report_sites_by_gpu(const struct report *r)
{
        uint64_t gpu = 0;

        for (uint32_t i = 0; i < r->job->n_sites; i++)
                gpu += r->job->sites[i].gpu_count;
        return gpu > 0;
}

/* As with rows: calls that the GPU clock did not see last as long as the mean of those it saw. */
double report_site_time(const struct report *r, const struct capo_job_site *site)
{
        if (!report_sites_by_gpu(r))
                return (double)site->host_ns;
        return site->gpu_count ? (double)site->gpu_ns / (double)site->gpu_count * (double)site->count : 0;
}

/* ---- reading ---- */

struct recovering {
        unsigned processes;
        uint64_t records;
};

static int recover_one(const struct capo_segment_info *info, void *arg)
{
        struct recovering *sum = arg;
        struct capo_segment_info done = {0};
        int r = capo_segment_recover(info->path, NULL, &done);

        if (r == 0) {
                sum->processes++;
                sum->records += done.records;
        } else if (r != -EBUSY) {
                capo_warn("pid %d left calls that are not in its log, and they cannot be taken up: %s", info->pid,
                          strerror(-r));
        }
        return 0;
}

/* What killed processes of this machine left in memory goes into their logs first. */
static void recover(const struct capo_log_paths *paths)
{
        struct recovering sum = {0};

        for (size_t i = 0; i < paths->n_folders; i++) {
                _cleanup_free_ char *absolute = realpath(paths->folder[i], NULL);

                if (absolute)
                        capo_segment_find_dead(NULL, absolute, recover_one, &sum);
        }
        if (sum.processes)
                capo_info("took up %llu calls that %u killed process%s had not yet written",
                          (unsigned long long)sum.records, sum.processes, sum.processes > 1 ? "es" : "");
}

struct progress {
        uint64_t total, before;
        size_t nth, n;
        bool shown;
        struct timespec started;
};

static void show_progress(uint64_t bytes, void *arg)
{
        struct progress *p = arg;
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!p->shown && now.tv_sec - p->started.tv_sec < 1)
                return;
        p->shown = true;
        fprintf(stderr, "\rcapo: reading log %zu of %zu, %.0f %%\033[K", p->nth + 1, p->n,
                p->total ? 100.0 * (double)(p->before + bytes) / (double)p->total : 0);
}

static uint64_t file_size(const char *path)
{
        FILE *f = fopen(path, "re");
        long size = -1;

        if (f) {
                if (fseek(f, 0, SEEK_END) == 0)
                        size = ftell(f);
                fclose(f);
        }
        return size > 0 ? (uint64_t)size : 0;
}

static int read_logs(struct report *r, const struct capo_log_paths *paths)
{
        struct progress p = {.n = paths->n};
        bool tell = isatty(STDERR_FILENO);
        char why[512] = "";

        clock_gettime(CLOCK_MONOTONIC, &p.started);
        for (size_t i = 0; tell && i < paths->n; i++)
                p.total += file_size(paths->path[i]);
        for (p.nth = 0; p.nth < paths->n; p.nth++) {
                const char *path = paths->path[p.nth];
                int e = capo_job_add_log(r->job, path, why, sizeof why, tell ? show_progress : NULL, &p);

                if (e == -ENOMEM) {
                        capo_error("report: out of memory");
                        return e;
                }
                if (e < 0) {
                        if (p.shown)
                                fputs("\r\033[K", stderr);
                        capo_warn("%s %s: left out", path, why);
                        problem(r, "%s %s: left out", base_name(path), why);
                }
                if (tell) {
                        p.before += file_size(path);
                        show_progress(0, &p);
                }
        }
        if (p.shown)
                fputs("\r\033[K", stderr);
        return 0;
}

static int make(struct report *r, const struct options *o, const struct capo_log_paths *paths)
{
        r->job = capo_job_new();
        if (!r->job)
                return -ENOMEM;
        r->what = paths->n_folders == 1 ? paths->folder[0] : paths->n ? paths->path[0] : o->args[0];
        r->all = o->all;
        if (read_logs(r, paths) < 0)
                return -ENOMEM;
        if (!r->job->n_processes) {
                if (!paths->n)
                        capo_error("%s holds no logs (*.capo); capo run --dir %s -- COMMAND makes some", o->args[0],
                                   o->args[0]);
                else
                        capo_error("none of %zu file%s is a log that can be read", paths->n, paths->n > 1 ? "s" : "");
                return -ENOENT;
        }
        if (capo_job_finish(r->job) < 0 || choose_rows(r, o) < 0)
                return -ENOMEM;
        find_problems(r);
        return 0;
}

int capo_verb_report(int argc, char **argv)
{
        _cleanup_(capo_log_paths_finish) struct capo_log_paths paths = {0};
        _cleanup_(report_finish) struct report r = {0};
        struct options o;
        char why[512];
        int e = 0;

        for (int i = 1; i < argc; i++) {
                if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
                        help();
                        return CAPO_EXIT_OK;
                }
        }
        if (parse(&o, argc, argv) < 0)
                return CAPO_EXIT_USAGE;
        if (capo_log_find(o.args, (size_t)o.n_args, &paths, why, sizeof why) < 0) {
                capo_error("%s", why);
                return CAPO_EXIT_FAIL;
        }
        if (o.recover && paths.n_folders) {
                recover(&paths);
                capo_log_paths_finish(&paths); /* a log may have been born */
                if (capo_log_find(o.args, (size_t)o.n_args, &paths, why, sizeof why) < 0) {
                        capo_error("%s", why);
                        return CAPO_EXIT_FAIL;
                }
        }
        if (make(&r, &o, &paths) < 0)
                return CAPO_EXIT_FAIL;
        if (o.format == JSON)
                e = report_json(&r, stdout);
        else if (o.format == CSV)
                e = report_csv(&r, stdout);
        else
                report_text(&r, stdout);
        if (e == 0 && o.html)
                e = report_html(&r, o.html);
        if (e == 0 && (fflush(stdout) != 0 || ferror(stdout)))
                e = -errno;
        if (e < 0 && e != -EPIPE)
                capo_error("report: cannot write%s%s: %s", o.html ? " " : "", o.html ? o.html : "", strerror(-e));
        return e < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}
