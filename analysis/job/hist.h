/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histograms of durations as the log has them (include/capo/log.h: 16 buckets per power of two),
 * put together over ranks. Counts, sum, extremes and squares are exact; a quantile is interpolated
 * inside its bucket, so it is off by at most the bucket's width: 1/16 of the value.
 */
#ifndef CAPO_HIST_H
#define CAPO_HIST_H

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

/** capo_hist_add() - one value, @times over. Return: 0; -ENOMEM: not added. */
int capo_hist_add(struct capo_hist *h, uint64_t ns, uint64_t times);

/** capo_hist_add_view() - a histogram out of a log; pairs beyond the last bucket count in the last.
 * Return: 0, -ENOMEM.
 */
int capo_hist_add_view(struct capo_hist *h, const struct capo_log_hist_view *view);

/** capo_hist_merge() - Return: 0, -ENOMEM. */
int capo_hist_merge(struct capo_hist *h, const struct capo_hist *from);

/** capo_hist_quantile() - ns below which a share @q (0..1) of the values lies, within [min, max]; 0
 * when empty. */
double capo_hist_quantile(const struct capo_hist *h, double q);

/** capo_hist_quantile_of() - the same where each value of @h but those that @once has as well
 * stands for @weight (> 0). */
double capo_hist_quantile_of(const struct capo_hist *h, const struct capo_hist *once, double weight,
                             double q);

/** capo_hist_mean(), capo_hist_cov() - ns; standard deviation over mean. 0 when empty. */
double capo_hist_mean(const struct capo_hist *h);
double capo_hist_cov(const struct capo_hist *h);

#endif
