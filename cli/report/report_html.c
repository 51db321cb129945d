/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report with pictures: one HTML file with inline SVG that needs nothing else, in light or dark
 * as the reader's system asks. What the job was, what went wrong and who waits come first; then two
 * pictures, per communicator what each rank made the others wait and time by call and size; then
 * everything else. It says what the text page says, in its words: that page is made with marks
 * where its headings, warnings and tables begin and end, and put in another order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report_formats.h"
#include "cli/report/report_text.h"
#include "core/base/calls.h"
#include "cli/base/svg_draw.h"
#include "cli/base/cli_table.h"
#include "core/base/markup.h"
#include "core/base/text.h"
#include "core/base/util.h"

enum { MOST_BARS = 40, MOST_COMMS = 12 };

/* In the text page; capo_table_html() has 1 and 2 around tables. */
#define TABLE   '\001'
#define HEADING "\003"
#define PLAIN   "\004"
#define WARNING "\005"

/* The texts of bars live as long as the picture is drawn. */
struct bars {
        struct capo_svg_bar bar[MOST_BARS];
        char label[MOST_BARS][512], figure[MOST_BARS][256];
};

static char *time_tick(double ns, char *text)
{
        return ns > 0 ? capo_text_time(ns, text) : strcpy(text, "0");
}

static void time_by_size(const struct capo_page *r, FILE *out)
{
        uint32_t n = r->rows.n < MOST_BARS ? r->rows.n : MOST_BARS;
        _cleanup_free_ struct bars *b = calloc(1, sizeof *b);

        if (!b)
                return;
        fprintf(out,
                "<h2>Time by call and size</h2><p>Total over all ranks by the row's clock; dark: GPU time, light: host "
                "time (only how long calls took to return).</p>\n");
        for (uint32_t i = 0; i < n; i++) {
                const struct capo_page_row *row = &r->rows.row[i];
                struct capo_sampled s = capo_job_row_sampled(&row->row);
                char *figure = b->figure[i], call[64], size[64], p50[32], all[32], c[32];
                bool gpu = row->clock == CAPO_CLOCK_EVENT || row->clock == CAPO_CLOCK_KERNEL;

                snprintf(b->label[i], sizeof b->label[i], "%.24s %s %s",
                         capo_page_comm(r, row->row.comm),
                         capo_page_call(&row->row, call, sizeof call),
                         capo_page_size(row, size, sizeof size));
                if (row->clock == CAPO_CLOCK_NONE)
                        snprintf(figure, sizeof b->figure[i], "not timed by itself");
                else if (row->has_bandwidth)
                        snprintf(figure, sizeof b->figure[i], "%s, p50 %s us, busbw %s GB/s",
                                 capo_text_time(row->total_ns, all),
                                 capo_text_us(capo_sampled_quantile(&s, 0.5), p50),
                                 capo_text_gbs(row->busbw, c));
                else
                        snprintf(figure, sizeof b->figure[i], "%s, p50 %s us (%s)",
                                 capo_text_time(row->total_ns, all),
                                 capo_text_us(capo_sampled_quantile(&s, 0.5), p50),
                                 capo_clock_name(row->clock));
                b->bar[i] =
                        (struct capo_svg_bar){b->label[i], figure, gpu ? "g" : "h", row->total_ns};
        }
        if (n)
                capo_svg_bars(out, "time by call and size", b->bar, n, 0, time_tick);
        if (n < r->rows.n)
                fprintf(out, "<p>%u more rows: the table below, with --all.</p>\n", r->rows.n - n);
}

/* The measure of the text page: the waiting that each rank caused. Marked is the rank that it
 * names. */
static void draw_lateness(const struct capo_page *r, FILE *out)
{
        _cleanup_free_ struct bars *b = calloc(1, sizeof *b);

        for (uint32_t i = 0; b && i < r->n_waits && i < MOST_COMMS; i++) {
                const struct capo_page_wait *w = &r->waits[i];
                const struct capo_job_comm *c = &r->job->comms[w->comm];
                uint32_t n = c->n_members < MOST_BARS ? c->n_members : MOST_BARS, skip;

                /* of many ranks those around the one that is named */
                skip = w->last < n / 2                      ? 0
                       : w->last - n / 2 > c->n_members - n ? c->n_members - n
                                                            : w->last - n / 2;
                fputs("<h3>", out);
                capo_markup_text(out, c->name);
                fputs("</h3>\n<p", out);
                fprintf(out,
                        " class=\"note\">How long the others waited for each rank, summed over them; %s; %s.</p>\n",
                        c->skew->from == CAPO_SKEW_HOST_START ? "when the host made the call"
                        : c->skew->n_kernel ? "by how long NCCL's kernels waited, where they told"
                        : c->skew->n_host   ? "by GPU durations, else when the host made the call"
                                            : "by GPU durations: a call ends on all ranks together",
                        c->skew->aligned ? "one clock" : "clocks of hosts not aligned");
                for (uint32_t k = 0; k < n; k++) {
                        const struct capo_skew_rank *rank = &c->skew->ranks[skip + k];
                        const struct capo_job_member *m = &c->members[skip + k];
                        char a[32], d[32];

                        snprintf(b->label[k], sizeof b->label[k], "rank %d %.24s", m->rank,
                                 r->job->processes[m->process].host);
                        snprintf(b->figure[k], sizeof b->figure[k],
                                 "%s, last in %.1f %%, p50 %s after the first",
                                 time_tick(rank->caused_ns, d),
                                 100.0 * rank->last / c->skew->n_calls,
                                 capo_text_time(rank->late_p50_ns, a));
                        b->bar[k] = (struct capo_svg_bar){
                                b->label[k], b->figure[k],
                                w->stands_out && skip + k == w->last ? "w" : "g", rank->caused_ns};
                }
                capo_svg_bars(out, "waiting for each rank", b->bar, n, 0, time_tick);
                if (n < c->n_members)
                        fprintf(out, "<p>%u of %u ranks.</p>\n", n, c->n_members);
        }
}

/* ---- the text page as HTML ---- */

/* "NCCL 2.28.9   tuner: none": three blanks stand between facts. */
static void write_facts(FILE *out, const char *line, size_t n)
{
        _cleanup_free_ char *all = strndup(line, n);

        fputs("<p class=\"facts\">", out);
        for (char *fact = all, *next; fact && *fact; fact = next) {
                next = strstr(fact, "   ");
                if (next) {
                        *next++ = 0;
                        next += strspn(next, " ");
                }
                fputs("<span>", out);
                capo_markup_text(out, fact);
                fputs("</span>", out);
        }
        fputs("</p>\n", out);
}

/* One line without its marks. */
static void write_sentence(FILE *out, const char *class, const char *line, size_t n)
{
        _cleanup_free_ char *text = strndup(line, n);
        char *to = text;

        for (const char *from = text; from && *from; from++) {
                if ((unsigned char)*from >= ' ')
                        *to++ = *from;
        }
        if (!text || to == text)
                return;
        *to = 0;
        fprintf(out, "<p%s%s%s>", class ? " class=\"" : "", class ? class : "", class ? "\"" : "");
        capo_markup_text(out, text);
        fputs("</p>\n", out);
}

/* Where the next heading begins, or the end. */
static const char *section_end(const char *text)
{
        const char *next = strstr(text, "\n" HEADING);

        return next ? next + 1 : text + strlen(text);
}

/* "WHERE THE TIME WENT     per call": the title as people write it, the rest below. */
static void write_heading(FILE *out, const char *line, size_t n)
{
        const char *end = strstr(line, PLAIN);
        size_t title = end && end < line + n ? (size_t)(end - line - 1) : n - 1;
        _cleanup_free_ char *text = strndup(line + 1, title);

        for (char *at = text; at && at[0] && at[1]; at++)
                at[1] = (char)(at[1] >= 'A' && at[1] <= 'Z' ? at[1] - 'A' + 'a' : at[1]);
        fputs("<h2>", out);
        capo_markup_text(out, text ? text : "");
        fputs("</h2>\n", out);
        if (title + 2 < n)
                write_sentence(out, "note", line + title + 2 + strspn(line + title + 2, " "),
                               n - title - 2 - strspn(line + title + 2, " "));
}

/* Of what stands above the first heading the warnings, or the facts; ALL: a section with its lines
 * and tables. */
enum part { WARNINGS, FACTS, ALL };

static void write_section(FILE *out, const char *text, const char *end, enum part head)
{
        size_t n;

        for (; text < end; text += n + (text[n] == '\n')) {
                n = strcspn(text, "\n");
                if (*text == TABLE) {
                        n = strcspn(text, "\002");
                        fwrite(text + 1, 1, n - 1, out);
                        fputc('\n', out);
                        n += text[n] != 0;
                } else if (*text == *HEADING) {
                        write_heading(out, text, n);
                } else if (*text == *WARNING && head != FACTS) {
                        write_sentence(out, "problem", text + 2 + (text[2] == ' '),
                                       n - 2 - (text[2] == ' '));
                } else if (head == FACTS && n && *text != *WARNING) {
                        write_facts(out, text, n);
                } else if (head == ALL) {
                        write_sentence(out, *text == ' ' ? "more" : NULL, text, n);
                }
        }
}

/* What the job was, as its title and in figures; the text page has it in one line. */
static void job_heading(const struct capo_page *r, FILE *out)
{
        const struct capo_job *job = r->job;
        const char *nccl = capo_page_info(r, CAPO_INFO_NCCL_VERSION);
        char when[32], text[32], title[1200];

        capo_text_when(job->t_begin_ns, "%Y-%m-%d %H:%M:%S", when);
        fputs("<header><p class=\"what\">capo report</p>\n<h1>", out);
        capo_markup_text(out,
                         *capo_page_title(r, title, sizeof title) ? title : "a job without a name");
        fprintf(out,
                "</h1>\n<dl><div><dt>ranks</dt><dd>%d</dd></div><div><dt>nodes</dt><dd>%u%s%s</dd></div>"
                "<div><dt>NCCL</dt><dd>",
                job->n_ranks, job->n_nodes,
                job->n_nodes > 1 && job->n_comms && *job->comms[0].layout ? ": " : "",
                job->n_nodes > 1 && job->n_comms ? job->comms[0].layout : "");
        capo_markup_text(out, nccl ? nccl : "not seen");
        fprintf(out,
                "</dd></div><div><dt>took</dt><dd>%s</dd></div><div><dt>began</dt><dd>%s</dd></div></dl></header>\n",
                capo_text_time((double)capo_job_duration_ns(job), text), when);
}

static void write_style(FILE *out)
{
        fputs("body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:0 auto;padding:1.5em;"
              "background:var(--ground);color:var(--ink)}\n"
              ":root{--ground:#fff;--grid:#ddd;--w:#c05621;--ink:#1a202c;--soft:#5a6577;--card:#f4f6f9;--alarm:#fdf0e3}\n"
              "@media(prefers-color-scheme:dark){:root{--ground:#1a202c;--grid:#4a5568;--w:#ed8936;--ink:#e2e8f0;--soft:#a3aec0;--card:#242c3b;--alarm:#3d2a17}}\n"
              "h1{font-size:1.7em;line-height:1.25;margin:0 0 .6em;overflow-wrap:anywhere}"
              "h2{font-size:1.2em;margin:2em 0 .3em}h3{font-size:1em;margin:1.2em 0 .2em}p{margin:.35em 0}\n"
              ".what,.note,.more,dt{color:var(--soft)}.what{margin:0}.note{font-size:.9em}.more{padding-left:1.5em}\n"
              "dl{display:flex;flex-wrap:wrap;gap:.6em;margin:0 0 1em}"
              "dl div{background:var(--card);border-radius:8px;padding:.5em 1em}dt{font-size:.8em}"
              "dd{margin:0;font-weight:600}\n"
              ".facts span{display:inline-block;margin-right:1.6em;color:var(--soft);font-size:.9em}\n"
              ".problem{background:var(--alarm);border-left:4px solid var(--w);border-radius:4px;padding:.5em .9em}\n"
              ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.87em;"
              "font-variant-numeric:tabular-nums;margin:.4em 0}\n"
              "th,td{text-align:left;padding:.22em .7em;white-space:nowrap}td:last-child{white-space:normal}"
              "th{color:var(--soft);font-weight:600}.r{text-align:right}tr:has(td){border-top:1px solid var(--grid)}\n"
              "svg{width:100%;height:auto}\n",
              out);
}

/* @text: the text page. Who waits stands before the pictures, all else behind them. */
static void write_body(const struct capo_page *r, const char *text, FILE *out)
{
        const char *head = text + strcspn(text, "\n"), *end = section_end(head), *next;
        static const char first[] = HEADING "WHO WAITS";

        job_heading(r, out);
        write_section(out, head + (*head != 0), end, WARNINGS);
        write_section(out, head + (*head != 0), end, FACTS);
        for (unsigned pass = 0; pass < 2; pass++) {
                for (const char *at = end; *at; at = next) {
                        next = section_end(at + 1);
                        if (!strncmp(at, first, sizeof first - 1) == !pass)
                                write_section(out, at, next, ALL);
                }
                if (!pass) {
                        draw_lateness(r, out);
                        time_by_size(r, out);
                }
        }
}

int report_html(const struct capo_page *r, FILE *out)
{
        static const struct report_style marks = {HEADING, WARNING, PLAIN};
        _cleanup_free_ char *page = NULL;
        char title[1200];
        size_t size;
        FILE *memory = open_memstream(&page, &size);

        if (!memory)
                return -ENOMEM;
        capo_table_html(memory);
        report_text_styled(r, memory, &marks);
        capo_table_html(NULL);
        if (fclose(memory) != 0)
                return -ENOMEM;
        fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
              "<meta name=\"viewport\" content=\"width=device-width\"/><title>capo report ",
              out);
        capo_markup_text(out, capo_page_title(r, title, sizeof title));
        fputs("</title>\n<style>\n", out);
        capo_svg_style(out);
        write_style(out);
        fputs("</style></head><body>\n", out);
        write_body(r, page, out);
        fputs("</body></html>\n", out);
        return 0;
}
