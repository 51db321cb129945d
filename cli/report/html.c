/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report with pictures: one HTML file with inline SVG that needs nothing else, in light or dark as the reader's
 * system asks. Two pictures: time by call and size (bar: total time; figure: p50 and bandwidth), and per communicator
 * what each rank made the others wait. The text page follows as it is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/faces.h"
#include "core/base/calls.h"
#include "cli/base/svg.h"
#include "cli/base/table.h"
#include "core/base/markup.h"
#include "core/base/util.h"

enum { MOST_BARS = 40, MOST_COMMS = 12 };

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
                const struct capo_hist *h = &row->row.time[row->clock];
                char *figure = b->figure[i], call[64], size[64], p50[32], all[32], c[32];
                bool gpu = row->clock == CAPO_CLOCK_EVENT || row->clock == CAPO_CLOCK_KERNEL;

                snprintf(b->label[i], sizeof b->label[i], "%.24s %s %s", capo_page_comm(r, row->row.comm),
                         capo_page_call(&row->row, call, sizeof call), capo_page_size(row, size, sizeof size));
                if (row->clock == CAPO_CLOCK_NONE)
                        snprintf(figure, sizeof b->figure[i], "not timed by itself");
                else if (row->has_bandwidth)
                        snprintf(figure, sizeof b->figure[i], "%s, p50 %s us, busbw %s GB/s",
                                 capo_text_time(row->total_ns, all), capo_text_us(capo_hist_quantile(h, 0.5), p50),
                                 capo_text_gbs(row->busbw, c));
                else
                        snprintf(figure, sizeof b->figure[i], "%s, p50 %s us (%s)", capo_text_time(row->total_ns, all),
                                 capo_text_us(capo_hist_quantile(h, 0.5), p50), capo_clock_name(row->clock));
                b->bar[i] = (struct capo_svg_bar){b->label[i], figure, gpu ? "g" : "h", row->total_ns};
        }
        if (n)
                capo_svg_bars(out, "time by call and size", b->bar, n, 0, time_tick);
        if (n < r->rows.n)
                fprintf(out, "<p>%u more rows are in the text below with --all.</p>\n", r->rows.n - n);
}

/* The measure of the text page: the waiting that each rank caused. Marked is the rank that it names. */
static void lateness(const struct capo_page *r, FILE *out)
{
        _cleanup_free_ struct bars *b = calloc(1, sizeof *b);

        for (uint32_t i = 0; b && i < r->n_waits && i < MOST_COMMS; i++) {
                const struct capo_page_wait *w = &r->waits[i];
                const struct capo_job_comm *c = &r->job->comms[w->comm];
                uint32_t n = c->n_members < MOST_BARS ? c->n_members : MOST_BARS, skip;

                /* of many ranks those around the one that is named */
                skip = w->last < n / 2 ? 0 : w->last - n / 2 > c->n_members - n ? c->n_members - n : w->last - n / 2;
                if (!i)
                        fputs("<h2>Who waits for whom</h2>\n", out);
                fputs("<h3>", out);
                capo_markup_text(out, c->name);
                fputs("</h3><p>", out);
                capo_markup_text(out, w->text);
                fprintf(out, "</p><p>How long the others waited for each rank, summed over them; %s; %s.</p>\n",
                        c->skew->from == CAPO_SKEW_HOST_START ? "when the host made the call"
                        : c->skew->n_host                     ? "by GPU durations, else when the host made the call"
                                                              : "by GPU durations: a call ends on all ranks together",
                        c->skew->aligned ? "one clock" : "clocks of hosts not aligned");
                for (uint32_t k = 0; k < n; k++) {
                        const struct capo_skew_rank *rank = &c->skew->ranks[skip + k];
                        const struct capo_job_member *m = &c->members[skip + k];
                        char a[32], d[32];

                        snprintf(b->label[k], sizeof b->label[k], "rank %d %.24s", m->rank,
                                 r->job->processes[m->process].host);
                        snprintf(b->figure[k], sizeof b->figure[k], "%s, last in %.1f %%, p50 %s after the first",
                                 time_tick(rank->caused_ns, d), 100.0 * rank->last / c->skew->n_calls,
                                 capo_text_time(rank->late_p50_ns, a));
                        b->bar[k] = (struct capo_svg_bar){b->label[k], b->figure[k],
                                                          w->stands_out && skip + k == w->last ? "w" : "g",
                                                          rank->caused_ns};
                }
                capo_svg_bars(out, "waiting for each rank", b->bar, n, 0, time_tick);
                if (n < c->n_members)
                        fprintf(out, "<p>%u of %u ranks.</p>\n", n, c->n_members);
        }
}

int report_html(const struct capo_page *r, FILE *out)
{
        _cleanup_free_ char *page = NULL;
        char title[1200];
        FILE *memory;
        size_t size;

        fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>capo report ", out);
        capo_markup_text(out, capo_page_title(r, title, sizeof title));
        fputs("</title>\n<style>\n"
              "body{font:14px/1.45 system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em}\n"
              "svg{width:100%;height:auto}pre{overflow-x:auto;font-size:12px}\n",
              out);
        capo_svg_style(out);
        fputs("</style></head><body>\n<h1>capo report ", out);
        capo_markup_text(out, title);
        fputs("</h1>\n", out);
        time_by_size(r, out);
        lateness(r, out);
        memory = open_memstream(&page, &size);
        if (memory) {
                report_text(r, memory);
                fclose(memory);
                fputs("<h2>The page</h2>\n<pre>", out);
                capo_markup_text(out, page);
                fputs("</pre>\n", out);
        }
        fputs("</body></html>\n", out);
        return 0;
}
