/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report with pictures: one HTML file with inline SVG that needs nothing else, in light or dark as the reader's
 * system asks. Two pictures: time by call and size (bar: total time; figure: p50 and bandwidth), and per communicator
 * how late each rank starts. The text page follows as it is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "core/base/calls.h"
#include "cli/base/table.h"
#include "core/base/markup.h"
#include "core/base/util.h"

enum { LEFT = 300, WIDE = 560, STEP = 24, MOST_BARS = 40, MOST_COMMS = 12 };

/* One labelled bar; @share of the full width. */
static void bar(FILE *out, unsigned nth, const char *label, double share, const char *class, const char *figure)
{
        unsigned y = nth * STEP + 4;

        fprintf(out, "<text class=\"l\" x=\"%d\" y=\"%u\">", LEFT - 8, y + 13);
        capo_markup_text(out, label);
        fprintf(out, "</text><rect class=\"%s\" x=\"%d\" y=\"%u\" width=\"%.1f\" height=\"16\" rx=\"2\"/>", class, LEFT,
                y, share > 0 ? share * WIDE : 0.0);
        fprintf(out, "<text x=\"%.1f\" y=\"%u\">", LEFT + 6 + (share > 0 ? share * WIDE : 0.0), y + 13);
        capo_markup_text(out, figure);
        fputs("</text>\n", out);
}

static void open_svg(FILE *out, unsigned bars, const char *title)
{
        fprintf(out,
                "<svg viewBox=\"0 0 %d %u\" role=\"img\" aria-label=\"%s\" xmlns=\"http://www.w3.org/2000/svg\">\n",
                LEFT + WIDE + 260, bars * STEP + 8, title);
}

static void time_by_size(const struct report *r, FILE *out)
{
        uint32_t n = r->n_rows < MOST_BARS ? r->n_rows : MOST_BARS;
        double most = 0;

        for (uint32_t i = 0; i < n; i++)
                most = r->rows[i].total_ns > most ? r->rows[i].total_ns : most;
        fprintf(out,
                "<h2>Time by call and size</h2><p>Total over all ranks by the row's clock; dark: GPU time, light: host "
                "time (only how long calls took to return).</p>\n");
        open_svg(out, n, "time by call and size");
        for (uint32_t i = 0; i < n; i++) {
                const struct report_row *row = &r->rows[i];
                const struct capo_hist *h = &row->row.time[row->clock];
                char label[512], figure[256], call[64], size[64], a[32], b[32], c[32];
                bool gpu = row->clock == CAPO_CLOCK_EVENT || row->clock == CAPO_CLOCK_KERNEL;

                snprintf(label, sizeof label, "%.24s %s %s", report_comm_name(r, row->row.comm),
                         report_call(&row->row, call, sizeof call), report_size(row, size, sizeof size));
                if (row->clock == CAPO_CLOCK_NONE)
                        snprintf(figure, sizeof figure, "not timed by itself");
                else if (row->has_bandwidth)
                        snprintf(figure, sizeof figure, "%s, p50 %s us, busbw %s GB/s",
                                 capo_text_time(row->total_ns, a), capo_text_us(capo_hist_quantile(h, 0.5), b),
                                 capo_text_gbs(row->busbw, c));
                else
                        snprintf(figure, sizeof figure, "%s, p50 %s us (%s)", capo_text_time(row->total_ns, a),
                                 capo_text_us(capo_hist_quantile(h, 0.5), b), capo_clock_name(row->clock));
                bar(out, i, label, most > 0 ? row->total_ns / most : 0, gpu ? "g" : "h", figure);
        }
        fputs("</svg>\n", out);
        if (n < r->n_rows)
                fprintf(out, "<p>%u more rows are in the text below with --all.</p>\n", r->n_rows - n);
}

static void lateness(const struct report *r, FILE *out)
{
        uint32_t shown = 0;

        for (uint32_t i = 0; i < r->job->n_comms && shown < MOST_COMMS; i++) {
                const struct capo_job_comm *c = &r->job->comms[i];
                uint32_t n = c->n_members < MOST_BARS ? c->n_members : MOST_BARS;
                double most = 0;
                char label[512], figure[128], a[32];

                if (!c->skew || !c->skew->n_calls)
                        continue;
                if (!shown++)
                        fputs("<h2>Who starts late</h2>\n", out);
                for (uint32_t k = 0; k < c->n_members; k++)
                        most = c->skew->ranks[k].late_p50_ns > most ? c->skew->ranks[k].late_p50_ns : most;
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
                open_svg(out, n, "lateness by rank");
                for (uint32_t k = 0; k < n; k++) {
                        const struct capo_skew_rank *rank = &c->skew->ranks[k];

                        snprintf(label, sizeof label, "rank %d %.24s", c->members[k].rank,
                                 r->job->processes[c->members[k].process].host);
                        snprintf(figure, sizeof figure, "%s, last in %.0f %%", capo_text_time(rank->late_p50_ns, a),
                                 100.0 * rank->last / c->skew->n_calls);
                        bar(out, k, label, most > 0 ? rank->late_p50_ns / most : 0, k == c->skew->worst ? "w" : "g",
                            figure);
                }
                fputs("</svg>\n", out);
                if (n < c->n_members)
                        fprintf(out, "<p>The first %u of %u ranks.</p>\n", n, c->n_members);
        }
}

int report_html(const struct report *r, const char *path)
{
        _cleanup_free_ char *page = NULL;
        FILE *out = fopen(path, "we"), *memory;
        size_t size;
        int e = 0;

        if (!out)
                return -errno;
        fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>capo report</title>\n<style>\n"
              ":root{color-scheme:light dark;--g:#2b6cb0;--h:#a0aec0;--w:#c05621}\n"
              "body{font:14px/1.45 system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em}\n"
              "svg{width:100%;height:auto}svg text{font-size:12px;fill:currentColor}.l{text-anchor:end}\n"
              ".g{fill:var(--g)}.h{fill:var(--h)}.w{fill:var(--w)}pre{overflow-x:auto;font-size:12px}\n"
              "@media(prefers-color-scheme:dark){:root{--g:#63b3ed;--h:#718096;--w:#ed8936}}\n"
              "</style></head><body>\n<h1>capo report</h1>\n",
              out);
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
        if (ferror(out))
                e = -EIO;
        if (fclose(out) != 0)
                e = -errno;
        return e;
}
