/* SPDX-License-Identifier: Apache-2.0 */
/* Medians, because one stall in fifty must not decide a rule. */
#include <math.h>
#include <stdlib.h>

#include "profiles/job/spread.h"

static int rising(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

static double middle(const double *v, size_t n)
{
        return n == 0 ? NAN : n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double capo_median(double *v, size_t n)
{
        qsort(v, n, sizeof *v, rising);
        return middle(v, n);
}

double capo_spread(const double *v, size_t n, double center, double *scratch)
{
        if (n < 2)
                return 0;
        for (size_t i = 0; i < n; i++)
                scratch[i] = fabs(v[i] - center);
        return 1.4826 * capo_median(scratch, n);
}

double capo_median_se(const double *sorted, size_t n, double *scratch)
{
        if (n < 2)
                return 0;
        if (n >= 8) {
                double half = 0.98 * sqrt((double)n); /* 1.96 standard deviations of Binomial(n, 1/2) */
                size_t lo = (size_t)fmax(0, floor((double)n / 2 - half));
                size_t hi = (size_t)fmin((double)n - 1, ceil((double)n / 2 + half));

                return (sorted[hi] - sorted[lo]) / (2 * 1.96);
        }
        return 1.2533 * capo_spread(sorted, n, middle(sorted, n), scratch) / sqrt((double)n);
}

/* Normal quantile of the upper tail p: Abramowitz and Stegun 26.2.23, then one Newton step. */
static double upper(double p)
{
        double t = sqrt(-2 * log(p));
        double z =
                t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));

        z += (0.5 * erfc(z / M_SQRT2) - p) / (exp(-z * z / 2) / sqrt(2 * M_PI));
        return z;
}

double capo_quantile_t(double alpha, double freedom)
{
        if (freedom < 1.5) /* exactly, where the expansion is off */
                return 1 / tan(M_PI_2 * alpha);
        if (freedom < 2.5)
                return sqrt(2 / (alpha * (2 - alpha)) - 2);

        double z = upper(alpha / 2), z3 = z * z * z, z5 = z3 * z * z, v = freedom < 1 ? 1 : freedom;

        return z + (z3 + z) / (4 * v) + (5 * z5 + 16 * z3 + 3 * z) / (96 * v * v);
}
