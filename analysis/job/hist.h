/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms of durations with the buckets of the log (include/capo/log.h: 16 per power of two),
 * merged over ranks. Count, sum, extremes and squares are exact. A quantile is interpolated inside
 * its bucket, so its error is at most the bucket's width: 1/16 of the value. */
#pragma once

#include "analysis/log/log_read.h"

/* All zero is an empty histogram. */
struct capo_hist {
        uint64_t count, sum_ns, min_ns, max_ns;
        double sum_sq;    /* of ns */
        unsigned first;   /* bucket[i] counts bucket first + i ... */
        unsigned n;       /* ... of this many kept */
        uint64_t *bucket; /* owned */
};

void capo_hist_finish(struct capo_hist *h);

/** capo_hist_add() - one value, counted @times. */
void capo_hist_add(struct capo_hist *h, uint64_t ns, uint64_t times);

/** capo_hist_add_view() - add a histogram of a log; buckets beyond the last one count in the last. */
void capo_hist_add_view(struct capo_hist *h, const struct capo_log_hist_view *view);

/** capo_hist_merge() - add @from to @h. */
void capo_hist_merge(struct capo_hist *h, const struct capo_hist *from);

/** capo_hist_quantile() - the ns that a share @q (0..1) is below, in [min, max]; 0: no values. */
double capo_hist_quantile(const struct capo_hist *h, double q);

/** capo_hist_quantile_of() - the same with weights: values that are also in @once (a subset of @h)
 * count once, the others @weight (> 0) times. */
double capo_hist_quantile_of(const struct capo_hist *h, const struct capo_hist *once, double weight,
                             double q);

/** capo_hist_mean() in ns; capo_hist_cov(): standard deviation over mean. 0 when empty. */
double capo_hist_mean(const struct capo_hist *h);
double capo_hist_cov(const struct capo_hist *h);
