/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/top_page.h"
#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/text.h"
#include "core/base/util.h"
#include "analysis/job/figures.h"

const char *const top_sort_names[TOP_SORTS + 1] = {
        [TOP_SORT_TIME] = "time", [TOP_SORT_CALLS] = "calls", [TOP_SORT_BYTES] = "bytes",
        [TOP_SORT_P50] = "p50",   [TOP_SORT_BUSBW] = "busbw", [TOP_SORT_NAME] = "name",
};

enum {
        LATE = 3,
        CULPRITS = 4,
        NICS = 4,
        CELL = 64,
        COMM_LEAST = 6,
        COMM_MOST = 24,
        CUT = 20,
        RANK_OF_TIME = 8
};

/* ---- columns ---- */

static void put_comm(const struct capo_live_rate *r, char *text)
{
        snprintf(text, 64, "%s", r->row->comm);
}

static void put_call(const struct capo_live_rate *r, char *text)
{
        snprintf(text, 64, "%s", capo_call_name(r->row->call));
}

static void put_size(const struct capo_live_rate *r, char *text)
{
        capo_live_size_text(r->row->size, text);
}

static void put_share(const struct capo_live_rate *r, char *text)
{
        if (r->share < 0)
                snprintf(text, 64, "-");
        else
                snprintf(text, 64, "%.1f %%", 100 * r->share);
}

static void put_calls(const struct capo_live_rate *r, char *text)
{
        if (r->calls_s >= 99999.5)
                snprintf(text, 64, "%.0fk", r->calls_s / 1e3);
        else
                snprintf(text, 64, r->calls_s < 9.95 ? "%.1f" : "%.0f", r->calls_s);
}

/* A rate while a job runs; tiny rates are shown as such. */
static const char *rate_text(double gbs, char *text)
{
        if (gbs > 0 && gbs < 0.0005)
                return strcpy(text, "<0.001");
        return capo_text_gbs(gbs, text);
}

static void put_bytes(const struct capo_live_rate *r, char *text)
{
        if (r->bytes_s > 0)
                rate_text(r->bytes_s / 1e9, text);
        else
                snprintf(text, 64, "-");
}

static void put_p50(const struct capo_live_rate *r, char *text)
{
        if (r->p50_ns > 0)
                capo_text_duration(r->p50_ns, text);
        else
                snprintf(text, 64, "-");
}

static void put_busbw(const struct capo_live_rate *r, char *text)
{
        if (r->row->busbw > 0)
                rate_text(r->row->busbw, text);
        else
                snprintf(text, 64, "-");
}

static void put_reached(const struct capo_live_rate *r, char *text)
{
        if (r->row->reached >= 0)
                snprintf(text, 64, "%.0f %%", 100 * r->row->reached);
        else
                snprintf(text, 64, "-");
}

/* From left to right; a narrow page drops the lowest rank first. A left-aligned column of names is
 * as wide as its longest one, because names should not be cut. */
static const struct {
        const char *head;
        unsigned width, rank;
        bool left;
        void (*put)(const struct capo_live_rate *r, char *text);
} columns[] = {
        {"COMM", COMM_MOST, 9, true, put_comm}, {"CALL", CELL, 7, true, put_call},
        {"SIZE", CELL, 4, true, put_size},      {"TIME", 7, RANK_OF_TIME, false, put_share},
        {"CALLS/S", 7, 6, false, put_calls},    {"GB/S", 7, 5, false, put_bytes},
        {"P50", 8, 3, false, put_p50},          {"BUSBW", 7, 2, false, put_busbw},
        {"LINKS", 5, 1, false, put_reached},
};

/* The columns to print. */
struct layout {
        unsigned width[N_ELEMENTS(columns)];
        bool shown[N_ELEMENTS(columns)];
};

static void measure_columns(const struct capo_live_rates *rates, const uint32_t *order, uint32_t n,
                            struct layout *l)
{
        char cell[CELL];

        for (size_t i = 0; i < N_ELEMENTS(columns); i++) {
                l->shown[i] = true;
                l->width[i] =
                        columns[i].left ? (unsigned)strlen(columns[i].head) : columns[i].width;
                for (uint32_t row = 0; row < n && columns[i].left; row++) {
                        columns[i].put(&rates->rate[order[row]], cell);
                        if (strlen(cell) > l->width[i])
                                l->width[i] = (unsigned)strlen(cell);
                }
                if (l->width[i] > columns[i].width)
                        l->width[i] = columns[i].width;
        }
}

static void fit_columns(unsigned width, struct layout *l)
{
        unsigned sum = 0, more;

        for (size_t i = 0; i < N_ELEMENTS(columns); i++)
                sum += l->width[i] + (i > 0);
        for (unsigned rank = 1; sum > width && rank < RANK_OF_TIME; rank++) {
                for (size_t i = 1; i < N_ELEMENTS(columns); i++) {
                        if (columns[i].rank == rank) {
                                l->shown[i] = false;
                                sum -= l->width[i] + 1;
                        }
                }
        }
        more = sum > width ? sum - width : 0; /* only names and times are left: now cut names */
        l->width[0] = l->width[0] > more + COMM_LEAST ? l->width[0] - more : COMM_LEAST;
}

/* Cut @text in the middle, with dots. */
static void cut_middle(char *text, size_t width)
{
        size_t n = strlen(text), tail = (width - 2) / 2;

        if (n <= width)
                return;
        memmove(text + width - tail, text + n - tail, tail + 1);
        memcpy(text + width - tail - 2, "..", 2);
}

/* ---- lines ---- */

void top_lines_finish(struct top_lines *lines)
{
        free(lines->line);
        *lines = (struct top_lines){0};
}

/* Text from a job may have letters of several bytes: each becomes '?'. */
static int add_line(struct top_lines *to, unsigned width, bool strong, bool alarm,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));
static int add_line(struct top_lines *to, unsigned width, bool strong, bool alarm,
                    const char *format, ...)
{
        struct top_line *line;
        va_list args;

        if (capo_array_room(&to->line, to->n, sizeof *to->line) < 0)
                return -ENOMEM;
        line = &to->line[to->n++];
        *line = (struct top_line){strong, alarm, ""};
        va_start(args, format);
        vsnprintf(line->text, sizeof line->text, format, args);
        va_end(args);
        for (char *c = line->text; *c; c++)
                *c = *c < ' ' || *c > '~' ? '?' : *c;
        if (!to->whole && width < strlen(line->text))
                snprintf(line->text + width - (width > CUT ? strlen("...") : 0),
                         sizeof line->text - width, "%s", width > CUT ? "..." : "");
        for (size_t n = strlen(line->text); n && line->text[n - 1] == ' ';)
                line->text[--n] = 0;
        return 0;
}

static int add_row(struct top_lines *to, unsigned width, const struct layout *l,
                   const struct capo_live_rate *rate)
{
        char text[TOP_LINE] = "", cell[CELL];

        for (size_t i = 0; i < N_ELEMENTS(columns); i++) {
                int room = (int)l->width[i];

                if (!l->shown[i])
                        continue;
                if (rate)
                        columns[i].put(rate, cell);
                else
                        snprintf(cell, sizeof cell, "%s", columns[i].head);
                cut_middle(cell, l->width[i]);
                capo_append(text, sizeof text, "%s%*s", i ? " " : "",
                            columns[i].left ? -room : room, cell);
        }
        return add_line(to, width, !rate, false, "%s", text);
}

/* Is it an untimed call that moves nothing, such as communicator creation? */
static bool is_empty(const struct capo_live_rate *r)
{
        return r->share < 0 && r->bytes_s <= 0 && r->p50_ns <= 0 && r->row->busbw <= 0;
}

static double sum_shares(const struct capo_live_rates *rates)
{
        double sum = -1;

        for (uint32_t i = 0; i < rates->n; i++) {
                if (rates->rate[i].share >= 0)
                        sum = fmax(sum, 0) + rates->rate[i].share;
        }
        return fmin(sum, 1);
}

static int add_head(struct top_lines *to, unsigned width, const struct top_job *job,
                    const struct watch_job *w)
{
        enum capo_hang_kind kind = watch_kind(w);
        bool stuck = capo_hang_kind_exit(kind) == 1 && kind != CAPO_HANG_ENDED;
        double share = sum_shares(&job->rates), calls = 0, bytes = 0;
        char time[32], gbs[32], in_nccl[32] = "", rate[64], who[TOP_LINE];
        int r = 0;

        for (uint32_t i = 0; i < job->rates.n; i++) {
                calls += job->rates.rate[i].calls_s;
                bytes += job->rates.rate[i].bytes_s;
        }
        snprintf(rate, sizeof rate, "%.0f calls/s, %s GB/s enqueued", calls,
                 rate_text(bytes / 1e9, gbs));
        if (share >= 0)
                snprintf(in_nccl, sizeof in_nccl, ", %.0f %% in NCCL", 100 * share);
        snprintf(who, sizeof who, "%s  %s  %s here  %s  %s", w->id,
                 stuck ? "stuck" : capo_hang_kind_name(kind),
                 capo_text_plural(w->page.hang.n_processes, "rank", NULL), w->user,
                 capo_text_time((double)(job->sampled_ns - w->page.job->t_begin_ns), time));
        if (strlen(who) + strlen("  ") + strlen(rate) + strlen(in_nccl) > width) {
                r = add_line(to, width, true, capo_hang_kind_exit(kind) == 1, "%s", who);
                *who = 0;
        }
        return r
                       ?: add_line(to, width, true, capo_hang_kind_exit(kind) == 1, "%s  %s%s", who,
                                   rate, in_nccl);
}

static int add_steps(struct top_lines *to, unsigned width, const struct watch_job *w)
{
        const struct capo_job_steps *s = &w->page.late.steps;
        char total[32], p50[32], p95[32];

        if (!s->steps.n_plain)
                return 0;
        return add_line(
                to, width, false, false, "  %s%s, p50 %s, p95 %s%s", s->total ? "step " : "steps",
                s->total ? capo_text_count(s->total, total) : "",
                capo_text_duration(s->steps.p50_ns, p50), capo_text_duration(s->steps.p95_ns, p95),
                s->steps.known == CAPO_STEPS_UNCERTAIN ? " (uncertain)" : "");
}

static int add_verdict(struct top_lines *to, unsigned width, const struct watch_job *w)
{
        const struct capo_hang_verdict *v = &w->page.verdict;
        char who[32], still[32];
        int r = 0;

        if (capo_hang_kind_exit(v->kind) == 0 || !v->n_culprits)
                return 0;
        for (uint32_t i = 0; i < v->n_culprits && i < CULPRITS && r == 0; i++)
                r = add_line(to, width, false, true, "  %s: %s (no progress for %s)",
                             hang_who(&w->page, v->culprits[i].process, who),
                             capo_hang_why_meaning(v->culprits[i].why),
                             capo_text_time((double)v->still_ns, still));
        return r;
}

static int add_job(const struct top *t, struct top_lines *to, unsigned width,
                   const struct top_job *job)
{
        _cleanup_free_ uint32_t *order = calloc(job->rates.n + 1, sizeof *order);
        const struct watch_job *w = top_job_of(t, job);
        const struct capo_page_wait *late;
        char sent[32], received[32];
        struct layout layout;
        uint32_t n;
        int r;

        if (!order || !w)
                return order ? 0 : -ENOMEM;
        r = add_head(to, width, job, w);
        r = r ?: add_steps(to, width, w);
        r = r ?: add_verdict(to, width, w);
        for (uint32_t i = 0; i < LATE && r == 0 && (late = hang_late(&w->page, i)); i++)
                r = add_line(to, width, false, false, "  late: %s", late->text);
        for (size_t i = 0; i < job->n_nics && i < NICS && r == 0; i++)
                r = add_line(to, width, false, false, "  %s: %s GB/s out, %s in", job->nic[i].name,
                             rate_text(job->nic[i].sent_s / 1e9, sent),
                             rate_text(job->nic[i].received_s / 1e9, received));
        n = top_rows(t, job, order);
        measure_columns(&job->rates, order, n, &layout);
        fit_columns(width, &layout);
        r = r ?: add_row(to, width, &layout, NULL);
        for (uint32_t i = 0; i < n && r == 0; i++)
                if (!is_empty(&job->rates.rate[order[i]]))
                        r = add_row(to, width, &layout, &job->rates.rate[order[i]]);
        return r
                       ?: add_line(to, width, false, false, "%s",
                                   n                   ? ""
                                   : job->rates.n == 0 ? "(no calls yet)"
                                                       : "(no calls that the filter lets through)");
}

int top_page(const struct top *t, unsigned width, struct top_lines *out)
{
        int r = 0;

        if (!t->n_jobs)
                return add_line(out, width, false, false,
                                "no process of yours here runs under capo");
        for (uint32_t i = 0; i < t->n_jobs && r == 0; i++)
                r = add_job(t, out, width, &t->job[i]);
        return r;
}
