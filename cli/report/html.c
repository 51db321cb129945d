/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report with pictures: one HTML file with inline SVG that needs nothing else, in light or dark as the reader's
 * system asks. Two pictures: time by call and size (bar: total time; figure: p50 and bandwidth), and per communicator
 * how late each rank starts. The text page follows as it is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/output.h"
#include "cli/report/report.h"
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

static void time_by_size(const struct report *r, FILE *out)
{
        uint32_t n = r->n_rows < MOST_BARS ? r->n_rows : MOST_BARS;
        _cleanup_free_ struct bars *b = calloc(1, sizeof *b);

        if (!b)
                return;
        fprintf(out,
                "<h2>Time by call and size</h2><p>Total over all ranks by the row's clock; dark: GPU time, light: host "
                "time (only how long calls took to return).</p>\n");
        for (uint32_t i = 0; i < n; i++) {
                const struct report_row *row = &r->rows[i];
                const struct capo_hist *h = &row->row.time[row->clock];
                char *figure = b->figure[i], call[64], size[64], p50[32], all[32], c[32];
                bool gpu = row->clock == CAPO_CLOCK_EVENT || row->clock == CAPO_CLOCK_KERNEL;

                snprintf(b->label[i], sizeof b->label[i], "%.24s %s %s", report_comm_name(r, row->row.comm),
                         report_call(&row->row, call, sizeof call), report_size(row, size, sizeof size));
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
        if (n < r->n_rows)
                fprintf(out, "<p>%u more rows are in the text below with --all.</p>\n", r->n_rows - n);
}

static void lateness(const struct report *r, FILE *out)
{
        _cleanup_free_ struct bars *b = calloc(1, sizeof *b);
        uint32_t shown = 0;

        for (uint32_t i = 0; b && i < r->job->n_comms && shown < MOST_COMMS; i++) {
                const struct capo_job_comm *c = &r->job->comms[i];
                uint32_t n = c->n_members < MOST_BARS ? c->n_members : MOST_BARS;
                char a[32];

                if (!c->skew || !c->skew->n_calls)
                        continue;
                if (!shown++)
                        fputs("<h2>Who starts late</h2>\n", out);
                fputs("<h3>", out);
                capo_markup_text(out, c->name);
                fprintf(out, "</h3><p>Start behind the first rank, median over %u calls; %s; %s.</p>\n",
                        c->skew->n_calls,
                        c->skew->from == CAPO_SKEW_HOST_START  ? "when the host made the call"
                        : c->skew->from == CAPO_SKEW_GPU_START ? "on the GPU"
                                                               : "by GPU durations: a call ends on all ranks together",
                        c->skew->uncertain_ns < 0   ? "clocks of hosts not aligned"
                        : c->skew->uncertain_ns > 0 ? "clocks of hosts aligned from the calls"
                                                    : "one clock");
                for (uint32_t k = 0; k < n; k++) {
                        const struct capo_skew_rank *rank = &c->skew->ranks[k];

                        snprintf(b->label[k], sizeof b->label[k], "rank %d %.24s", c->members[k].rank,
                                 r->job->processes[c->members[k].process].host);
                        snprintf(b->figure[k], sizeof b->figure[k], "%s, last in %.0f %%",
                                 capo_text_time(rank->late_p50_ns, a), 100.0 * rank->last / c->skew->n_calls);
                        b->bar[k] = (struct capo_svg_bar){b->label[k], b->figure[k], k == c->skew->worst ? "w" : "g",
                                                          rank->late_p50_ns};
                }
                capo_svg_bars(out, "lateness by rank", b->bar, n, 0, time_tick);
                if (n < c->n_members)
                        fprintf(out, "<p>The first %u of %u ranks.</p>\n", n, c->n_members);
        }
}

int report_html(const struct report *r, const char *path)
{
        _cleanup_free_ char *page = NULL;
        struct cli_output file;
        FILE *out, *memory;
        size_t size;
        int e = cli_output_open(&file, path);

        if (e < 0)
                return e;
        out = file.file;
        fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>capo report</title>\n<style>\n"
              "body{font:14px/1.45 system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em}\n"
              "svg{width:100%;height:auto}pre{overflow-x:auto;font-size:12px}\n",
              out);
        capo_svg_style(out);
        fputs("</style></head><body>\n<h1>capo report</h1>\n", out);
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
        return cli_output_close(&file, 0);
}
