/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>

#include "analysis/causes/causes.h"
#include "capo/call_ids.h"
#include "cli/base/cli.h"
#include "cli/hang/hang_describe.h"
#include "cli/watch/live_call.h"
#include "cli/watch/metrics.h"
#include "core/base/clock.h"
#include "core/base/xalloc.h"

struct metrics_put;

struct metrics_family {
        const char *name, *type, *help;
        void (*put)(struct metrics_put *p); /* writes its points of p->job */
        bool foreign;                       /* of Inspector: without our labels */
        bool p2p, time; /* of messages, not collectives; times, not bandwidths */
};

struct metrics_put {
        FILE *out;
        enum metrics_format format;
        const struct watch *watch;
        const struct watch_job *job;         /* current job */
        const struct metrics_family *family; /* current family */
        bool counter, headed;                /* headed: its heading was written */
        json_t *series; /* of the current family: a user can make a job that has one twice, and that
                           makes the node exporter fail for all of them */
};

/* Text from a job: anything but printable ASCII becomes '?'. */
static void put_label(const struct metrics_put *p, FILE *out, const char *name, const char *value)
{
        const bool lines = p->format == METRICS_LINES;

        fprintf(out, lines ? "%s\"%s\":\"" : "%s%s=\"", ftell(out) ? (lines ? ", " : ",") : "",
                name);
        for (; *value; value++) {
                if (*value == '"' || *value == '\\')
                        fputc('\\', out);
                fputc(*value < ' ' || *value > '~' ? '?' : *value, out);
        }
        fputc('"', out);
}

/* Write one value. @suffix: appended to the family's name; then names and values of labels,
 * NULL-terminated. NAN, infinity and a series that was written before are skipped. */
static void __attribute__((sentinel))
metrics_point(struct metrics_put *p, const char *suffix, double value, ...)
{
        const struct metrics_family *f = p->family;
        /* OpenMetrics names a family of counters without "_total", the older format with it */
        const char *end = p->counter && p->format == METRICS_TEXT ? "_total" : "";
        _cleanup_free_ char *text = NULL;
        char number[32];
        va_list labels;
        size_t n = 0;
        FILE *out;

        if (!isfinite(value))
                return;
        out = xmemstream(&text, &n);
        if (!f->foreign) {
                put_label(p, out, "job_id", p->job->id);
                put_label(p, out, "user", p->job->user);
                put_label(p, out, "node", p->watch->node);
        }
        va_start(labels, value);
        for (const char *name; (name = va_arg(labels, const char *));)
                put_label(p, out, name, va_arg(labels, const char *));
        va_end(labels);
        fputs(suffix, out); /* a part of the name */
        xmemclose(out);
        if (json_object_get(p->series, text))
                return;
        json_object_set_new_nocheck(p->series, text, json_null());
        text[n - strlen(suffix)] = 0;
        if (!p->headed && p->format != METRICS_LINES) /* a family without points has none */
                fprintf(p->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", f->name, end, f->help, f->name,
                        end, f->type);
        p->headed = true;
        snprintf(number, sizeof number, "%.15g", value);
        if (p->format == METRICS_LINES)
                fprintf(p->out,
                        "{\"metric\": \"%s%s\", \"type\": \"%s\", \"value\": %s, \"tags\": {%s}}\n",
                        f->name, suffix, f->type, number, text);
        else
                fprintf(p->out, *text ? "%s%s{%s} %s\n" : "%s%s%s %s\n", f->name, suffix, text,
                        number);
}

/* Names and labels of NVIDIA's Inspector (NCCL_INSPECTOR_PROM_DUMP=1), so that its dashboards find
 * their series. Inspector has one file per GPU and the last values; here there is one series for
 * all GPUs of the node (gpu="all"), with values since the start of the job. */

enum { SMALLEST = 8 << 10, ROWS = 128 };

/* "4-5GB": whole units of 1024. */
static char *size_range(uint64_t bytes, char *text, size_t room)
{
        static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
        unsigned k = 0;

        for (; bytes >= 1024 && k < 4; k++)
                bytes /= 1024;
        snprintf(text, room, "%llu-%llu%s", (unsigned long long)bytes,
                 (unsigned long long)bytes + 1, units[k]);
        return text;
}

/* "Ring_ll" */
static char *ran_as(uint8_t algo_proto, char *text, size_t room)
{
        const char *algo = capo_ran_algo(algo_proto), *proto = capo_ran_proto(algo_proto);
        size_t n = (size_t)snprintf(text, room, "%s_", algo);

        for (; *proto && n + 1 < room; proto++)
                text[n++] = (char)tolower((unsigned char)*proto);
        text[n] = 0;
        return algo_proto ? text : strcpy(text, "unknown");
}

/* Rows that Inspector would have, those with most time first: of several with equal labels,
 * metrics_point() writes the first. */
static void put_inspected(struct metrics_put *p)
{
        const struct capo_page *page = &p->job->page.late;
        const bool p2p = p->family->p2p;
        unsigned n = 0;

        for (uint32_t i = 0; i < page->judged.n && n < ROWS; i++) {
                const struct capo_page_row *row = &page->judged.row[i];
                struct capo_sampled s = capo_job_row_sampled(&row->row);
                const struct capo_job_comm *c;
                char size[64], ran[32], comm[CAPO_LIVE_NAME];

                if (!row->has_bandwidth || row->bytes_max < SMALLEST ||
                    row->row.comm == CAPO_NO_COMM ||
                    (capo_call_kind(row->row.call) == CAPO_KIND_P2P) != p2p)
                        continue;
                n++;
                c = &page->job->comms[row->row.comm];
                snprintf(comm, sizeof comm, "%.*s", (int)strcspn(c->name, "#"), c->name);
                metrics_point(p, "", p->family->time ? capo_sampled_mean(&s) / 1e3 : row->busbw,
                              "version", "capo-" CAPO_VERSION, "slurm_job_id", p->job->id, "node",
                              p->watch->node, "gpu", "all", "comm_name", comm, "n_nodes",
                              hang_print("%u", c->n_nodes), "nranks", hang_print("%d", c->n_ranks),
                              p2p ? "p2p_operation" : "collective", capo_call_name(row->row.call),
                              "message_size", size_range(row->bytes_max, size, sizeof size),
                              p2p ? NULL : "algo_proto",
                              ran_as(row->row.algo_proto, ran, sizeof ran), NULL);
        }
}

static void put_ranks(struct metrics_put *p)
{
        static const char *const names[] = {"alive", "stopped", "exited", "killed"};
        unsigned n[N_ELEMENTS(names)] = {0};

        for (uint32_t i = 0; i < p->job->page.hang.n_processes; i++)
                n[p->job->page.hang.processes[i].life]++;
        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                metrics_point(p, "", n[i], "state", names[i], NULL);
}

/* The field of the family's name, of each row. */
static void put_rows(struct metrics_put *p)
{
        for (uint32_t i = 0; i < p->job->rows.n; i++) {
                const struct capo_live_row *row = &p->job->rows.row[i];
                const struct capo_live_rate rate = {.row = row};

                metrics_point(p, p->counter ? "_total" : "",
                              cli_field_export(&live_call, NULL, &rate, p->family->name), "comm",
                              row->comm, "call", capo_call_name(row->call), "size",
                              capo_live_size_text(row->size, hang_room()), NULL);
        }
}

static bool same_failure(const struct capo_job_failure *a, const struct capo_job_failure *b)
{
        return a->call == b->call && a->result == b->result;
}

static void put_errors(struct metrics_put *p)
{
        const struct capo_job *job = p->job->page.job;

        for (uint32_t i = 0; i < job->n_failures; i++) {
                const struct capo_job_failure *f = &job->failures[i];
                uint64_t n = 0;
                bool before = false;

                for (uint32_t k = 0; k < job->n_failures; k++) {
                        before |= k < i && same_failure(&job->failures[k], f);
                        n += same_failure(&job->failures[k], f) ? job->failures[k].calls : 0;
                }
                if (!before)
                        metrics_point(p, "_total", (double)n, "call", capo_call_name(f->call),
                                      "result", hang_print("%d", f->result), NULL);
        }
}

enum { FIRST_END = 12, LAST_END = 32 }; /* log2 of ns: 4 us to 4.3 s, each end 4 times the last */

/* Bucket ends are powers of two ns, like those of the recorder's histograms, so nothing is
 * interpolated. */
static void put_histogram(struct metrics_put *p, const struct capo_live_row *row,
                          const struct capo_hist *h, const char *clock)
{
        const char *size = capo_live_size_text(row->size, hang_room());
        uint64_t n = 0;
        unsigned k = 0;

        for (unsigned log2 = FIRST_END; log2 <= LAST_END; log2 += 2) {
                for (; k < h->n && h->first + k < CAPO_HIST_BUCKETS - 1 &&
                       capo_hist_floor(h->first + k) < UINT64_C(1) << log2;
                     k++)
                        n += h->bucket[k];
                metrics_point(p, "_bucket", (double)n, "comm", row->comm, "call",
                              capo_call_name(row->call), "size", size, "clock", clock, "le",
                              hang_print("%.12g", (double)(UINT64_C(1) << log2) / 1e9), NULL);
        }
        metrics_point(p, "_bucket", (double)h->count, "comm", row->comm, "call",
                      capo_call_name(row->call), "size", size, "clock", clock, "le", "+Inf", NULL);
        metrics_point(p, "_sum", (double)h->sum_ns / 1e9, "comm", row->comm, "call",
                      capo_call_name(row->call), "size", size, "clock", clock, NULL);
        metrics_point(p, "_count", (double)h->count, "comm", row->comm, "call",
                      capo_call_name(row->call), "size", size, "clock", clock, NULL);
}

static void put_seconds(struct metrics_put *p)
{
        for (uint32_t i = 0; i < p->job->rows.n; i++) {
                const struct capo_live_row *row = &p->job->rows.row[i];

                if (row->gpu.count)
                        put_histogram(p, row, &row->gpu, "gpu");
                else if (row->host.count)
                        put_histogram(p, row, &row->host, "host");
        }
}

static const char *certain(const struct capo_job_steps *s)
{
        return s->steps.known == CAPO_STEPS_FOUND ? "true" : "false";
}

static void put_steps(struct metrics_put *p)
{
        const struct capo_job_steps *s = &p->job->page.late.steps;

        if (s->steps.known != CAPO_STEPS_NONE && s->total)
                metrics_point(p, "_total", (double)s->total, "certain", certain(s), NULL);
}

static void put_step_seconds(struct metrics_put *p)
{
        const struct capo_job_steps *s = &p->job->page.late.steps;

        if (!s->steps.n_plain)
                return;
        metrics_point(p, "", s->steps.recent_p50_ns / 1e9, "value", "p50", "certain", certain(s),
                      NULL);
        metrics_point(p, "", s->steps.recent_p95_ns / 1e9, "value", "p95", "certain", certain(s),
                      NULL);
}

enum { LATE = 16, NICS = 64 };

static void put_late(struct metrics_put *p)
{
        const struct hang_page *page = &p->job->page;
        const struct capo_page_wait *w;

        for (uint32_t i = 0; i < LATE && (w = hang_late(page, i)); i++) {
                const struct capo_job_comm *c = &page->job->comms[w->comm];
                const struct capo_job_member *m = &c->members[w->last];

                metrics_point(p, "", w->caused_share, "comm", c->name, "rank",
                              hang_print("%d", m->job_rank >= 0 ? m->job_rank : m->rank), "host",
                              page->job->processes[m->process].host, NULL);
        }
}

static void put_causes(struct metrics_put *p)
{
        const struct hang_page *page = &p->job->page;

        for (uint32_t i = 0; i < LATE && i < page->late.n_causes; i++) {
                const struct capo_causes *c = &page->late.causes[i];
                int rank = c->comm == CAPO_NO_COMM ? -1 : page->job->processes[c->process].rank;

                for (unsigned k = 0; k < c->n && c->found[k].is_cause && !(c->longer > 0); k++)
                        metrics_point(p, "", 1, "rank", hang_print("%d", rank), "cause",
                                      capo_whys[c->found[k].why].name, NULL);
        }
}

static void put_longer(struct metrics_put *p)
{
        const struct capo_page *page = &p->job->page.late;

        for (uint32_t i = 0; i < page->n_causes; i++) {
                const struct capo_causes *c = &page->causes[i];

                for (unsigned k = 0; k < c->n && c->found[k].is_cause && c->longer > 0; k++)
                        metrics_point(p, "", c->longer, "cause", capo_whys[c->found[k].why].name,
                                      NULL);
        }
}

static void put_age(struct metrics_put *p)
{
        const struct hang_page *page = &p->job->page;

        for (uint32_t i = 0; i < page->hang.n_processes; i++) {
                if (page->hang.processes[i].life <= CAPO_HANG_STOPPED)
                        metrics_point(p, "", (double)watch_age_ns(p->job, i) / 1e9, "rank",
                                      hang_print("%d", page->hang.processes[i].rank), "pid",
                                      hang_print("%u", page->job->processes[i].header.pid), NULL);
        }
}

static void put_verdict(struct metrics_put *p)
{
        for (unsigned k = 0; k < CAPO_HANG_KINDS; k++)
                metrics_point(p, "", k == (unsigned)watch_kind(p->job), "verdict",
                              capo_hang_kind_name(k), NULL);
}

static void put_one_culprit(struct metrics_put *p, int rank, const char *host, const char *why)
{
        metrics_point(p, "", 1, "rank", hang_print("%d", rank), "host", host, "reason", why, NULL);
}

static void put_culprit(struct metrics_put *p)
{
        const struct watch_stuck *s = &p->job->stuck;
        const struct hang_page *page = &p->job->page;
        const struct capo_hang_verdict *v = &page->verdict;

        for (unsigned i = 0; s->since_ns && i < s->n_culprits; i++)
                put_one_culprit(p, s->culprit[i].rank, s->culprit[i].host, s->culprit[i].why);
        for (uint32_t i = 0; !s->since_ns && capo_hang_kind_exit(v->kind) == 1 && i < v->n_culprits;
             i++)
                put_one_culprit(p, capo_hang_culprit_rank(&page->hang, &v->culprits[i]),
                                page->job->processes[v->culprits[i].process].host,
                                capo_hang_why_name(v->culprits[i].why));
}

static void put_creation(struct metrics_put *p)
{
        const struct capo_job *job = p->job->page.job;

        for (unsigned call = CAPO_CALL_COMMINIT; call <= CAPO_CALL_COMMGROW; call++) {
                uint64_t most = 0;

                for (uint32_t i = 0; i < job->n_rows; i++) {
                        const struct capo_hist *h = &job->rows[i].time[CAPO_CLOCK_HOST];

                        if (job->rows[i].call == call && h->max_ns > most)
                                most = h->max_ns;
                }
                if (most)
                        metrics_point(p, "", (double)most / 1e9, "call", capo_call_name(call),
                                      NULL);
        }
}

/* Each interface once, over the ranks that use it. */
static void put_nics(struct metrics_put *p)
{
        bool sent = strstr(p->family->name, "transmit");
        const struct capo_fabric_job *f = p->job->fabric;

        for (size_t i = 0; f && i < f->n_links && i < NICS; i++) {
                uint64_t n = 0;
                bool before = false;

                for (size_t k = 0; k < i && !before; k++)
                        before =
                                !strcmp(watch_nic_name(&f->links[k]), watch_nic_name(&f->links[i]));
                for (size_t k = i; k < f->n_links && !before; k++) {
                        if (!strcmp(watch_nic_name(&f->links[k]), watch_nic_name(&f->links[i])))
                                n += sent ? f->links[k].sent : f->links[k].received;
                }
                if (!before)
                        metrics_point(p, "_total", (double)n, "nic", watch_nic_name(&f->links[i]),
                                      NULL);
        }
}

static double still_ns(const struct watch_job *job)
{
        const struct capo_hang_verdict *v = &job->page.verdict;
        uint64_t since = job->stuck.since_ns, now = job->page.hang.now_ns;

        if (since)
                return since < now ? (double)(now - since) : 0;
        /* of the verdict that is exported before an alarm */
        return capo_hang_kind_exit(v->kind) == 1 && v->kind != CAPO_HANG_ENDED ? (double)v->still_ns
                                                                               : 0;
}

static int64_t resident_bytes(void)
{
        struct rusage u;

        getrusage(RUSAGE_SELF, &u);
        return u.ru_maxrss * 1024;
}

static uint64_t failed_calls(const struct capo_job *job)
{
        uint64_t n = 0;

        for (uint32_t i = 0; i < job->n_failures; i++)
                n += job->failures[i].calls;
        return n;
}

#define JOB_METRICS(F)                                                                    \
        F(NULL, COUNT, failed_calls(of->page.job), NULL, NULL, "capo_failed_calls")       \
        F(NULL, COUNT, of->page.job->dropped, NULL, NULL, "capo_dropped_calls")           \
        F(NULL, COUNT, of->page.job->gpu_dropped, NULL, NULL, "capo_dropped_gpu_times")   \
        F(NULL, BYTES, of->page.job->bytes_lost, NULL, NULL, "capo_dropped_log_bytes")    \
        F(NULL, SHARE, of->page.late.gpu_share, NULL, NULL, "capo_communication_ratio")   \
        F(NULL, DURATION, still_ns(of), NULL, NULL, "capo_hang_seconds")                  \
        F(NULL, EXACT, (double)capo_clock_of(CLOCK_PROCESS_CPUTIME_ID) / 1e9, NULL, NULL, \
          "capo_watch_cpu_seconds")                                                       \
        F(NULL, BYTES, resident_bytes(), NULL, NULL, "capo_watch_resident_bytes")         \
        F(NULL, TIME, in->sampled_ns, NULL, NULL, "capo_watch_look_timestamp_seconds")
CLI_ENTITY(job_metrics, struct watch_job, struct watch, JOB_METRICS);

static void put_job(struct metrics_put *p)
{
        metrics_point(p, p->counter ? "_total" : "",
                      cli_field_export(&job_metrics, p->watch, p->job, p->family->name), NULL);
}

#define GAUGE     "gauge"
#define COUNTER   "counter"
#define HISTOGRAM "histogram"

static const struct metrics_family families[] = {
#define METRIC(id, name, type, help) {name, type, help, put_##id},
#include "cli/watch/metrics.def"
};

static const struct metrics_family inspected[] = {
        {"nccl_bus_bandwidth_gbs", GAUGE, "Bus bandwidth of a collective in GB/s, median.",
         put_inspected, .foreign = true},
        {"nccl_collective_exec_time_microseconds", GAUGE,
         "GPU time of a collective in microseconds, mean.", put_inspected, .foreign = true,
         .time = true},
        {"nccl_p2p_bus_bandwidth_gbs", GAUGE, "Bus bandwidth of a send or receive in GB/s, median.",
         put_inspected, .foreign = true, .p2p = true},
        {"nccl_p2p_exec_time_microseconds", GAUGE,
         "GPU time of a send or receive in microseconds, mean.", put_inspected, .foreign = true,
         .p2p = true, .time = true},
};

void metrics_print(const struct watch *w, const struct watch_job *only, enum metrics_format format,
                   FILE *out)
{
        struct metrics_put p = {.out = out, .format = format, .watch = w};
        const bool foreign = w->options->style == WATCH_STYLE_INSPECTOR && format != METRICS_LINES;
        const struct metrics_family *first = foreign ? inspected : families,
                                    *end = foreign ? inspected + N_ELEMENTS(inspected)
                                                   : families + N_ELEMENTS(families);

        for (p.family = first; p.family < end; p.family++) {
                p.counter = !strcmp(p.family->type, COUNTER);
                p.headed = false;
                json_decref(p.series);
                p.series = json_object();
                for (uint32_t j = 0; j < w->n_jobs; j++) {
                        p.job = &w->job[j];
                        if (p.job->readable && (!only || only == p.job))
                                p.family->put(&p);
                }
        }
        json_decref(p.series);
        if (format == METRICS_OPEN)
                fputs("# EOF\n", out);
}
