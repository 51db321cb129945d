/* SPDX-License-Identifier: Apache-2.0 */
/* Robust statistics of a few numbers. Callers pass logarithms of times, because noise is a fraction
 * of the time, not a number of microseconds. */
#pragma once

#include <stddef.h>

/** capo_median() - reorders @v; NAN when n is 0. */
double capo_median(double *v, size_t n);

/** capo_spread() - 1.4826 x median |v - center|: for normal noise the standard deviation, but a few
 * outliers do not move it
 * @scratch: n numbers
 *
 * Return: 0 for n < 2. */
double capo_spread(const double *v, size_t n, double center, double *scratch);

/** capo_median_se() - standard error of the median of the @n numbers @sorted. From 8 numbers on
 * from order statistics (the binomial interval of the median, which assumes no shape). Below,
 * 1.2533 s / sqrt(n) from the spread s, as for normal noise. 0 for n < 2. */
double capo_median_se(const double *sorted, size_t n, double *scratch);

/** capo_quantile_t() - two-sided Student quantile: P(|T| <= q) = 1 - alpha
 *
 * Exact for whole @freedom below 20 (Abramowitz and Stegun 26.7.3, 26.7.4), within 0.5 % between
 * them. From 20 on the expansion around the normal quantile (26.7.5, three terms), within 0.1 % for
 * @alpha from 1e-4. @freedom below 1 counts as 1. @alpha must be above 1e-9: below, rounding loses
 * the exact tail. */
double capo_quantile_t(double alpha, double freedom);
