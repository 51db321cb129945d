/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a report, in all its formats: TIME BY CALL of the pages, CSV, "rows" of JSON. */

#include "analysis/report/job_judge.h"
#include "cli/report/report_json.h"
#include "cli/report/report_page.h"
#include "core/base/among.h"

enum { ROWS_SHOWN = 8, ROWS_COMPARED = 2000 };

/* ---- sizes ---- */

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

/* "1.602 MiB" */
static char *size_at(const struct capo_page_row *row, int decimals, char *text, size_t room)
{
        static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
        double v = (double)row->row.bytes;
        unsigned unit = 0;

        if (decimals < 2 || row->row.bytes != row->bytes_max)
                return capo_page_size(row, text, room);
        for (; v >= 1024 && unit + 1 < N_ELEMENTS(units); v /= 1024)
                unit++;
        snprintf(text, room, "%.*f %s", unit ? decimals : 0, v, units[unit]);
        return text;
}

char *report_size(const struct capo_page *r, const struct capo_page_row *row, char *text,
                  size_t room)
{
        const struct capo_page_rows *rows = &r->rows;

        for (int decimals = r->bytes ? 5 : 1; decimals < 5; decimals++) {
                size_at(row, decimals, text, room);
                if (rows->n > ROWS_COMPARED ||
                    !ANY_OF(other, rows->row, rows->n,
                            other->row.bytes != row->row.bytes &&
                                    other->row.comm == row->row.comm &&
                                    other->row.call == row->row.call &&
                                    !strcmp(size_at(other, decimals, (char[64]){0}, 64), text)))
                        return text;
        }
        return exact_size(row, text, room);
}

/* ---- the fields of a row ---- */

/* The times of the row by its clock; NULL: none. */
static const struct capo_hist *times_of(const struct capo_page_row *row)
{
        return row->clock == CAPO_CLOCK_NONE ? NULL : &row->row.time[row->clock];
}

/* For rows timed by NCCL's kernels that report it: how long they waited before they moved data. */
static const struct capo_hist *waited_hist(const struct capo_page_row *row)
{
        return row->row.time[CAPO_TIMES_WAITED].count ? &row->row.time[CAPO_TIMES_WAITED] : NULL;
}

static double waited_mean(const struct capo_page_row *row)
{
        return waited_hist(row) ? capo_hist_mean(waited_hist(row)) : -1;
}

/* Without a topology there is no such key. */
static json_t *ceiling_json(const struct capo_page *r, double value)
{
        return !r->ceiling ? NULL : value >= 0 ? cli_json_number(value) : json_null();
}

static json_t *ceiling_on_json(const struct capo_page *r, const struct capo_page_row *row)
{
        return !r->ceiling        ? NULL
               : row->ceiling > 0 ? json_string(r->ceiling[row->row.comm].on[row->row.call])
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

static double quantile_of(const struct capo_page_row *row, double q)
{
        struct capo_sampled s = capo_job_row_sampled(&row->row);

        return times_of(row) ? capo_sampled_quantile(&s, q) : -1;
}

/* @of: capo_sampled_mean(), capo_sampled_cov(). */
static double figure_of(const struct capo_page_row *row, double (*of)(const struct capo_sampled *))
{
        struct capo_sampled s = capo_job_row_sampled(&row->row);

        return times_of(row) ? of(&s) : NAN;
}

static int64_t count_channels(const struct capo_job_row *row)
{
        return (int64_t)capo_call_channels(row->call, row->channels) ?: -1;
}

#define TIMES times_of(of)
#define HOST  (&of->row.time[CAPO_CLOCK_HOST])

#define ROW_FIELDS(F)                                                                             \
        F(NULL, TEXT, capo_page_comm_label(in, of->row.comm, room, CLI_ROOM), "comm", "l")        \
        F(NULL, TEXT, capo_page_comm(in, of->row.comm), NULL, NULL, "comm")                       \
        F("comm", RANK, report_comm_number(of->row.comm))                                         \
        F(NULL, COUNT, of->row.comm == CAPO_NO_COMM ? 0 : in->job->comms[of->row.comm].n_ranks,   \
          NULL, NULL, "ranks")                                                                    \
        F("call", WORD, capo_call_name(of->row.call), NULL, NULL, "call")                         \
        F(NULL, TEXT, capo_page_call(&of->row, room, CLI_ROOM), "call", "l~")                     \
        F("bytes", BYTES, of->row.bytes, NULL, NULL, "size_B")                                    \
        F(NULL, TEXT, report_size(in, of, room, CLI_ROOM), "size", "r")                           \
        F("count", COUNT, of->row.count, "calls", "r", "count")                                   \
        F("share", SHARE, of->share, "time", "r", "share")                                        \
        F("p50_us", DURATION, quantile_of(of, 0.50), "p50", "r", "p50_us")                        \
        F("p95_us", DURATION, quantile_of(of, 0.95), "p95", "r/d", "p95_us")                      \
        F("p99_us", DURATION, quantile_of(of, 0.99), "p99", "r/f", "p99_us")                      \
        F("max_us", DURATION, TIMES ? (double)TIMES->max_ns : -1, "max", "r/d", "max_us")         \
        F(NULL, DURATION, of->clock == CAPO_CLOCK_KERNEL ? waited_mean(of) : -1, "waited", "r/c") \
        F("algbw_gbs", RATE, of->has_algbw ? of->algbw : -1, "algbw", "r/b", "algbw_GBs")         \
        F("busbw_gbs", RATE, of->has_bandwidth ? of->busbw : -1, "busbw", "r", "busbw_GBs")       \
        F("ceiling_busbw_gbs", JSON, ceiling_json(in, of->ceiling > 0 ? of->ceiling : -1))        \
        F("ceiling_on", JSON, ceiling_on_json(in, of))                                            \
        F("reached", JSON, ceiling_json(in, of->reached))                                         \
        F(NULL, WORD, ran_text(of->row.algo_proto, room), "algorithm", "l/e")                     \
        F("algo", WORD, capo_ran_algo(of->row.algo_proto), NULL, NULL, "algo")                    \
        F("proto", WORD, capo_ran_proto(of->row.algo_proto), NULL, NULL, "proto")                 \
        F("channels", COUNT, count_channels(&of->row), "ch", "r/b", "channels")                   \
        F("?group_of", WORD, capo_page_group_of(&of->row))                                        \
        F("clock", WORD, capo_clock_name(of->clock), "clock", "l/a", "clock")                     \
        F("mean_us", DURATION, figure_of(of, capo_sampled_mean), NULL, NULL, "mean_us")           \
        F("cov", REAL, figure_of(of, capo_sampled_cov), NULL, NULL, "cov")                        \
        F("calls", COUNT, of->row.calls, NULL, NULL, "calls")                                     \
        F("timed", COUNT, of->row.time[of->clock].count, NULL, NULL, "timed")                     \
        F("in_group", FLAG, of->row.flags &CAPO_RECORD_MEMBER, NULL, NULL, "in_group")            \
        F("captured", FLAG, of->row.flags &CAPO_RECORD_CAPTURED, NULL, NULL, "captured")          \
        F("failed", COUNT, of->row.failed, NULL, NULL, "failed")                                  \
        F("timed_us", DURATION, TIMES ? (double)TIMES->sum_ns : -1)                               \
        F("min_us", DURATION, TIMES ? (double)TIMES->min_ns : -1)                                 \
        F("host_p50_us", DURATION, HOST->count ? capo_hist_quantile(HOST, 0.5) : -1)              \
        F("?waited_calls", COUNT, waited_hist(of) ? (int64_t)waited_hist(of)->count : -1)         \
        F("?waited_mean_us", DURATION, waited_mean(of))                                           \
        F("?waited_p95_us", DURATION,                                                             \
          waited_hist(of) ? capo_hist_quantile(waited_hist(of), 0.95) : -1)
CLI_ENTITY_SHARED(report_row, struct capo_page_row, struct capo_page, ROW_FIELDS);

void report_csv(const struct capo_page *r, FILE *out)
{
        cli_entity_csv(&report_row, r, NULL, out);
        for (uint32_t i = 0; i < r->rows.n; i++)
                cli_entity_csv(&report_row, r, &r->rows.row[i], out);
}

/* ---- TIME BY CALL ---- */

/* Did all logs end properly? */
static bool is_whole(const struct capo_job *job, bool *running)
{
        *running = ANY_OF(p, job->processes, job->n_processes, capo_process_alive(p));
        return ALL_OF(p, job->processes, job->n_processes,
                      capo_process_ended(job, p) && !p->health.cut_bytes && !p->health.n_damages &&
                              !p->read_error);
}

struct cli_section *report_rows(const struct capo_page *r, struct cli_page *page)
{
        struct cli_section *s = cli_page_entity(page, "TIME BY CALL", &report_row);
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
                cli_section_entity(s, r, &r->rows.row[i]);
                host |= r->rows.row[i].clock == CAPO_CLOCK_HOST;
        }
        if (shown < r->rows.n)
                cli_section_line(s, "%u more rows: --all", r->rows.n - shown);
        if (host)
                cli_section_note(page, s,
                                 "no busbw: timed on the host only, until the call "
                                 "returned, not until the data arrived");
        return s;
}
