/* SPDX-License-Identifier: Apache-2.0 */
/* The pictures of the HTML page. Bars are table rows: their labels are never cut, and phones and
 * printers can fold them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job/figures.h"
#include "cli/base/svg_draw.h"
#include "cli/report/report_charts.h"
#include "cli/report/report_page.h"
#include "core/base/calls.h"
#include "core/base/markup.h"
#include "core/base/text.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"

enum { MOST_BARS = 40, MOST_COMMS = 12, MOST_SERIES = 8, MOST_POINTS = 256 };

/* One bar: @value of @most, in the colour of @class ("g", "h", "w"). */
static void write_bar(FILE *out, const char *label, double value, double most, const char *class,
                      const char *figure)
{
        fputs("<tr><td>", out);
        capo_markup_text(out, label);
        fprintf(out, "</td><td><span class=\"bar %s\" style=\"width:%.1f%%\"></span></td><td>",
                class, most > 0 && value > 0 ? fmin(100 * value / most, 100) : 0);
        capo_markup_text(out, figure);
        fputs("</td></tr>\n", out);
}

/* A unique label for row @i. */
static void label_row(const struct report_view *view, uint32_t i, unsigned more, char *label,
                      size_t room)
{
        const struct capo_page_row *row = &view->page->rows.row[i];
        char call[64], size[64];

        snprintf(label, room, "%s %s %s", capo_page_comm(view->page, row->row.comm),
                 capo_page_call(&row->row, call, sizeof call),
                 report_size(view, row, size, sizeof size));
        if (row->row.algo_proto)
                capo_append(label, room, " %s %s", capo_ran_algo(row->row.algo_proto),
                            capo_ran_proto(row->row.algo_proto));
        if (more > 0)
                capo_append(label, room, ", %u channels", row->row.channels);
        if (more > 1)
                capo_append(label, room, ", row %u", i + 1);
}

static void name_row(const struct report_view *view, uint32_t i, char *label, size_t room)
{
        char other[1024];
        bool again = true;

        for (unsigned more = 0; again; more++) {
                label_row(view, i, more, label, room);
                again = false;
                for (uint32_t k = 0; k < view->page->rows.n && more < 2 && !again; k++) {
                        label_row(view, k, more, other, sizeof other);
                        again = k != i && !strcmp(label, other);
                }
        }
}

static void write_row_bar(const struct report_view *view, uint32_t i, double most, FILE *out)
{
        const struct capo_page_row *row = &view->page->rows.row[i];
        struct capo_sampled s = capo_job_row_sampled(&row->row);
        bool gpu = row->clock == CAPO_CLOCK_EVENT || row->clock == CAPO_CLOCK_KERNEL;
        char label[1024], figure[256], p50[32], all[32], c[32];

        name_row(view, i, label, sizeof label);
        capo_text_duration(row->total_ns, all);
        capo_text_duration(capo_sampled_quantile(&s, 0.5), p50);
        if (row->clock == CAPO_CLOCK_NONE)
                snprintf(figure, sizeof figure, "not timed by itself");
        else if (row->has_bandwidth)
                snprintf(figure, sizeof figure, "%s, p50 %s, busbw %s GB/s", all, p50,
                         capo_text_gbs(row->busbw, c));
        else
                snprintf(figure, sizeof figure, "%s, p50 %s (%s)", all, p50,
                         capo_clock_name(row->clock));
        write_bar(out, label, row->total_ns, most, gpu ? "g" : "h", figure);
}

/* The rows of one call of one communicator, by size. */
struct series {
        uint32_t comm;
        uint8_t call;
        size_t n;
        double bytes[MOST_POINTS], gbs[MOST_POINTS], predicted[MOST_POINTS], ceiling;
        bool any_predicted;
};

static int by_bytes(const void *a, const void *b)
{
        const struct capo_page_row *x = *(const struct capo_page_row *const *)a,
                                   *y = *(const struct capo_page_row *const *)b;

        return (x->row.bytes > y->row.bytes) - (x->row.bytes < y->row.bytes);
}

/* From NCCL's model; NAN: not known. */
static double find_predicted(const struct capo_page *r, const struct capo_job_row *row)
{
        for (size_t i = 0; i < r->n_predicted; i++) {
                const struct capo_page_predicted *p = &r->predicted[i];

                if (p->comm == row->comm && p->call == row->call && p->bytes == row->bytes)
                        return p->busbw_gbs;
        }
        return NAN;
}

/* Group the rows with a bandwidth into series of at least two sizes. Return: how many. */
static size_t gather_series(const struct capo_page *r, struct series *series)
{
        _cleanup_free_ const struct capo_page_row **rows = xcalloc(r->rows.n + 1, sizeof *rows);
        size_t n_rows = 0, n = 0, kept = 0;

        for (uint32_t i = 0; i < r->rows.n; i++) {
                if (r->rows.row[i].has_bandwidth && r->rows.row[i].busbw > 0 &&
                    r->rows.row[i].row.bytes)
                        rows[n_rows++] = &r->rows.row[i];
        }
        if (n_rows)
                qsort(rows, n_rows, sizeof *rows, by_bytes);
        for (size_t i = 0; i < n_rows; i++) {
                struct series *s = series;

                while (s < series + n &&
                       (s->comm != rows[i]->row.comm || s->call != rows[i]->row.call))
                        s++;
                if (s == series + n && n == MOST_SERIES)
                        continue;
                if (s == series + n)
                        *s = (struct series){.comm = rows[i]->row.comm, .call = rows[i]->row.call},
                        n++;
                if (s->n == MOST_POINTS)
                        continue;
                s->bytes[s->n] = (double)rows[i]->row.bytes;
                s->predicted[s->n] = find_predicted(r, &rows[i]->row);
                s->any_predicted |= !isnan(s->predicted[s->n]);
                s->gbs[s->n++] = rows[i]->busbw;
                s->ceiling = rows[i]->ceiling;
        }
        for (size_t i = 0; i < n; i++) {
                if (series[i].n > 1)
                        series[kept++] = series[i];
        }
        return kept;
}

static void draw_bandwidth(const struct report_view *view, FILE *out)
{
        enum { WIDTH = 860, HEIGHT = 340, LEFT = 64, RIGHT = 16 };
        struct capo_svg_frame f = {.left = LEFT,
                                   .top = 16,
                                   .width = WIDTH - LEFT - RIGHT,
                                   .height = HEIGHT - 64,
                                   .x = {CAPO_SVG_BYTES, INFINITY, -INFINITY, "size"},
                                   .y = {CAPO_SVG_LOG, INFINITY, -INFINITY, "busbw GB/s"}};
        _cleanup_free_ struct series *series = xcalloc(MOST_SERIES, sizeof *series);
        size_t n = gather_series(view->page, series);

        if (!n)
                return;
        for (size_t i = 0; i < n; i++) {
                for (size_t k = 0; k < series[i].n; k++) {
                        capo_svg_widen(&f.x, series[i].bytes[k]);
                        capo_svg_widen(&f.y, series[i].gbs[k]);
                        capo_svg_widen(&f.y, series[i].predicted[k]);
                }
                if (series[i].ceiling > 0)
                        capo_svg_widen(&f.y, series[i].ceiling);
        }
        capo_svg_round(&f.x);
        capo_svg_round(&f.y);
        fputs("<h3>Bandwidth by size</h3>\n<div class=\"scroll chart\">", out);
        capo_svg_begin(out, WIDTH, HEIGHT, "bandwidth by size", false);
        capo_svg_axes(out, &f);
        for (size_t i = 0; i < n; i++) {
                const struct series *s = &series[i];
                const char *class = capo_svg_series((unsigned)i + 1);
                double ends[2] = {s->bytes[0], s->bytes[s->n - 1]},
                       most[2] = {s->ceiling, s->ceiling};

                capo_svg_line(out, &f, s->bytes, s->gbs, s->n, class, NULL);
                if (s->any_predicted)
                        capo_svg_line(out, &f, s->bytes, s->predicted, s->n, class,
                                      "stroke-dasharray=\"1 4\"");
                if (s->ceiling > 0)
                        capo_svg_line(out, &f, ends, most, 2, class, "stroke-dasharray=\"5 3\"");
        }
        capo_svg_end(out);
        fputs("</div><ul class=\"key\">", out);
        for (size_t i = 0; i < n; i++) {
                fprintf(out,
                        "<li><svg width=\"24\" height=\"10\" aria-hidden=\"true\"><path class=\"%s "
                        "line\" d=\"M0 5H24\"/></svg> ",
                        capo_svg_series((unsigned)i + 1));
                capo_markup_text(out, capo_page_comm(view->page, series[i].comm));
                fprintf(out, " %s%s%s%s</li>", capo_call_name(series[i].call),
                        series[i].any_predicted ? ", dotted: predicted by " : "",
                        series[i].any_predicted ? view->page->predicted_by : "",
                        series[i].ceiling > 0 ? ", dashed: what the links allow" : "");
        }
        fputs("</ul>\n", out);
        if (!view->page->n_predicted && *view->page->predicted_by) {
                fputs("<p class=\"note\">NCCL's prediction: ", out);
                capo_markup_text(out, view->page->predicted_by);
                fputs("</p>\n", out);
        }
}

void report_time_chart(const void *about, FILE *out)
{
        const struct report_view *view = about;
        const struct capo_page_rows *rows = &view->page->rows;
        uint32_t n = rows->n < MOST_BARS ? rows->n : MOST_BARS;
        double most = 0;

        for (uint32_t i = 0; i < n; i++)
                most = fmax(most, rows->row[i].total_ns);
        if (n)
                fputs("<h3>Total time over all ranks</h3>\n<p class=\"note\">Dark: GPU time; light: host "
                      "time, only how long calls took to return.</p>\n<table class=\"bars\">\n",
                      out);
        for (uint32_t i = 0; i < n; i++)
                write_row_bar(view, i, most, out);
        fputs(n ? "</table>\n" : "", out);
        if (n < rows->n)
                fprintf(out, "<p>%u more rows: --all has a table of them.</p>\n", rows->n - n);
        draw_bandwidth(view, out);
}

/* Bars of the text page's measure. The named rank is highlighted. */
static void write_wait_bars(const struct capo_page *r, const struct capo_page_wait *w, FILE *out)
{
        const struct capo_job_comm *c = &r->job->comms[w->comm];
        uint32_t n = c->n_members < MOST_BARS ? c->n_members : MOST_BARS, skip;
        double most = 0;

        /* with many ranks, those around the named one */
        skip = w->last < n / 2                      ? 0
               : w->last - n / 2 > c->n_members - n ? c->n_members - n
                                                    : w->last - n / 2;
        for (uint32_t k = 0; k < n; k++)
                most = fmax(most, c->skew->ranks[skip + k].caused_ns);
        fputs("<table class=\"bars\">\n", out);
        for (uint32_t k = 0; k < n; k++) {
                const struct capo_skew_rank *rank = &c->skew->ranks[skip + k];
                const struct capo_job_member *m = &c->members[skip + k];
                char label[600], figure[256], who[300], a[32], b[32];

                snprintf(label, sizeof label, "%s %s", capo_job_member_text(c, m, who),
                         r->job->processes[m->process].host);
                snprintf(figure, sizeof figure, "%s, last in %.1f %%, p50 %s after the first",
                         capo_text_duration(rank->caused_ns, a),
                         100.0 * rank->last / c->skew->n_calls,
                         capo_text_duration(rank->late_p50_ns, b));
                write_bar(out, label, rank->caused_ns, most,
                          w->stands_out && skip + k == w->last ? "w" : "g", figure);
        }
        fputs("</table>\n", out);
        if (n < c->n_members)
                fprintf(out, "<p>%u of %u ranks.</p>\n", n, c->n_members);
}

void report_waiting_chart(const void *about, FILE *out)
{
        const struct capo_page *r = ((const struct report_view *)about)->page;

        for (uint32_t i = 0; i < r->n_waits && i < MOST_COMMS; i++) {
                fputs("<h3>Waiting that each rank of ", out);
                capo_markup_text(out, r->job->comms[r->waits[i].comm].name);
                fputs(" caused, summed over the others</h3>\n", out);
                write_wait_bars(r, &r->waits[i], out);
        }
}
