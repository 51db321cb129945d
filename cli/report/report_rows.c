/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that consist of columns: TIME BY CALL of the pages, CSV, "rows" of JSON. */
#include <string.h>

#include "cli/report/report_columns.h"
#include "cli/base/cli_json.h"
#include "cli/report/report_page.h"
#include "core/base/markup.h"

enum { ROWS_SHOWN = 8 };

static struct report_cell make_cell(const struct report_view *view, const struct capo_page_row *row)
{
        return (struct report_cell){view, row, capo_job_row_sampled(&row->row)};
}

json_t *report_row_json(const struct report_view *view, const struct capo_page_row *row)
{
        struct report_cell cell = make_cell(view, row);
        json_t *j = json_object();

        for (const struct report_column *c = report_columns; c->head || c->key || c->csv; c++) {
                json_t *value = c->key ? c->value(&cell) : NULL;

                if (json_is_string(value) && !strcmp(json_string_value(value), "-"))
                        json_object_set_new(j, c->key, json_null());
                else if (value)
                        json_object_set(j, c->key, value);
                json_decref(value);
        }
        return j;
}

int report_csv(const struct report_view *view, FILE *out)
{
        const struct capo_page_rows *rows = &view->page->rows;
        const char *before = "";

        for (const struct report_column *c = report_columns; c->head || c->key || c->csv; c++) {
                if (c->csv) {
                        fprintf(out, "%s%s", before, c->csv);
                        before = ",";
                }
        }
        fputc('\n', out);
        for (uint32_t i = 0; i < rows->n; i++) {
                struct report_cell cell = make_cell(view, &rows->row[i]);

                before = "";
                for (const struct report_column *c = report_columns; c->head || c->key || c->csv;
                     c++) {
                        json_t *value = c->csv ? c->value(&cell) : NULL;

                        if (!c->csv)
                                continue;
                        fputs(before, out);
                        cli_json_csv_value(out, value);
                        json_decref(value);
                        before = ",";
                }
                fputc('\n', out);
        }
        return 0;
}

/* Is the column worth its room? A single communicator is named beside the title, and kernels seldom
 * report waiting. */
static bool is_column_shown(const struct report_column *c, const struct capo_page *r)
{
        bool several = false, waited = false;

        for (uint32_t i = 0; i < r->rows.n; i++) {
                several |= r->rows.row[i].row.comm != r->rows.row[0].row.comm;
                waited |= r->rows.row[i].row.time[CAPO_TIMES_WAITED].count > 0;
        }
        return c->head && (strcmp(c->head, "comm") || several) &&
               (strcmp(c->head, "waited") || waited);
}

/* Did all logs end properly? */
static bool is_whole(const struct capo_job *job)
{
        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];

                if (!p->has_end || p->health.cut_bytes || p->health.n_damages || p->read_error)
                        return false;
        }
        return true;
}

struct cli_section *report_rows(const struct report_view *view, struct cli_page *page)
{
        static struct cli_column columns[CLI_COLUMNS_MAX];
        const struct report_column *from[CLI_COLUMNS_MAX];
        const struct capo_page *r = view->page;
        uint32_t shown = r->all || r->rows.n <= ROWS_SHOWN + 2 ? r->rows.n : ROWS_SHOWN;
        struct cli_section *s;
        bool host = false;
        unsigned n = 0;
        char text[256];

        for (const struct report_column *c = report_columns; c->head || c->key || c->csv; c++) {
                if (is_column_shown(c, r) && n < CLI_COLUMNS_MAX) {
                        columns[n] =
                                (struct cli_column){c->head, c->spec, !strcmp(c->head, "comm")};
                        from[n++] = c;
                }
        }
        s = cli_page_section(page, "TIME BY CALL", columns, n);
        s->how =
                "Per call, over all ranks. calls: per rank. time: share of the GPU time of all "
                "ranks (of host time where there is no GPU time). Times by clock event (CUDA "
                "events) and kernel (NCCL's kernels) are GPU times and include waiting for late "
                "ranks; host: how long the call took to return, which is not the transfer. algbw, "
                "busbw in GB/s, as nccl-tests has them. Percentiles come from histograms, exact to "
                "1/16.";
        if (!r->rows.n)
                cli_section_line(s, "%s",
                                 is_whole(r->job) ? "no collective was called"
                                                  : "no collective is in what is left of the logs");
        else if (strcmp(from[0]->head, "comm"))
                cli_section_of(s, "%s, bandwidth in GB/s",
                               capo_page_comm_label(r, r->rows.row[0].row.comm, text, sizeof text));
        else
                cli_section_of(s, "bandwidth in GB/s");
        for (uint32_t i = 0; i < shown; i++) {
                struct report_cell cell = make_cell(view, &r->rows.row[i]);

                for (unsigned c = 0; c < n; c++) {
                        from[c]->show(&cell, text);
                        cli_section_cell(s, "%s", text);
                }
                host |= cell.row->clock == CAPO_CLOCK_HOST;
        }
        if (shown < r->rows.n)
                cli_section_line(s, "%u more rows: --all", r->rows.n - shown);
        if (host)
                cli_section_note(page, s,
                                 "no busbw: timed on the host only, until the call "
                                 "returned, not until the data arrived");
        return s;
}
