/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report with pictures: one self-contained HTML file, light or dark as the reader's system
 * prefers. It prints the sections of the text page, next steps first, and the pictures of
 * report_charts.c.
 */
#include <string.h>

#include "cli/base/svg_draw.h"
#include "cli/report/report_charts.h"
#include "cli/report/report_page.h"
#include "cli/report/report_timeline.h"
#include "core/base/markup.h"
#include "core/base/util.h"

static void write_style(FILE *out)
{
        fputs("body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:0 auto;padding:1.5em;"
              "background:var(--ground);color:var(--ink)}\n"
              ":root{--ground:#fff;--grid:#ddd;--w:#c05621;--busy:#2b6cb0;--wait:#dd6b20;--idle:#edf0f4;--ink:#1a202c;--soft:#5a6577;--card:#f4f6f9;--alarm:#fdf0e3}\n"
              "@media(prefers-color-scheme:dark){:root{--ground:#1a202c;--grid:#4a5568;--w:#ed8936;--busy:#63b3ed;--wait:#ed8936;--idle:#2a3344;--ink:#e2e8f0;--soft:#a3aec0;--card:#242c3b;--alarm:#3d2a17}}\n"
              "h1{font-size:1.7em;line-height:1.25;margin:0 0 .6em;overflow-wrap:anywhere}"
              "h2{font-size:1.2em;margin:2em 0 .3em}h3{font-size:1em;margin:1.2em 0 .2em}p{margin:.35em 0}\n"
              ".what,.note,.more,dt{color:var(--soft)}.what{margin:0}.note{font-size:.9em}.more{padding-left:1.5em}\n"
              "dl{display:flex;flex-wrap:wrap;gap:.6em;margin:1em 0}"
              "dl div{background:var(--card);border-radius:8px;padding:.5em 1em}dt{font-size:.8em}"
              "dd{margin:0;font-weight:600}\n"
              ".problem{background:var(--alarm);border-left:4px solid var(--w);border-radius:4px;padding:.5em .9em}\n"
              ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.87em;"
              "font-variant-numeric:tabular-nums;margin:.4em 0}\n"
              "th,td{text-align:left;padding:.22em .5em;white-space:nowrap}td:last-child:not(.r){white-space:normal}"
              "th{color:var(--soft);font-weight:600;cursor:pointer}.r{text-align:right}tr:has(td){border-top:1px solid var(--grid)}\n"
              "svg{width:100%;height:auto}section{break-inside:avoid-page}\n"
              ".bars td{border:0}.bars td:nth-child(2){width:40%;min-width:6em}.bars td{white-space:normal}"
              ".bar{display:block;height:1em;border-radius:2px;print-color-adjust:exact}"
              "#tl canvas{display:block;cursor:crosshair;touch-action:pan-y;max-width:100%}#tl i{display:none}"
              "#tl output{display:block;font-size:.87em;font-variant-numeric:tabular-nums;white-space:pre-wrap;min-height:1.5em}"
              ".key{list-style:none;padding:0;margin:.2em 0;font-size:.9em}.key svg{width:24px;height:10px}.k{display:inline-block;width:1.1em;height:.8em;border-radius:2px;margin-left:.6em;print-color-adjust:exact}"
              ".k.busy{background:var(--busy)}.k.wait{background:var(--wait)}.k.idle{background:var(--idle);outline:1px solid var(--grid)}"
              ".under{white-space:pre-wrap}"
              "@media(max-width:600px){body{padding:.8em}.chart svg{min-width:560px}.bars tr{display:block;padding:.2em 0}.bars td{display:block;width:auto!important;padding:0}}"
              "@media print{body{max-width:none;padding:0}.scroll{overflow:visible}td{white-space:normal}td.r{white-space:nowrap}}\n"
              ".bar.g{background:#2b6cb0}.bar.h{background:#a0aec0}.bar.w{background:var(--w)}\n",
              out);
}

/* Sorts a table by the clicked column head; numbers by value in their unit. */
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
                if (!strcmp(page->section[i]->title, title)) {
                        page->section[i]->picture = draw;
                        page->section[i]->about = view;
                }
        }
}

int report_html(const struct report_view *view, FILE *out)
{
        _cleanup_(cli_page_freep) struct cli_page *page = report_page(view);
        char title[1200];

        add_picture(page, "TIME BY CALL", view, report_time_chart);
        add_picture(page, "WAITING", view, report_waiting_chart);
        page->picture = report_timeline_chart;
        page->about = view;
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
        fprintf(out, "<script>\n%s", script);
        report_timeline_script(out);
        fputs("</script></body></html>\n", out);
        return 0;
}
