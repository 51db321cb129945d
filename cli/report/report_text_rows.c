/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the page, and what the links allow. */
#include <string.h>

#include "cli/base/cli_table.h"
#include "cli/report/report_text.h"
#include "core/base/calls.h"
#include "core/base/util.h"

enum { ROWS_SHOWN = 12 };

/* Sizes in round numbers; in bytes where another row of the call would read the same. */
static char *size_text(const struct capo_page *r, const struct capo_page_row *row, char *text,
                       size_t room)
{
        capo_page_size(row, text, room);
        for (uint32_t i = 0; i < r->rows.n && r->rows.n <= 2000; i++) {
                const struct capo_page_row *other = &r->rows.row[i];
                char same[64];

                if (other->row.bytes == row->row.bytes || other->row.comm != row->row.comm ||
                    other->row.call != row->row.call ||
                    strcmp(capo_page_size(other, same, sizeof same), text) != 0)
                        continue;
                capo_text_count(row->row.bytes, text);
                return strcat(text, " B");
        }
        return text;
}

static void row_cells(const struct capo_page *r, const struct capo_page_row *row,
                      struct capo_table *t)
{
        const struct capo_hist *h = &row->row.time[row->clock];
        struct capo_sampled s = capo_job_row_sampled(&row->row);
        bool timed = row->clock != CAPO_CLOCK_NONE;
        char text[64], comm[256];

        capo_table_cell(t, "%s", capo_page_comm_label(r, row->row.comm, comm, sizeof comm));
        capo_table_cell(t, "%s", capo_page_call(&row->row, text, sizeof text));
        capo_table_cell(t, "%s", size_text(r, row, text, sizeof text));
        capo_table_cell(t, "%s", capo_text_count(row->row.count, text));
        capo_table_cell(t, "%s", row->share >= 0 ? capo_text_percent(row->share, text) : "-");
        capo_table_cell(t, "%s", timed ? capo_text_us(capo_sampled_quantile(&s, 0.50), text) : "-");
        capo_table_cell(t, "%s", timed ? capo_text_us(capo_sampled_quantile(&s, 0.95), text) : "-");
        capo_table_cell(t, "%s", timed ? capo_text_us(capo_sampled_quantile(&s, 0.99), text) : "-");
        capo_table_cell(t, "%s", timed ? capo_text_us((double)h->max_ns, text) : "-");
        capo_table_cell(t, "%s", row->has_algbw ? capo_text_gbs(row->algbw, text) : "-");
        capo_table_cell(t, "%s", row->has_bandwidth ? capo_text_gbs(row->busbw, text) : "-");
        capo_table_cell(t, "%s", capo_ran_algo(row->row.algo_proto));
        capo_table_cell(t, "%s", capo_ran_proto(row->row.algo_proto));
        if (capo_call_channels(row->row.call, row->row.channels))
                capo_table_cell(t, "%u", row->row.channels);
        else
                capo_table_cell(t, "-");
        capo_table_cell(t, "%s", capo_clock_name(row->clock));
}

/* Of a row by NCCL's kernels, where these told their phases: how much of it was waiting. */
static void print_kernel_wait(const struct capo_page *r, const struct capo_page_row *row, FILE *out)
{
        const struct capo_hist *w = &row->row.time[CAPO_TIMES_WAITED],
                               *all = &row->row.time[CAPO_CLOCK_KERNEL];
        char comm[256], size[64], call[64], a[32], b[32];

        if (!w->count || row->clock != CAPO_CLOCK_KERNEL)
                return;
        fprintf(out,
                "%s %s %s %s %s: its kernels waited %s us for the others before they moved data, of %s us\n",
                capo_page_comm_label(r, row->row.comm, comm, sizeof comm),
                capo_page_call(&row->row, call, sizeof call), size_text(r, row, size, sizeof size),
                capo_ran_algo(row->row.algo_proto), capo_ran_proto(row->row.algo_proto),
                capo_text_us(capo_hist_mean(w), a), capo_text_us(capo_hist_mean(all), b));
}

static void where_time_went(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        static const char *const head[] = {"comm",  "call", "size",  "count", "share",
                                           "p50",   "p95",  "p99",   "max",   "algbw",
                                           "busbw", "algo", "proto", "ch",    "clock"};
        static const char *const units[] = {"",   "",     "",     "", "", "us", "us", "us",
                                            "us", "GB/s", "GB/s", "", "", "",   ""};
        _cleanup_(capo_table_freep) struct capo_table *t =
                capo_table_new("llrr/dr rr/hr/cr/f r/br l/gl/er/al/i");
        uint32_t shown = r->all || r->rows.n <= ROWS_SHOWN + 2 ? r->rows.n : ROWS_SHOWN;

        if (!t)
                return;
        fprintf(out, "\n%sWHERE THE TIME WENT%s%s\n", s->bold, s->plain,
                !r->rows.n ? "     no collective was called"
                : r->gpu
                        ? "     per call, over all ranks; share is of the GPU time of them all"
                        : "     per call, over all ranks; host times are how long calls took to return, not the "
                          "transfers");
        if (!r->rows.n)
                return;
        for (size_t i = 0; i < N_ELEMENTS(head); i++)
                capo_table_cell(t, "%s", head[i]);
        for (size_t i = 0; i < N_ELEMENTS(head); i++)
                capo_table_cell(t, "%s", units[i]);
        for (uint32_t i = 0; i < shown; i++)
                row_cells(r, &r->rows.row[i], t);
        capo_table_print(t, out, 2, s->bold, s->plain);
        if (shown < r->rows.n)
                fprintf(out, "%u more rows: capo report --all %s\n", r->rows.n - shown, r->what);
        for (uint32_t i = 0; i < shown; i++)
                print_kernel_wait(r, &r->rows.row[i], out);
}

/* What a ceiling counts on beside NVLink. */
static const char *beside_nvlink(const char *on)
{
        static const char word[] = "NVLink";
        static char text[32];

        if (strncmp(on, word, sizeof word - 1) || !on[sizeof word - 1])
                return "";
        snprintf(text, sizeof text, " %s", on + sizeof word);
        return text;
}

/* What the links of each communicator's GPUs allow, and what its collectives reached of it. */
static void print_ceilings(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        static const char *const head[] = {"comm",  "class",   "call",   "size",
                                           "busbw", "ceiling", "reached"};
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("ll/alrrrr");
        const char *beyond = NULL; /* which ceilings are exceeded: of NVLink alone, or of more */
        bool adding = false;
        uint32_t shown = 0;

        if (!r->ceiling || !t)
                return;
        fprintf(out,
                "\n%sCEILINGS%s     of the links in %s, busbw GB/s: no software exceeds them (docs/fragments.md)\n",
                s->bold, s->plain, r->topology);
        for (size_t i = 0; i < N_ELEMENTS(head); i++)
                capo_table_cell(t, "%s", head[i]);
        for (uint32_t i = 0; i < r->rows.n && (r->all || shown < ROWS_SHOWN); i++) {
                const struct capo_page_row *row = &r->rows.row[i];
                const char *on;
                char text[256];

                if (row->row.comm == CAPO_NO_COMM || !*r->ceiling[row->row.comm].class ||
                    row->reached < 0)
                        continue;
                on = r->ceiling[row->row.comm].on[row->row.call];
                capo_table_cell(t, "%s", capo_page_comm_label(r, row->row.comm, text, sizeof text));
                capo_table_cell(t, "%s", r->ceiling[row->row.comm].class);
                capo_table_cell(t, "%s", capo_page_call(&row->row, text, sizeof text));
                capo_table_cell(t, "%s", size_text(r, row, text, sizeof text));
                capo_table_cell(t, "%s", capo_text_gbs(row->busbw, text));
                capo_table_cell(t, "%s%s", capo_text_gbs(row->ceiling, text), beside_nvlink(on));
                capo_table_cell(t, "%s", capo_text_percent(row->reached, text));
                adding |= strstr(on, "+NVLS") != NULL;
                if (row->reached > 1 && (!beyond || *beyond))
                        beyond = strstr(on, "PCIe") ? "" : on;
                shown++;
        }
        if (shown)
                capo_table_print(t, out, 1, s->bold, s->plain);
        if (adding)
                fputs("NVLS: with the switches adding and copying, which only NCCL's NVLS does\n",
                      out);
        if (beyond)
                fprintf(out,
                        "more than 100 %%: %s is less than these links carry, or the call used others too\n",
                        *beyond && *r->link_speed ? r->link_speed : "what the description says");
        for (uint32_t i = 0; !shown && i < r->job->n_comms;
             i++) { /* no GPU times: the classes at least */
                if (*r->ceiling[i].class && r->class_of[i] == i) {
                        fprintf(out, "%s   %s\n", r->job->comms[i].name, r->ceiling[i].class);
                        shown++;
                }
        }
        if (*r->no_ceiling)
                fprintf(out, "not known for %s\n", r->no_ceiling);
}

static void other_calls(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("llrrrr");
        static const char *const head[] = {"comm", "call", "calls", "p50 ms", "max ms", "failed"};

        if (!r->all || !r->others.n || !t)
                return;
        fprintf(out, "\n%sOTHER CALLS%s     host times, all ranks\n", s->bold, s->plain);
        for (size_t i = 0; i < N_ELEMENTS(head); i++)
                capo_table_cell(t, "%s", head[i]);
        for (uint32_t i = 0; i < r->others.n; i++) {
                const struct capo_job_row *row = &r->others.row[i].row;
                const struct capo_hist *h = &row->time[CAPO_CLOCK_HOST];
                char text[256];

                capo_table_cell(t, "%s", capo_page_comm_label(r, row->comm, text, sizeof text));
                capo_table_cell(t, "%s", capo_call_name(row->call));
                capo_table_cell(t, "%s", capo_text_count(row->calls, text));
                capo_table_cell(t, "%s", capo_text_us(capo_hist_quantile(h, 0.5) / 1000, text));
                capo_table_cell(t, "%s", capo_text_us((double)h->max_ns / 1000, text));
                capo_table_cell(t, "%s", capo_text_count(row->failed, text));
        }
        capo_table_print(t, out, 1, s->bold, s->plain);
}

void report_text_rows(const struct capo_page *r, FILE *out, const struct report_style *s)
{
        where_time_went(r, out, s);
        print_ceilings(r, out, s);
        other_calls(r, out, s);
}
