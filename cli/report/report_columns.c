/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of a row: how to print a cell, and its value. report_rows.c prints them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/job/figures.h"
#include "cli/report/report_columns.h"
#include "cli/base/cli_json.h"
#include "cli/report/report_page.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"

enum { ROWS_COMPARED = 2000 };

typedef const struct report_cell cell_t;

static bool is_timed(cell_t *c)
{
        return c->row->clock != CAPO_CLOCK_NONE;
}

static const struct capo_hist *hist_of(cell_t *c)
{
        return &c->row->row.time[c->row->clock];
}

static json_t *number_if(bool known, double v)
{
        return known ? cli_json_number(v) : json_null();
}

static json_t *count_json(uint64_t n)
{
        return json_integer((json_int_t)n);
}

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

/* ---- cells: text and value ---- */

static void show_comm(cell_t *c, char *text)
{
        capo_page_comm_label(c->view->page, c->row->row.comm, text, 256);
}

static json_t *value_comm(cell_t *c)
{
        return c->row->row.comm == CAPO_NO_COMM ? json_null() : json_integer(c->row->row.comm);
}

static json_t *value_comm_name(cell_t *c)
{
        return cli_json_text(capo_page_comm(c->view->page, c->row->row.comm));
}

static json_t *value_ranks(cell_t *c)
{
        uint32_t comm = c->row->row.comm;

        return json_integer(comm == CAPO_NO_COMM ? 0 : c->view->page->job->comms[comm].n_ranks);
}

static void show_call(cell_t *c, char *text)
{
        capo_page_call(&c->row->row, text, 256);
}

static json_t *value_call(cell_t *c)
{
        return json_string(capo_call_name(c->row->row.call));
}

static void show_size(cell_t *c, char *text)
{
        report_size(c->view, c->row, text, 256);
}

static json_t *value_size(cell_t *c)
{
        return count_json(c->row->row.bytes);
}

static void show_count(cell_t *c, char *text)
{
        capo_text_count(c->row->row.count, text);
}

static json_t *value_count(cell_t *c)
{
        return count_json(c->row->row.count);
}

char *report_percent(double share, char *text)
{
        if (share < 0.0995)
                return capo_text_percent(share, text);
        snprintf(text, 32, share < 1 && share >= 0.995 ? "%.1f %%" : "%.0f %%", 100 * share);
        return text;
}

static void show_share(cell_t *c, char *text)
{
        report_percent(c->row->share, text);
}

static json_t *value_share(cell_t *c)
{
        return number_if(c->row->share >= 0, c->row->share);
}

/* A quantile of the times, as text and as value. */
#define QUANTILE(name, q)                                                                    \
        static void show_##name(cell_t *c, char *text)                                       \
        {                                                                                    \
                capo_text_duration(is_timed(c) ? capo_sampled_quantile(&c->sampled, q) : -1, \
                                   text);                                                    \
        }                                                                                    \
        static json_t *value_##name(cell_t *c)                                               \
        {                                                                                    \
                return number_if(is_timed(c), capo_sampled_quantile(&c->sampled, q) / 1000); \
        }
QUANTILE(p50, 0.50)
QUANTILE(p95, 0.95)
QUANTILE(p99, 0.99)

static void show_max(cell_t *c, char *text)
{
        capo_text_duration(is_timed(c) ? (double)hist_of(c)->max_ns : -1, text);
}

static json_t *value_max(cell_t *c)
{
        return number_if(is_timed(c), (double)hist_of(c)->max_ns / 1000);
}

static void show_algbw(cell_t *c, char *text)
{
        capo_text_gbs(c->row->has_algbw ? c->row->algbw : -1, text);
}

static json_t *value_algbw(cell_t *c)
{
        return number_if(c->row->has_algbw, c->row->algbw);
}

static void show_busbw(cell_t *c, char *text)
{
        capo_text_gbs(c->row->has_bandwidth ? c->row->busbw : -1, text);
}

static json_t *value_busbw(cell_t *c)
{
        return number_if(c->row->has_bandwidth, c->row->busbw);
}

static json_t *value_ceiling(cell_t *c)
{
        return !c->view->page->ceiling ? NULL : number_if(c->row->ceiling > 0, c->row->ceiling);
}

static json_t *value_ceiling_on(cell_t *c)
{
        const struct capo_page_ceiling *ceiling = c->view->page->ceiling;

        return !ceiling              ? NULL
               : c->row->ceiling > 0 ? json_string(ceiling[c->row->row.comm].on[c->row->row.call])
                                     : json_null();
}

static json_t *value_reached(cell_t *c)
{
        return !c->view->page->ceiling ? NULL : number_if(c->row->reached >= 0, c->row->reached);
}

static void show_ran(cell_t *c, char *text)
{
        const char *algo = capo_ran_algo(c->row->row.algo_proto),
                   *proto = capo_ran_proto(c->row->row.algo_proto);

        snprintf(text, 256, "%s%s%s", algo, strcmp(proto, "-") ? " " : "",
                 strcmp(proto, "-") ? proto : "");
}

static json_t *value_algo(cell_t *c)
{
        return json_string(capo_ran_algo(c->row->row.algo_proto));
}

static json_t *value_proto(cell_t *c)
{
        return json_string(capo_ran_proto(c->row->row.algo_proto));
}

static void show_channels(cell_t *c, char *text)
{
        unsigned n = capo_call_channels(c->row->row.call, c->row->row.channels);

        snprintf(text, 256, n ? "%u" : "-", n);
}

static json_t *value_channels(cell_t *c)
{
        unsigned n = capo_call_channels(c->row->row.call, c->row->row.channels);

        return n ? json_integer(n) : json_null();
}

static json_t *value_group_of(cell_t *c)
{
        const char *of = capo_page_group_of(&c->row->row);

        return of ? json_string(of) : NULL;
}

static void show_clock(cell_t *c, char *text)
{
        strcpy(text, capo_clock_name(c->row->clock));
}

static json_t *value_clock(cell_t *c)
{
        return json_string(capo_clock_name(c->row->clock));
}

static json_t *value_mean(cell_t *c)
{
        return number_if(is_timed(c), capo_sampled_mean(&c->sampled) / 1000);
}

static json_t *value_cov(cell_t *c)
{
        return number_if(is_timed(c), capo_sampled_cov(&c->sampled));
}

static json_t *value_calls(cell_t *c)
{
        return count_json(c->row->row.calls);
}

static json_t *value_timed(cell_t *c)
{
        return count_json(hist_of(c)->count);
}

static json_t *value_in_group(cell_t *c)
{
        return json_boolean(c->row->row.flags & CAPO_RECORD_MEMBER);
}

static json_t *value_captured(cell_t *c)
{
        return json_boolean(c->row->row.flags & CAPO_RECORD_CAPTURED);
}

static json_t *value_failed(cell_t *c)
{
        return count_json(c->row->row.failed);
}

static json_t *value_timed_us(cell_t *c)
{
        return number_if(is_timed(c), (double)hist_of(c)->sum_ns / 1000);
}

static json_t *value_min(cell_t *c)
{
        return number_if(is_timed(c), (double)hist_of(c)->min_ns / 1000);
}

static json_t *value_host_p50(cell_t *c)
{
        const struct capo_hist *host = &c->row->row.time[CAPO_CLOCK_HOST];

        return number_if(host->count, capo_hist_quantile(host, 0.5) / 1000);
}

/* For rows timed by NCCL's kernels that report it: how long they waited before they moved data. */
static const struct capo_hist *waited_hist(cell_t *c)
{
        const struct capo_hist *h = &c->row->row.time[CAPO_TIMES_WAITED];

        return h->count ? h : NULL;
}

static void show_waited(cell_t *c, char *text)
{
        const struct capo_hist *h = c->row->clock == CAPO_CLOCK_KERNEL ? waited_hist(c) : NULL;

        capo_text_duration(h ? capo_hist_mean(h) : -1, text);
}

static json_t *value_waited_calls(cell_t *c)
{
        return waited_hist(c) ? count_json(waited_hist(c)->count) : NULL;
}

static json_t *value_waited_mean(cell_t *c)
{
        const struct capo_hist *h = waited_hist(c);

        return h ? cli_json_number(capo_hist_mean(h) / 1000) : NULL;
}

static json_t *value_waited_p95(cell_t *c)
{
        const struct capo_hist *h = waited_hist(c);

        return h ? cli_json_number(capo_hist_quantile(h, 0.95) / 1000) : NULL;
}

const struct report_column report_columns[] = {
        {"comm", "l", NULL, "comm", show_comm, value_comm_name},
        {NULL, NULL, "comm", NULL, NULL, value_comm},
        {NULL, NULL, NULL, "ranks", NULL, value_ranks},
        {"call", "l~", "call", "call", show_call, value_call},
        {"size", "r", "bytes", "size_B", show_size, value_size},
        {"calls", "r", "count", "count", show_count, value_count},
        {"time", "r", "share", "share", show_share, value_share},
        {"p50", "r", "p50_us", "p50_us", show_p50, value_p50},
        {"p95", "r/d", "p95_us", "p95_us", show_p95, value_p95},
        {"p99", "r", "p99_us", "p99_us", show_p99, value_p99},
        {"max", "r/d", "max_us", "max_us", show_max, value_max},
        {"waited", "r/c", NULL, NULL, show_waited, NULL},
        {"algbw", "r/b", "algbw_gbs", "algbw_GBs", show_algbw, value_algbw},
        {"busbw", "r", "busbw_gbs", "busbw_GBs", show_busbw, value_busbw},
        {NULL, NULL, "ceiling_busbw_gbs", NULL, NULL, value_ceiling},
        {NULL, NULL, "ceiling_on", NULL, NULL, value_ceiling_on},
        {NULL, NULL, "reached", NULL, NULL, value_reached},
        {"ran", "l/e", NULL, NULL, show_ran, NULL},
        {NULL, NULL, "algo", "algo", NULL, value_algo},
        {NULL, NULL, "proto", "proto", NULL, value_proto},
        {"ch", "r/b", "channels", "channels", show_channels, value_channels},
        {NULL, NULL, "group_of", NULL, NULL, value_group_of},
        {"clock", "l/a", "clock", "clock", show_clock, value_clock},
        {NULL, NULL, "mean_us", "mean_us", NULL, value_mean},
        {NULL, NULL, "cov", "cov", NULL, value_cov},
        {NULL, NULL, "calls", "calls", NULL, value_calls},
        {NULL, NULL, "timed", "timed", NULL, value_timed},
        {NULL, NULL, "in_group", "in_group", NULL, value_in_group},
        {NULL, NULL, "captured", "captured", NULL, value_captured},
        {NULL, NULL, "failed", "failed", NULL, value_failed},
        {NULL, NULL, "timed_us", NULL, NULL, value_timed_us},
        {NULL, NULL, "min_us", NULL, NULL, value_min},
        {NULL, NULL, "host_p50_us", NULL, NULL, value_host_p50},
        {NULL, NULL, "waited_calls", NULL, NULL, value_waited_calls},
        {NULL, NULL, "waited_mean_us", NULL, NULL, value_waited_mean},
        {NULL, NULL, "waited_p95_us", NULL, NULL, value_waited_p95},
        {0},
};
