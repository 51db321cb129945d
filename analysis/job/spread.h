/* SPDX-License-Identifier: Apache-2.0 */
/* Robust statistics of a few numbers. Logarithms of times throughout: noise is a fraction, not so
 * many microseconds. */
#ifndef CAPO_SPREAD_H
#define CAPO_SPREAD_H

#include <stddef.h>

/** capo_median() - of @v, which is reordered; NAN for n 0. */
double capo_median(double *v, size_t n);

/** capo_spread() - 1.4826 x median |v - center|: the standard deviation, were it normal; not moved
 * by a few outliers.
 * @scratch: n numbers. 0 for n < 2. */
double capo_spread(const double *v, size_t n, double center, double *scratch);

/**
 * capo_median_se() - standard error of the median of @v (sorted)
 *
 * From 8 numbers on by order statistics (the binomial interval of the median, which assumes no
 * shape); below, from the spread, 1.2533 s / sqrt(n), which is what normal noise gives. 0 for n
 * < 2.
 */
double capo_median_se(const double *sorted, size_t n, double *scratch);

/** capo_quantile_t() - two-sided Student quantile: P(|T| <= q) = 1 - alpha
 *
 * Exact for whole @freedom below 20 (Abramowitz and Stegun 26.7.3, 26.7.4), between them within 0.5
 * %; from 20 on by the expansion around the normal quantile (26.7.5, three terms), within 0.1 % for
 * @alpha from 1e-4. Less than 1 counts as 1.
 * @alpha above 1e-9: below, the exact tail is lost in rounding. */
double capo_quantile_t(double alpha, double freedom);

#endif
