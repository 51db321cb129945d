/* SPDX-License-Identifier: Apache-2.0 */
/* The element that would be at a place, found without sorting, is the one that sorting finds. */
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/order.h"

enum { MOST = 200 };

static uint64_t noise = 1;

static unsigned draw(unsigned below)
{
        noise = noise * 6364136223846793005u + 1442695040888963407u;
        return (unsigned)(noise >> 33) % below;
}

static void check_all(const double *v, size_t n)
{
        double sorted[MOST], moved[MOST];

        memcpy(sorted, v, n * sizeof *v);
        qsort(sorted, n, sizeof *sorted, capo_order_double);
        for (size_t k = 0; k < n; k++) {
                memcpy(moved, v, n * sizeof *v);
                cr_assert_eq(capo_nth(moved, n, k), sorted[k], "%zu of %zu", k, n);
                qsort(moved, n, sizeof *moved, capo_order_double);
                cr_assert_eq(memcmp(moved, sorted, n * sizeof *v), 0, "the same numbers");
        }
}

Test(order, nth_is_what_sorting_finds)
{
        for (size_t n = 1; n <= 40; n++) {
                double v[MOST];

                for (unsigned kinds = 1; kinds <= 1000; kinds *= 10) { /* 1: all are equal */
                        for (size_t i = 0; i < n; i++)
                                v[i] = draw(kinds);
                        check_all(v, n);
                }
                for (size_t i = 0; i < n; i++)
                        v[i] = (double)i;
                check_all(v, n);
                for (size_t i = 0; i < n; i++)
                        v[i] = -(double)i;
                check_all(v, n);
        }
}

/* Each pivot is the least of its part: the median is found by sorting in the end. */
Test(order, numbers_against_it)
{
        double v[MOST];
        int place[MOST];

        for (int i = 0; i < MOST; i++)
                place[i] = i;
        for (int i = 0; i < MOST; i++) { /* as capo_nth() moves them */
                int middle = i + (MOST - 1 - i) / 2, other = place[i];

                v[place[middle]] = i;
                place[i] = place[middle];
                place[middle] = other;
        }
        check_all(v, MOST);
}

Test(order, middle)
{
        cr_expect_eq(capo_middle((double[]){3, 1, 2}, 3), 2);
        cr_expect_eq(capo_middle((double[]){4, 3, 1, 2}, 4), 2, "the lower of the two");
        cr_expect_eq(capo_middle((double[]){7}, 1), 7);
        cr_expect_eq(capo_middle(NULL, 0), 0);
}
