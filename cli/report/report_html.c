/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report with pictures: one HTML file with inline SVG that needs nothing else, in light or dark
 * as the reader's system asks. It prints the sections of the text page, what to do next first, and
 * draws two pictures: time by call and size, and the waiting that each rank caused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report_page.h"
#include "core/base/calls.h"
#include "analysis/job/figures.h"
#include "cli/base/svg_draw.h"
#include "core/base/markup.h"
#include "core/base/text.h"
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

static void time_by_size(const void *about, FILE *out)
{
        const struct report_view *view = about;
        const struct capo_page *r = view->page;
        uint32_t n = r->rows.n < MOST_BARS ? r->rows.n : MOST_BARS;
        _cleanup_free_ struct bars *b = calloc(1, sizeof *b);

        if (!b)
                return;
        fprintf(out,
                "<p class=\"note\">Total over all ranks by the row's clock; dark: GPU time, light: host "
                "time (only how long calls took to return).</p>\n");
        for (uint32_t i = 0; i < n; i++) {
                const struct capo_page_row *row = &r->rows.row[i];
                struct capo_sampled s = capo_job_row_sampled(&row->row);
                char *figure = b->figure[i], call[64], size[64], p50[32], all[32], c[32];
                bool gpu = row->clock == CAPO_CLOCK_EVENT || row->clock == CAPO_CLOCK_KERNEL;

                snprintf(b->label[i], sizeof b->label[i], "%.24s %s %s",
                         capo_page_comm(r, row->row.comm),
                         capo_page_call(&row->row, call, sizeof call),
                         report_size(view, row, size, sizeof size));
                if (row->clock == CAPO_CLOCK_NONE)
                        snprintf(figure, sizeof b->figure[i], "not timed by itself");
                else if (row->has_bandwidth)
                        snprintf(figure, sizeof b->figure[i], "%s, p50 %s, busbw %s GB/s",
                                 capo_text_time(row->total_ns, all),
                                 capo_text_duration(capo_sampled_quantile(&s, 0.5), p50),
                                 capo_text_gbs(row->busbw, c));
                else
                        snprintf(figure, sizeof b->figure[i], "%s, p50 %s (%s)",
                                 capo_text_time(row->total_ns, all),
                                 capo_text_duration(capo_sampled_quantile(&s, 0.5), p50),
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
static void draw_lateness(const void *about, FILE *out)
{
        const struct capo_page *r = ((const struct report_view *)about)->page;
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
                        char a[32], d[32], who[300];

                        snprintf(b->label[k], sizeof b->label[k], "%.24s %.24s",
                                 capo_job_member_text(c, m, who),
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
              ".problem{background:var(--alarm);border-left:4px solid var(--w);border-radius:4px;padding:.5em .9em}\n"
              ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.87em;"
              "font-variant-numeric:tabular-nums;margin:.4em 0}\n"
              "th,td{text-align:left;padding:.22em .7em;white-space:nowrap}td:last-child{white-space:normal}"
              "th{color:var(--soft);font-weight:600;cursor:pointer}.r{text-align:right}tr:has(td){border-top:1px solid var(--grid)}\n"
              "svg{width:100%;height:auto}\n",
              out);
}

/* Sorts a table by the column whose head is clicked; numbers by their value in their unit. */
static const char script[] =
        "const U={ns:1e-9,us:1e-6,ms:1e-3,s:1,B:1,KiB:1024,MiB:1048576,GiB:1073741824,TiB:1099511627776};\n"
        "const V=t=>{const m=t.replace(/,/g,'').match(/^(?:\\u003c= )?([\\d.]+)(?:-[\\d.]+)? ?(\\S+)?/);"
        "return m?m[1]*(U[m[2]]||1):NaN};\n"
        "document.querySelectorAll('thead th').forEach(h=>h.onclick=()=>{const b=h.closest('table').tBodies[0],"
        "i=h.cellIndex,d=h.dataset.d=h.dataset.d=='1'?-1:1;\n"
        "[...b.rows].sort((x,y)=>{const p=x.cells[i].textContent,q=y.cells[i].textContent,v=V(p),w=V(q);"
        "return d*(isNaN(v)||isNaN(w)?p.localeCompare(q):w-v)}).forEach(r=>b.append(r))});\n";

static void add_picture(struct cli_page *page, const char *title, const struct report_view *view,
                        void (*draw)(const void *, FILE *))
{
        for (unsigned i = 0; i < page->n_sections; i++) {
                if (!strcmp(page->section[i].title, title)) {
                        page->section[i].picture = draw;
                        page->section[i].about = view;
                }
        }
}

int report_html(const struct report_view *view, FILE *out)
{
        _cleanup_(cli_page_freep) struct cli_page *page = report_page(view);
        char title[1200];

        if (!page)
                return -ENOMEM;
        add_picture(page, "TIME BY CALL", view, time_by_size);
        add_picture(page, "WAITING", view, draw_lateness);
        fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
              "<meta name=\"viewport\" content=\"width=device-width\"/><title>capo report ",
              out);
        capo_markup_text(out, capo_page_title(view->page, title, sizeof title));
        fputs("</title>\n<style>\n", out);
        capo_svg_style(out);
        write_style(out);
        fputs("</style></head><body>\n<h1>", out);
        capo_markup_text(out, page->title ? page->title : "");
        fputs("</h1>\n", out);
        cli_page_html(page, out);
        fprintf(out, "<script>\n%s</script></body></html>\n", script);
        return 0;
}
