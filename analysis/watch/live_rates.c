/* SPDX-License-Identifier: Apache-2.0 */

#include "core/base/xalloc.h"
#include "analysis/watch/live_rates.h"

/* Counters fall when a process ends: then this interval is not known. */
static double grown(double now, double before) { return now > before ? now - before : 0; }

static bool is_together(const struct capo_live_rate *a, const struct capo_live_rate *b)
{
        return a->row && a->share > 0 && !strcmp(a->row->comm, b->row->comm);
}

/* Estimated from sampled calls, the times of one communicator can add up to more than there was. */
static void limit_shares(struct capo_live_rates *rates)
{
        for (uint32_t i = 0; i < rates->n; i++) {
                const struct capo_live_rate *r = &rates->rate[i];
                double sum = 0;

                for (uint32_t k = 0; r->row && k < rates->n; k++)
                        sum += is_together(&rates->rate[k], r) ? rates->rate[k].share : 0;
                for (uint32_t k = 0; sum > 1 && k < rates->n; k++)
                        rates->rate[k].share /= is_together(&rates->rate[k], r) ? sum : 1;
        }
}

void capo_live_rates_update(struct capo_live_rates *rates, const struct capo_live_rows *rows,
                            uint64_t begin_ns, uint64_t now_ns, uint32_t ranks)
{
        uint64_t since = rates->before_ns ? rates->before_ns : begin_ns;
        double s = now_ns > since ? (double)(now_ns - since) / 1e9 : 0;

        rates->before = xrealloc(rates->before, (rows->n + 1) * sizeof *rates->before);
        rates->rate = xrealloc(rates->rate, (rows->n + 1) * sizeof *rates->rate);
        for (; rates->n < rows->n; rates->n++) {
                rates->before[rates->n] = (struct capo_live_before){0};
                rates->rate[rates->n] = (struct capo_live_rate){.share = -1};
        }
        for (uint32_t i = 0; i < rows->n; i++) {
                const struct capo_live_row *row = &rows->row[i];
                struct capo_live_rate *r = &rates->rate[i];
                struct capo_live_before *b = &rates->before[i];

                r->row = row;
                if (s <= 0)
                        continue;
                r->calls_s = grown((double)row->calls, (double)b->calls) / s;
                r->bytes_s = grown((double)row->bytes, (double)b->bytes) / s;
                r->share = row->gpu.count && ranks
                                   ? fmin(1, grown(row->total_ns, b->total_ns) / 1e9 / s / ranks)
                                   : -1;
                r->p50_ns = capo_hist_quantile(&row->gpu, 0.5);
                *b = (struct capo_live_before){row->calls, row->bytes, row->total_ns};
        }
        limit_shares(rates);
        if (s > 0)
                rates->before_ns = now_ns;
}

void capo_live_rates_finish(struct capo_live_rates *rates)
{
        free(rates->rate);
        free(rates->before);
        *rates = (struct capo_live_rates){0};
}
