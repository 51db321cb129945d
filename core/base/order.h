/* SPDX-License-Identifier: Apache-2.0 */
/* What qsort() and bsearch() ask: which comes first. */
#pragma once

#include "core/base/util.h"

/* Below, like or above 0, as @a to @b. By several things: CAPO_ORDER(...) ?: CAPO_ORDER(...). */
#define CAPO_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* CAPO_ORDERED() - define @name for qsort() and bsearch(): the order of the items a and b, by the
 * first of up to seven comparisons that is not 0. */
#define CAPO_ORDERED(name, type, ...)                     \
        static int name(const void *one, const void *two) \
        {                                                 \
                const type *a = one, *b = two;            \
                                                          \
                return CAPO_FIRST(__VA_ARGS__);           \
        }                                                 \
        struct capo_ordered
#define CAPO_FIRST(...)                           CAPO_FIRST_N(__VA_ARGS__, 7, 6, 5, 4, 3, 2, 1)(__VA_ARGS__)
#define CAPO_FIRST_N(a, b, c, d, e, f, g, n, ...) CAPO_FIRST_##n
#define CAPO_FIRST_1(a)                           (a)
#define CAPO_FIRST_2(a, ...)                      ((a) ?: CAPO_FIRST_1(__VA_ARGS__))
#define CAPO_FIRST_3(a, ...)                      ((a) ?: CAPO_FIRST_2(__VA_ARGS__))
#define CAPO_FIRST_4(a, ...)                      ((a) ?: CAPO_FIRST_3(__VA_ARGS__))
#define CAPO_FIRST_5(a, ...)                      ((a) ?: CAPO_FIRST_4(__VA_ARGS__))
#define CAPO_FIRST_6(a, ...)                      ((a) ?: CAPO_FIRST_5(__VA_ARGS__))
#define CAPO_FIRST_7(a, ...)                      ((a) ?: CAPO_FIRST_6(__VA_ARGS__))

/** CAPO_SORT() - qsort() of @n items, which may be none: then @list may be NULL. */
#define CAPO_SORT(list, n, by) ((n) ? qsort(list, n, sizeof *(list), by) : (void)0)

static inline int capo_order_u64(const void *a, const void *b)
{
        return CAPO_ORDER(*(const uint64_t *)a, *(const uint64_t *)b);
}

static inline int capo_order_double(const void *a, const void *b)
{
        return CAPO_ORDER(*(const double *)a, *(const double *)b);
}

/** capo_nth() - what @v[k] would be if the @n of @v were sorted; reorders @v. Quickselect: time in
 * proportion to @n. Numbers that somebody has arranged against it are sorted after some rounds. */
static inline double capo_nth(double *v, size_t n, size_t k)
{
        ptrdiff_t low = 0, high = (ptrdiff_t)n - 1, at = (ptrdiff_t)k;

        for (unsigned rounds = 0; low < high; rounds++) {
                const double pivot = v[low + (high - low) / 2];
                ptrdiff_t i = low, j = high;

                if (rounds == 64) {
                        qsort(v + low, (size_t)(high - low + 1), sizeof *v, capo_order_double);
                        break;
                }
                while (i <= j) {
                        while (v[i] < pivot)
                                i++;
                        while (pivot < v[j])
                                j--;
                        if (i <= j) {
                                double other = v[i];

                                v[i++] = v[j];
                                v[j--] = other;
                        }
                }
                if (at > j && at < i) /* between the two parts: the pivot */
                        break;
                *(at <= j ? &high : &low) = at <= j ? j : i;
        }
        return v[k];
}

/** capo_middle() - reorders @v. Return: its median, the lower of two; 0 of none. */
static inline double capo_middle(double *v, size_t n)
{
        return n ? capo_nth(v, n, (n - 1) / 2) : 0;
}
