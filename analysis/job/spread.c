/* SPDX-License-Identifier: Apache-2.0 */
/* Medians throughout, because one stall in fifty calls must not decide a rule. */
#include <math.h>

#include "analysis/job/spread.h"
#include "core/base/order.h"

double capo_median(double *v, size_t n)
{
        double below;

        if (n == 0)
                return NAN;
        capo_nth(v, n, n / 2);
        if (n % 2)
                return v[n / 2];
        below = v[0];
        for (size_t i = 1; i < n / 2; i++)
                below = fmax(below, v[i]);
        return (below + v[n / 2]) / 2;
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
        double middle;

        if (n < 2)
                return 0;
        if (n >= 8) {
                double half =
                        0.98 * sqrt((double)n); /* 1.96 standard deviations of Binomial(n, 1/2) */
                size_t lo = (size_t)fmax(0, floor((double)n / 2 - half));
                size_t hi = (size_t)fmin((double)n - 1, ceil((double)n / 2 + half));

                return (sorted[hi] - sorted[lo]) / (2 * 1.96);
        }
        middle = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
        return 1.2533 * capo_spread(sorted, n, middle, scratch) / sqrt((double)n);
}

/* Normal quantile of the upper tail p: Abramowitz and Stegun 26.2.23, then one Newton step. */
static double normal_quantile(double p)
{
        double t = sqrt(-2 * log(p));
        double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                               (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));

        z += (0.5 * erfc(z / M_SQRT2) - p) / (exp(-z * z / 2) / sqrt(2 * M_PI));
        return z;
}

/* P(|T| > t) for whole degrees of freedom: Abramowitz and Stegun 26.7.3 and 26.7.4. */
static double tail_probability(double t, int freedom)
{
        double angle = atan(t / sqrt(freedom)), c2 = cos(angle) * cos(angle), term = 1, sum = 0;

        for (int k = 2 + freedom % 2; k <= freedom; k += 2) {
                sum += term;
                term *= c2 * (k - 1) / k;
        }
        if (freedom % 2 == 0)
                return 1 - sin(angle) * sum;
        return 1 - (angle + sin(angle) * cos(angle) * sum) * M_2_PI;
}

static double exact_quantile(double alpha, int freedom)
{
        double lo = 0, hi = 1;

        while (tail_probability(hi, freedom) > alpha)
                hi *= 2;
        for (int i = 0; i < 50; i++) {
                double t = (lo + hi) / 2;

                if (tail_probability(t, freedom) > alpha)
                        lo = t;
                else
                        hi = t;
        }
        return hi;
}

double capo_quantile_t(double alpha, double freedom)
{
        double v = freedom < 1 ? 1 : freedom, z, z2;
        int whole = (int)fmin(v, 20);

        if (v < 20 && v - whole < 1e-9)
                return exact_quantile(alpha, whole);
        if (v < 20) { /* linear in 1 / freedom between the two whole neighbours */
                double a = exact_quantile(alpha, whole), b = exact_quantile(alpha, whole + 1);

                return b + (a - b) * (1 / v - 1.0 / (whole + 1)) * whole * (whole + 1);
        }
        z = normal_quantile(alpha / 2);
        z2 = z * z;
        return z * (1 + (z2 + 1) / (4 * v) + (z2 * (5 * z2 + 16) + 3) / (96 * v * v) +
                    (z2 * (z2 * (3 * z2 + 19) + 17) - 15) / (384 * v * v * v));
}
