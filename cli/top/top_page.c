/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/base/cli_json.h"
#include "cli/top/top_page.h"
#include "cli/watch/live_call.h"
#include "cli/hang/hang_describe.h"
#include "core/base/xalloc.h"
#include "analysis/job/figures.h"

const char *const top_sort_names[TOP_SORTS + 1] = {
        [TOP_SORT_TIME] = "time", [TOP_SORT_CALLS] = "calls", [TOP_SORT_BYTES] = "bytes",
        [TOP_SORT_P50] = "p50",   [TOP_SORT_BUSBW] = "busbw", [TOP_SORT_NAME] = "name",
};

enum { LATE = 3, NICS = 4, CUT = 20 };

/* Text from a job may have letters of several bytes: each becomes '?'. A table marks with such a
 * letter where it cut a name: '~'. */
static void make_ascii(char *text)
{
        char *to = text;

        for (const char *c = text; *c; c++) {
                if (*c >= ' ' && *c <= '~')
                        *to++ = *c;
                else if ((*c & 0xc0) != 0x80)
                        *to++ = strncmp(c, "\xe2\x80\xa6", 3) ? '?' : '~';
        }
        *to = 0;
}

static void add_line(struct top_lines *to, bool strong, bool alarm, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
static void add_line(struct top_lines *to, bool strong, bool alarm, const char *format, ...)
{
        struct top_line *line;
        va_list args;

        line = xput(to->line, to->n, strong, alarm, "");
        va_start(args, format);
        vsnprintf(line->text, sizeof line->text, format, args);
        va_end(args);
        make_ascii(line->text);
        if (!to->whole && to->width < strlen(line->text))
                strcpy(line->text + to->width - (to->width > CUT ? strlen("...") : 0),
                       to->width > CUT ? "..." : "");
        for (size_t n = strlen(line->text); n && line->text[n - 1] == ' ';)
                line->text[--n] = 0;
}

static void add_rows(struct top_lines *to, const struct watch_job *w,
                     const struct capo_live_rates *rates, const uint32_t *order, uint32_t n)
{
        _cleanup_(capo_table_freep) struct capo_table *t = cli_entity_table(&live_call);
        _cleanup_free_ char *text = NULL;
        char *rest, *line;
        size_t size;
        FILE *out = xmemstream(&text, &size);

        for (uint32_t i = 0; i < n; i++) {
                const struct capo_live_rate *r = &rates->rate[order[i]];

                /* an untimed call that moves nothing, such as communicator creation, is left out */
                if (r->share >= 0 || r->bytes_s > 0 || r->p50_ns > 0 || r->row->busbw > 0)
                        cli_table_entity(t, &live_call, &w->page.late, r);
        }
        capo_table_lines(t, out, to->width);
        xmemclose(out);
        for (rest = text; (line = strsep(&rest, "\n")) && rest;)
                add_line(to, line == text, false, "%s", line);
}

static void add_head(struct top_lines *to, const struct top_job *job, const struct watch_job *w)
{
        enum capo_hang_kind kind = watch_kind(w);
        bool stuck = capo_hang_kind_exit(kind) == 1 && kind != CAPO_HANG_ENDED;
        double share = -1, calls = 0, bytes = 0;
        char time[32], gbs[32], in_nccl[32] = "", rate[64], who[TOP_LINE];

        for (uint32_t i = 0; i < job->rates.n; i++) {
                const struct capo_live_rate *r = &job->rates.rate[i];

                calls += r->calls_s;
                bytes += r->bytes_s;
                share = r->share >= 0 ? fmin(fmax(share, 0) + r->share, 1) : share;
        }
        snprintf(rate, sizeof rate, "%.0f calls/s, %s GB/s enqueued", calls,
                 capo_text_gbs(bytes / 1e9, gbs));
        if (share >= 0)
                snprintf(in_nccl, sizeof in_nccl, ", %.0f %% in NCCL", 100 * share);
        snprintf(who, sizeof who, "%s  %s  %s here  %s  %s", w->id,
                 stuck ? "stuck" : capo_hang_kind_name(kind),
                 capo_text_plural(w->page.hang.n_processes, "rank", NULL), w->user,
                 capo_text_time((double)(job->sampled_ns - w->page.job->t_begin_ns), time));
        if (strlen(who) + strlen("  ") + strlen(rate) + strlen(in_nccl) > to->width) {
                add_line(to, true, capo_hang_kind_exit(kind) == 1, "%s", who);
                *who = 0;
        }
        add_line(to, true, capo_hang_kind_exit(kind) == 1, "%s  %s%s", who, rate, in_nccl);
}

static void add_steps(struct top_lines *to, const struct watch_job *w)
{
        const struct capo_job_steps *s = &w->page.late.steps;
        char total[32], p50[32], p95[32];

        if (!s->steps.n_plain)
                return;
        add_line(to, false, false, "  %s%s, p50 %s, p95 %s%s", s->total ? "step " : "steps",
                 s->total ? capo_text_count(s->total, total) : "",
                 capo_text_duration(s->steps.p50_ns, p50), capo_text_duration(s->steps.p95_ns, p95),
                 s->steps.known == CAPO_STEPS_UNCERTAIN ? " (uncertain)" : "");
}

static void add_job(const struct top *t, struct top_lines *to, const struct top_job *job)
{
        _cleanup_free_ uint32_t *order = xcalloc(job->rates.n + 1, sizeof *order);
        const struct watch_job *w = top_job_of(t, job);
        _cleanup_free_ char *verdict = w ? hang_headline(&w->page, "       ") : NULL;
        const struct capo_page_wait *late;
        char sent[32], received[32];
        uint32_t n;

        if (!w)
                return;
        add_head(to, job, w);
        add_steps(to, w);
        if (capo_hang_kind_exit(w->page.verdict.kind) != 0 && w->page.verdict.n_culprits)
                add_line(to, false, true, "  %s", verdict);
        for (uint32_t i = 0; i < LATE && (late = hang_late(&w->page, i)); i++)
                add_line(to, false, false, "  late: %s", late->text);
        for (size_t i = 0; i < job->n_nics && i < NICS; i++)
                add_line(to, false, false, "  %s: %s GB/s out, %s in", job->nic[i].name,
                         capo_text_gbs(job->nic[i].sent_s / 1e9, sent),
                         capo_text_gbs(job->nic[i].received_s / 1e9, received));
        n = top_rows(t, job, order);
        add_rows(to, w, &job->rates, order, n);
        add_line(to, false, false, "%s",
                 n              ? ""
                 : job->rates.n ? "(no collectives or messages yet)"
                                : "(no calls yet)");
}

void top_page(const struct top *t, struct top_lines *out)
{
        const char *dir = t->watch.options->dir, *in = dir ? " with logs in or below " : "";

        if (!t->n_jobs) {
                add_line(out, false, false, "no process of yours here runs under capo%s%s", in,
                         dir ?: "");
                return;
        }
        for (uint32_t i = 0; i < t->n_jobs; i++)
                add_job(t, out, &t->job[i]);
}

/* ---- JSON ---- */

#define CULPRIT_FIELDS(F)                                          \
        F("rank", RANK, in->page.hang.processes[of->process].rank) \
        F("host", TEXT, in->page.job->processes[of->process].host) \
        F("why", WORD, capo_hang_why_name(of->why))
CLI_ENTITY(culprit, struct capo_hang_culprit, struct watch_job, CULPRIT_FIELDS);

#define COMM (&in->page.job->comms[of->comm])

#define LATE_FIELDS(F)                                \
        F("communicator", TEXT, COMM->name)           \
        F("rank", RANK, COMM->members[of->last].rank) \
        F("share", SHARE, of->caused_share)           \
        F("text", TEXT, of->text)
CLI_ENTITY(late_rank, struct capo_page_wait, struct watch_job, LATE_FIELDS);

#define NIC_FIELDS(F)                                 \
        F("nic", TEXT, of->name)                      \
        F("sent_bytes_per_s", RATE, of->sent_s / 1e9) \
        F("received_bytes_per_s", RATE, of->received_s / 1e9)
CLI_ENTITY(nic_rate, struct top_nic, void, NIC_FIELDS);

#define STEPS_FIELDS(F)                                        \
        F("total", COUNT, of->total ? (int64_t)of->total : -1) \
        F("p50_s", DURATION, of->steps.p50_ns)                 \
        F("p95_s", DURATION, of->steps.p95_ns)                 \
        F("certain", FLAG, of->steps.known == CAPO_STEPS_FOUND)
CLI_ENTITY(step_times, struct capo_job_steps, void, STEPS_FIELDS);

struct job_view {
        const struct top *top;
        const struct top_job *job;
};

static json_t *rows_json(const struct job_view *v, const struct capo_page *late)
{
        _cleanup_free_ uint32_t *order = xcalloc(v->job->rates.n + 1, sizeof *order);
        uint32_t n = top_rows(v->top, v->job, order);

        return CLI_EACH(uint32_t i = 0; i < n;
                        i++, cli_entity_json(&live_call, late, &v->job->rates.rate[order[i]]));
}

#define JOB_FIELDS(F)                                                                           \
        F("job", TEXT, of->id)                                                                  \
        F("user", TEXT, of->user)                                                               \
        F("ranks", COUNT, of->page.hang.n_processes)                                            \
        F("age_s", DURATION, (double)(in->job->sampled_ns - of->page.job->t_begin_ns))          \
        F("verdict", WORD, capo_hang_kind_name(watch_kind(of)))                                 \
        F("steps", JSON,                                                                        \
          cli_entity_json(&step_times, NULL,                                                    \
                          of->page.late.steps.steps.n_plain ? &of->page.late.steps : NULL))     \
        F("culprits", JSON,                                                                     \
          CLI_ENTITIES(culprit, of, of->page.verdict.culprits,                                  \
                       capo_hang_kind_exit(of->page.verdict.kind) ? of->page.verdict.n_culprits \
                                                                  : 0))                         \
        F("late", JSON,                                                                         \
          CLI_EACH(uint32_t k = 0; hang_late(&of->page, k);                                     \
                   k++, cli_entity_json(&late_rank, of, hang_late(&of->page, k))))              \
        F("nics", JSON, CLI_ENTITIES(nic_rate, NULL, in->job->nic, in->job->n_nics))            \
        F("rows", JSON, rows_json(in, &of->page.late))
CLI_ENTITY(top_job, struct watch_job, struct job_view, JOB_FIELDS);

int top_json(const struct top *t, FILE *out)
{
        json_t *jobs = json_array();

        for (uint32_t i = 0; i < t->n_jobs; i++) {
                struct job_view v = {t, &t->job[i]};
                const struct watch_job *w = top_job_of(t, v.job);

                if (w)
                        json_array_append_new(jobs, cli_entity_json(&top_job, &v, w));
        }
        return cli_json_print(out, json_pack("{s:i, s:o}", "capo_top", 1, "jobs", jobs),
                              JSON_INDENT(2) | JSON_REAL_PRECISION(9));
}
