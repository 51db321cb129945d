/* SPDX-License-Identifier: Apache-2.0 */
/* Only the buckets between the first and the last in use are kept: a job has thousands of
 * histograms, each a few dozen buckets wide. */
#include <math.h>

#include "core/base/xalloc.h"
#include "analysis/job/hist.h"

void capo_hist_finish(struct capo_hist *h)
{
        free(h->bucket);
        *h = (struct capo_hist){0};
}

/* Make room for buckets [first, last]. */
static void reserve_buckets(struct capo_hist *h, unsigned first, unsigned last)
{
        unsigned new_first, new_last;
        uint64_t *bucket;

        if (h->n && first >= h->first && last < h->first + h->n)
                return;
        new_first = h->n && h->first < first ? h->first : first;
        new_last = h->n && h->first + h->n - 1 > last ? h->first + h->n - 1 : last;
        bucket = xcalloc(new_last - new_first + 1, sizeof *bucket);
        if (h->n)
                memcpy(bucket + (h->first - new_first), h->bucket, h->n * sizeof *bucket);
        free(h->bucket);
        h->bucket = bucket;
        h->first = new_first;
        h->n = new_last - new_first + 1;
}

static void add_totals(struct capo_hist *h, uint64_t count, uint64_t sum_ns, uint64_t min_ns,
                       uint64_t max_ns, double sum_sq)
{
        if (!h->count || min_ns < h->min_ns)
                h->min_ns = min_ns;
        if (max_ns > h->max_ns)
                h->max_ns = max_ns;
        h->count += count;
        h->sum_ns += sum_ns;
        h->sum_sq += sum_sq;
}

void capo_hist_add(struct capo_hist *h, uint64_t ns, uint64_t times)
{
        unsigned b = capo_hist_bucket(ns);

        if (!times)
                return;
        reserve_buckets(h, b, b);
        h->bucket[b - h->first] += times;
        add_totals(h, times, ns * times, ns, ns, (double)ns * (double)ns * (double)times);
}

static unsigned bucket_of(const struct capo_log_hist_view *view, uint32_t i)
{
        uint32_t b = view->pairs[i].bucket;

        return b < CAPO_HIST_BUCKETS ? b : CAPO_HIST_BUCKETS - 1;
}

void capo_hist_add_view(struct capo_hist *h, const struct capo_log_hist_view *view)
{
        uint32_t n = view->head.n;

        if (!view->head.count || !n)
                return;
        /* the last one first: where buckets rise, as capo writes them, room is made twice at most */
        reserve_buckets(h, bucket_of(view, n - 1), bucket_of(view, n - 1));
        for (uint32_t i = 0; i < n; i++) {
                unsigned b = bucket_of(view, i);

                reserve_buckets(h, b, b);
                h->bucket[b - h->first] += view->pairs[i].count;
        }
        add_totals(h, view->head.count, view->head.sum_ns, view->head.min_ns, view->head.max_ns,
                   view->head.sum_sq);
}

void capo_hist_merge(struct capo_hist *h, const struct capo_hist *from)
{
        if (!from->count)
                return;
        reserve_buckets(h, from->first, from->first + from->n - 1);
        for (unsigned i = 0; i < from->n; i++)
                h->bucket[from->first + i - h->first] += from->bucket[i];
        add_totals(h, from->count, from->sum_ns, from->min_ns, from->max_ns, from->sum_sq);
}

double capo_hist_quantile(const struct capo_hist *h, double q)
{
        return capo_hist_quantile_of(h, &(struct capo_hist){0}, 1, q);
}

double capo_hist_quantile_of(const struct capo_hist *h, const struct capo_hist *once, double weight,
                             double q)
{
        double in_all = (double)once->count + weight * (double)(h->count - once->count),
               target = q * in_all;
        double before = 0, value = (double)h->max_ns;

        if (!h->count)
                return 0;
        for (unsigned i = 0; i < h->n; i++) {
                unsigned in = h->first + i - once->first; /* of fewer or no buckets */
                double alone = in < once->n ? (double)once->bucket[in] : 0,
                       here = alone + weight * ((double)h->bucket[i] - alone);

                if (here > 0 && before + here >= target) {
                        double floor_ns = (double)capo_hist_floor(h->first + i);
                        double width = (double)capo_hist_floor(h->first + i + 1) - floor_ns;

                        /* the last bucket also holds all larger values */
                        if (h->first + i == CAPO_HIST_BUCKETS - 1)
                                width = fmax(width, (double)h->max_ns - floor_ns);
                        value = floor_ns;
                        if (width > 1)
                                value += width * fmin(fmax((target - before) / here, 0), 1);
                        break;
                }
                before += here;
        }
        return fmin(fmax(value, (double)h->min_ns), (double)h->max_ns);
}

double capo_hist_mean(const struct capo_hist *h)
{
        return h->count ? (double)h->sum_ns / (double)h->count : 0;
}

double capo_hist_cov(const struct capo_hist *h)
{
        double mean = capo_hist_mean(h), variance;

        if (!h->count || mean <= 0)
                return 0;
        variance = h->sum_sq / (double)h->count - mean * mean;
        return variance > 0 ? sqrt(variance) / mean : 0;
}
