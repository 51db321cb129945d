/* SPDX-License-Identifier: Apache-2.0 */
/* How long steps take, and whether that changed. */
#include <math.h>

#include "analysis/steps/steps_parts.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"

/* Limits for a change: steps on each side, size, and probability of chance. */
enum { LEAST_SIDE = 5 };
enum { LEAST_RECENT = 8 }; /* steps */
#define RECENT_NS    120000000000
#define LEAST_CHANGE 0.05
#define CHANCE       0.001

struct time_of {
        double ns;
        uint32_t step;
};

CAPO_ORDERED(by_time, struct time_of, CAPO_ORDER(a->ns, b->ns));

/* Quantile @q of @n times, sorted in @copy. */
static double quantile_of(const struct time_of *times, uint32_t n, double q, struct time_of *copy)
{
        double at = q * (n - 1);
        uint32_t low = (uint32_t)at, high = low + 1 < n ? low + 1 : low;

        memcpy(copy, times, n * sizeof *copy);
        qsort(copy, n, sizeof *copy, by_time);
        return copy[low].ns + (at - low) * (copy[high].ns - copy[low].ns);
}

/* Pettitt's test (A. N. Pettitt, Applied Statistics 28, 1979): with ranks r_i of the times, K = max
 * |2 sum_(i<=k) r_i - k (n + 1)|, and p = 2 exp(-6 K^2 / (n^3 + n^2)). Only the ranks of lengths
 * count, so one stalled step is no change. Return: k; 0: none. */
static uint32_t find_change(const struct time_of *times, uint32_t n, struct time_of *copy,
                            double *rank)
{
        double sum = 0, largest = 0, all = n;
        uint32_t at = 0;

        for (uint32_t i = 0; i < n; i++)
                copy[i] = (struct time_of){.ns = times[i].ns, .step = i};
        qsort(copy, n, sizeof *copy, by_time);
        for (uint32_t i = 0, end; i < n; i = end) { /* equal times share a rank */
                for (end = i + 1; end < n && copy[end].ns == copy[i].ns;)
                        end++;
                for (uint32_t k = i; k < end; k++)
                        rank[copy[k].step] = (i + end + 1) / 2.0;
        }
        for (uint32_t k = 1; k < n; k++) {
                double u;

                sum += rank[k - 1];
                u = fabs(2 * sum - k * (all + 1));
                if (u > largest) {
                        largest = u;
                        at = k;
                }
        }
        if (2 * exp(-6 * largest * largest / (all * all * all + all * all)) > CHANCE)
                return 0;
        return at >= LEAST_SIDE && at + LEAST_SIDE <= n ? at : 0;
}

void step_times(struct capo_steps *s)
{
        _cleanup_free_ struct time_of *times = xcalloc(s->n + 1, sizeof *times);
        _cleanup_free_ struct time_of *copy = xcalloc(s->n + 1, sizeof *copy);
        _cleanup_free_ double *rank = xcalloc(s->n + 1, sizeof *rank);
        uint32_t n = 0, k, quarter;
        double squares = 0;

        for (uint32_t i = 0; i < s->n; i++) {
                if (s->step[i].plain) {
                        s->mean_ns += (double)s->step[i].ns;
                        squares += (double)s->step[i].ns * (double)s->step[i].ns;
                        times[n++] = (struct time_of){.ns = (double)s->step[i].ns, .step = i};
                }
        }
        s->n_plain = n;
        if (!n)
                return;
        s->mean_ns /= n;
        s->mean_error_ns = sqrt(fmax(0, squares / n - s->mean_ns * s->mean_ns) / n);
        s->p50_ns = quantile_of(times, n, 0.5, copy);
        s->p95_ns = quantile_of(times, n, 0.95, copy);
        for (k = n; k > 0 && (n - k < LEAST_RECENT || s->step[times[k - 1].step].t_ns + RECENT_NS >=
                                                              s->step[s->n - 1].t_ns);)
                k--;
        s->recent_p50_ns = quantile_of(times + k, n - k, 0.5, copy);
        s->recent_p95_ns = quantile_of(times + k, n - k, 0.95, copy);
        quarter = n / 4;
        if (quarter) {
                double early = quantile_of(times, quarter, 0.5, copy);

                s->drift =
                        early > 0 ? quantile_of(times + n - quarter, quarter, 0.5, copy) / early - 1
                                  : 0;
        }
        k = find_change(times, n, copy, rank);
        if (!k)
                return;
        s->before_ns = quantile_of(times, k, 0.5, copy);
        s->after_ns = quantile_of(times + k, n - k, 0.5, copy);
        if (fabs(s->after_ns - s->before_ns) >= LEAST_CHANGE * s->before_ns)
                s->changed = times[k].step;
        else
                s->before_ns = s->after_ns = 0;
}
