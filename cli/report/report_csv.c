/* SPDX-License-Identifier: Apache-2.0 */
/* The rows, for a spreadsheet: exact sizes, all of them. */
#include <math.h>

#include "cli/report/report_formats.h"
#include "core/base/calls.h"
#include "core/base/markup.h"

static void csv_number(FILE *out, bool known, double v)
{
        fputc(',', out);
        if (known && isfinite(v))
                fprintf(out, "%.6g", v);
}

int report_csv(const struct capo_page *r, FILE *out)
{
        fputs("comm,ranks,call,size_B,count,share,p50_us,p95_us,p99_us,max_us,algbw_GBs,busbw_GBs,algo,proto,channels,"
              "clock,"
              "mean_us,cov,calls,timed,in_group,captured,failed\n",
              out);
        for (uint32_t i = 0; i < r->rows.n; i++) {
                const struct capo_page_row *row = &r->rows.row[i];
                const struct capo_job_row *w = &row->row;
                const struct capo_hist *h = &w->time[row->clock];
                struct capo_sampled s = capo_job_row_sampled(w);
                bool timed = row->clock != CAPO_CLOCK_NONE;

                if (w->comm == CAPO_NO_COMM) /* capo's own "-" is no formula */
                        fputs(capo_page_comm(r, w->comm), out);
                else
                        capo_markup_csv(out, capo_page_comm(r, w->comm));
                fprintf(out, ",%d,%s,%llu,%llu",
                        w->comm == CAPO_NO_COMM ? 0 : r->job->comms[w->comm].n_ranks,
                        capo_call_name(w->call), (unsigned long long)w->bytes,
                        (unsigned long long)w->count);
                csv_number(out, row->share >= 0, row->share);
                csv_number(out, timed, capo_sampled_quantile(&s, 0.50) / 1000);
                csv_number(out, timed, capo_sampled_quantile(&s, 0.95) / 1000);
                csv_number(out, timed, capo_sampled_quantile(&s, 0.99) / 1000);
                csv_number(out, timed, (double)h->max_ns / 1000);
                csv_number(out, row->has_algbw, row->algbw);
                csv_number(out, row->has_bandwidth, row->busbw);
                fprintf(out, ",%s,%s", capo_ran_algo(w->algo_proto), capo_ran_proto(w->algo_proto));
                csv_number(out, capo_call_channels(w->call, w->channels), w->channels);
                fprintf(out, ",%s", capo_clock_name(row->clock));
                csv_number(out, timed, capo_sampled_mean(&s) / 1000);
                csv_number(out, timed, capo_sampled_cov(&s));
                fprintf(out, ",%llu,%llu,%d,%d,%llu\n", (unsigned long long)w->calls,
                        (unsigned long long)h->count, !!(w->flags & CAPO_RECORD_MEMBER),
                        !!(w->flags & CAPO_RECORD_CAPTURED), (unsigned long long)w->failed);
        }
        return 0;
}
