/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a report, in all its formats: TIME BY CALL of the pages, CSV, "rows" of JSON. */

#include "analysis/report/job_judge.h"
#include "cli/report/report_json.h"
#include "cli/report/report_page.h"

enum { ROWS_SHOWN = 8, ROWS_COMPARED = 2000 };

/* ---- sizes ---- */

/* "1.602 MiB" */
static char *fine_size(uint64_t bytes, int decimals, char *text, size_t room)
{
        static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
        double v = (double)bytes;
        unsigned unit = 0;

        for (; v >= 1024 && unit + 1 < N_ELEMENTS(units); v /= 1024)
                unit++;
        snprintf(text, room, "%.*f %s", unit ? decimals : 0, v, units[unit]);
        return text;
}

static char *exact_size(const struct capo_page_row *row, char *text, size_t room)
{
        char from[32], upto[32];

        capo_text_count(row->row.bytes, from);
        capo_text_count(row->bytes_max, upto);
        if (row->row.bytes == row->bytes_max)
                snprintf(text, room, "%s B", from);
        else
                snprintf(text, room, "%s-%s B", from, upto);
        return text;
}

static char *size_at(const struct capo_page_row *row, int decimals, char *text, size_t room)
{
        if (decimals < 2 || row->row.bytes != row->bytes_max)
                return capo_page_size(row, text, room);
        return fine_size(row->row.bytes, decimals, text, room);
}

char *report_size(const struct report_view *view, const struct capo_page_row *row, char *text,
                  size_t room)
{
        const struct capo_page_rows *rows = &view->page->rows;
        int decimals = 1;

        if (view->bytes)
                return exact_size(row, text, room);
        for (uint32_t i = 0; i < rows->n && rows->n <= ROWS_COMPARED && decimals < 5; i++) {
                const struct capo_page_row *other = &rows->row[i];
                char same[64];

                if (other->row.bytes == row->row.bytes || other->row.comm != row->row.comm ||
                    other->row.call != row->row.call)
                        continue;
                while (decimals < 5 && !strcmp(size_at(other, decimals, same, sizeof same),
                                               size_at(row, decimals, text, room)))
                        decimals++;
        }
        return decimals < 5 ? size_at(row, decimals, text, room) : exact_size(row, text, room);
}

/* ---- the fields of a row ---- */

struct row {
        const struct report_view *view;
        const struct capo_page *page;
        const struct capo_page_row *row;
        const struct capo_job_row *cell;
        const struct capo_hist *times; /* by its clock; NULL: none */
        struct capo_sampled sampled;
};

static struct row make_row(const struct report_view *view, const struct capo_page_row *row)
{
        return (struct row){view,
                            view->page,
                            row,
                            &row->row,
                            row->clock == CAPO_CLOCK_NONE ? NULL : &row->row.time[row->clock],
                            capo_job_row_sampled(&row->row)};
}

/* For rows timed by NCCL's kernels that report it: how long they waited before they moved data. */
static const struct capo_hist *waited_hist(const struct row *r)
{
        return r->cell->time[CAPO_TIMES_WAITED].count ? &r->cell->time[CAPO_TIMES_WAITED] : NULL;
}

static double waited_mean(const struct row *r)
{
        return waited_hist(r) ? capo_hist_mean(waited_hist(r)) : -1;
}

/* Without a topology there is no such key. */
static json_t *ceiling_json(const struct row *r, double value)
{
        return !r->page->ceiling ? NULL : value >= 0 ? cli_json_number(value) : json_null();
}

static json_t *ceiling_on_json(const struct row *r)
{
        return !r->page->ceiling ? NULL
               : r->row->ceiling > 0
                       ? json_string(r->page->ceiling[r->cell->comm].on[r->cell->call])
                       : json_null();
}

static const char *ran_text(uint16_t algo_proto, char *text)
{
        const char *proto = capo_ran_proto(algo_proto);
        bool both = strcmp(proto, "-") != 0;

        snprintf(text, CLI_ROOM, "%s%s%s", capo_ran_algo(algo_proto), both ? " " : "",
                 both ? proto : "");
        return text;
}

static int64_t count_channels(const struct row *r)
{
        unsigned n = capo_call_channels(r->cell->call, r->cell->channels);

        return n ? (int64_t)n : -1;
}

#define QUANTILE(q) (of->times ? capo_sampled_quantile(&of->sampled, q) : -1)
#define HOST        (&of->cell->time[CAPO_CLOCK_HOST])

#define ROW_FIELDS(F)                                                                              \
        F(NULL, TEXT, capo_page_comm_label(of->page, of->cell->comm, room, CLI_ROOM), "comm", "l") \
        F(NULL, TEXT, capo_page_comm(of->page, of->cell->comm), NULL, NULL, "comm")                \
        F("comm", RANK, report_comm_number(of->cell->comm))                                        \
        F(NULL, COUNT,                                                                             \
          of->cell->comm == CAPO_NO_COMM ? 0 : of->page->job->comms[of->cell->comm].n_ranks, NULL, \
          NULL, "ranks")                                                                           \
        F("call", WORD, capo_call_name(of->cell->call), NULL, NULL, "call")                        \
        F(NULL, TEXT, capo_page_call(of->cell, room, CLI_ROOM), "call", "l~")                      \
        F("bytes", BYTES, of->cell->bytes, NULL, NULL, "size_B")                                   \
        F(NULL, TEXT, report_size(of->view, of->row, room, CLI_ROOM), "size", "r")                 \
        F("count", COUNT, of->cell->count, "calls", "r", "count")                                  \
        F("share", SHARE, of->row->share, "time", "r", "share")                                    \
        F("p50_us", DURATION, QUANTILE(0.50), "p50", "r", "p50_us")                                \
        F("p95_us", DURATION, QUANTILE(0.95), "p95", "r/d", "p95_us")                              \
        F("p99_us", DURATION, QUANTILE(0.99), "p99", "r/f", "p99_us")                              \
        F("max_us", DURATION, of->times ? (double)of->times->max_ns : -1, "max", "r/d", "max_us")  \
        F(NULL, DURATION, of->row->clock == CAPO_CLOCK_KERNEL ? waited_mean(of) : -1, "waited",    \
          "r/c")                                                                                   \
        F("algbw_gbs", RATE, of->row->has_algbw ? of->row->algbw : -1, "algbw", "r/b",             \
          "algbw_GBs")                                                                             \
        F("busbw_gbs", RATE, of->row->has_bandwidth ? of->row->busbw : -1, "busbw", "r",           \
          "busbw_GBs")                                                                             \
        F("ceiling_busbw_gbs", JSON,                                                               \
          ceiling_json(of, of->row->ceiling > 0 ? of->row->ceiling : -1))                          \
        F("ceiling_on", JSON, ceiling_on_json(of))                                                 \
        F("reached", JSON, ceiling_json(of, of->row->reached))                                     \
        F(NULL, WORD, ran_text(of->cell->algo_proto, room), "algorithm", "l/e")                    \
        F("algo", WORD, capo_ran_algo(of->cell->algo_proto), NULL, NULL, "algo")                   \
        F("proto", WORD, capo_ran_proto(of->cell->algo_proto), NULL, NULL, "proto")                \
        F("channels", COUNT, count_channels(of), "ch", "r/b", "channels")                          \
        F("?group_of", WORD, capo_page_group_of(of->cell))                                         \
        F("clock", WORD, capo_clock_name(of->row->clock), "clock", "l/a", "clock")                 \
        F("mean_us", DURATION, of->times ? capo_sampled_mean(&of->sampled) : -1, NULL, NULL,       \
          "mean_us")                                                                               \
        F("cov", REAL, of->times ? capo_sampled_cov(&of->sampled) : NAN, NULL, NULL, "cov")        \
        F("calls", COUNT, of->cell->calls, NULL, NULL, "calls")                                    \
        F("timed", COUNT, of->cell->time[of->row->clock].count, NULL, NULL, "timed")               \
        F("in_group", FLAG, of->cell->flags &CAPO_RECORD_MEMBER, NULL, NULL, "in_group")           \
        F("captured", FLAG, of->cell->flags &CAPO_RECORD_CAPTURED, NULL, NULL, "captured")         \
        F("failed", COUNT, of->cell->failed, NULL, NULL, "failed")                                 \
        F("timed_us", DURATION, of->times ? (double)of->times->sum_ns : -1)                        \
        F("min_us", DURATION, of->times ? (double)of->times->min_ns : -1)                          \
        F("host_p50_us", DURATION, HOST->count ? capo_hist_quantile(HOST, 0.5) : -1)               \
        F("?waited_calls", COUNT, waited_hist(of) ? (int64_t)waited_hist(of)->count : -1)          \
        F("?waited_mean_us", DURATION, waited_mean(of))                                            \
        F("?waited_p95_us", DURATION,                                                              \
          waited_hist(of) ? capo_hist_quantile(waited_hist(of), 0.95) : -1)
CLI_ENTITY(report_row, struct row, void, ROW_FIELDS);

json_t *report_json_rows(const struct report_view *view)
{
        json_t *list = json_array();

        for (uint32_t i = 0; i < view->page->rows.n; i++) {
                struct row row = make_row(view, &view->page->rows.row[i]);

                json_array_append_new(list, cli_entity_json(&report_row, NULL, &row));
        }
        return list;
}

int report_csv(const struct report_view *view, FILE *out)
{
        cli_entity_csv(&report_row, NULL, NULL, out);
        for (uint32_t i = 0; i < view->page->rows.n; i++) {
                struct row row = make_row(view, &view->page->rows.row[i]);

                cli_entity_csv(&report_row, NULL, &row, out);
        }
        return 0;
}

/* ---- TIME BY CALL ---- */

/* Did all logs end properly? */
static bool is_whole(const struct capo_job *job, bool *running)
{
        bool whole = true;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];

                *running |= capo_process_alive(p);
                whole &= capo_process_ended(job, p) && !p->health.cut_bytes &&
                         !p->health.n_damages && !p->read_error;
        }
        return whole;
}

struct cli_section *report_rows(const struct report_view *view, struct cli_page *page)
{
        struct cli_section *s = cli_page_entity(page, "TIME BY CALL", &report_row);
        const struct capo_page *r = view->page;
        uint32_t shown = r->all || r->rows.n <= ROWS_SHOWN + 2 ? r->rows.n : ROWS_SHOWN;
        bool host = false, several = false, waited = false, running = false, whole;
        char text[256];

        for (uint32_t i = 0; i < r->rows.n; i++) {
                several |= r->rows.row[i].row.comm != r->rows.row[0].row.comm;
                waited |= r->rows.row[i].row.time[CAPO_TIMES_WAITED].count > 0;
        }
        if (several && s->own)
                s->own[0].groups = true;
        else
                cli_section_hide(s, "comm"); /* it is named beside the title */
        if (!waited)
                cli_section_hide(s, "waited"); /* few kernels report it */
        s->how =
                "Per call, over all ranks. calls: per rank. time: share of the GPU time of all "
                "ranks (of host time where there is no GPU time). Times by clock event (CUDA "
                "events) and kernel (NCCL's kernels) are GPU times and include waiting for late "
                "ranks; host: how long the call took to return, which is not the transfer. algbw, "
                "busbw in GB/s, as nccl-tests has them. Percentiles come from histograms, exact to "
                "1/16.";
        whole = is_whole(r->job, &running);
        if (!r->rows.n)
                cli_section_line(s, "%s",
                                 running ? "no collective was called yet"
                                 : whole ? "no collective was called"
                                         : "no collective is in what is left of the logs");
        else if (several)
                cli_section_of(s, "bandwidth in GB/s");
        else
                cli_section_of(s, "%s, bandwidth in GB/s",
                               capo_page_comm_label(r, r->rows.row[0].row.comm, text, sizeof text));
        for (uint32_t i = 0; i < shown; i++) {
                struct row row = make_row(view, &r->rows.row[i]);

                cli_section_entity(s, NULL, &row);
                host |= row.row->clock == CAPO_CLOCK_HOST;
        }
        if (shown < r->rows.n)
                cli_section_line(s, "%u more rows: --all", r->rows.n - shown);
        if (host)
                cli_section_note(page, s,
                                 "no busbw: timed on the host only, until the call "
                                 "returned, not until the data arrived");
        return s;
}
