/* SPDX-License-Identifier: Apache-2.0 */
/* A 95 % interval, cut to the values that are possible. */
#pragma once

#include <math.h>
#include <stdbool.h>

struct capo_interval {
        double low, high;
};

/** capo_interval_within() - @value +- @pm, cut to 0..@most. */
static inline struct capo_interval capo_interval_within(double value, double pm, double most)
{
        return (struct capo_interval){fmax(0, value - pm), fmin(most, value + pm)};
}

/** capo_interval_pm() - the smallest x for which @value +- x covers the interval. */
static inline double capo_interval_pm(struct capo_interval i, double value)
{
        return fmax(0, fmax(value - i.low, i.high - value));
}

/** capo_interval_is_wide() - is it wider than half of 0..@most? Then the estimate says nothing. */
static inline bool capo_interval_is_wide(struct capo_interval i, double most)
{
        return i.high - i.low > most / 2;
}
