/* SPDX-License-Identifier: Apache-2.0 */
/* Medians, spreads and quantiles against numbers out of tables. */
#include <math.h>
#include <criterion/criterion.h>

#include "analysis/job/spread.h"

Test(spread, median)
{
        double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2}, one[] = {7};

        cr_assert_eq(capo_median(odd, 3), 5);
        cr_assert(odd[0] == 1 && odd[2] == 9, "sorted by the way");
        cr_assert_eq(capo_median(even, 4), 2.5);
        cr_assert_eq(capo_median(one, 1), 7);
        cr_assert(isnan(capo_median(one, 0)));
}

Test(spread, an_outlier_does_not_move_it)
{
        double v[] = {1, 2, 3, 4, 1000}, scratch[5];

        cr_assert_float_eq(capo_spread(v, 5, 3, scratch), 1.4826, 1e-12);
        cr_assert_eq(v[4], 1000, "the numbers stay as they are");
        cr_assert_eq(capo_spread(v, 1, 3, scratch), 0);
        cr_assert_float_eq(capo_spread(v, 2, 1.5, scratch), 1.4826 * 0.5, 1e-12);
}

Test(spread, standard_error_of_a_median)
{
        double few[] = {1, 2, 3, 4, 5, 6, 7}, many[100], eight[] = {1, 2, 3, 4, 5, 6, 7, 8},
               scratch[100];

        cr_assert_eq(capo_median_se(few, 1, scratch), 0);
        cr_assert_float_eq(capo_median_se(few, 7, scratch), 1.2533 * 1.4826 * 2 / sqrt(7), 1e-9);
        /* from eight on the order statistics: 4 -+ 0.98 sqrt(8) is 1.2 .. 6.8, so v[1] to v[7] */
        cr_assert_float_eq(capo_median_se(eight, 8, scratch), (8 - 2) / (2 * 1.96), 1e-9);
        for (int i = 0; i < 100; i++)
                many[i] = i;
        /* 50 -+ 9.8: v[40] to v[60] */
        cr_assert_float_eq(capo_median_se(many, 100, scratch), 20 / (2 * 1.96), 1e-9);
}

/* Two-sided Student quantiles, as every table has them. */
Test(spread, student)
{
        static const struct {
                double alpha, freedom, t;
        } table[] = {{0.05, 1e9, 1.95996}, {0.01, 1e9, 2.57583}, {0.05, 30, 2.04227},
                     {0.05, 10, 2.22814},  {0.05, 3, 3.18245},   {0.01, 10, 3.16927},
                     {0.1, 5, 2.01505},    {0.01, 3, 5.84091},   {0.01, 4, 4.60409},
                     {0.001, 3, 12.92398}, {0.001, 5, 6.86883},  {0.001, 20, 3.84952},
                     {0.05, 1, 12.70620},  {0.05, 2, 4.30265},   {0.001, 2, 31.59905}};

        for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
                double t = capo_quantile_t(table[i].alpha, table[i].freedom);

                cr_assert_float_eq(t, table[i].t, 0.001 * table[i].t, "%u: %g", i, t);
        }
        /* Freedom that is no whole number (Welch): the density, integrated */
        cr_assert_float_eq(capo_quantile_t(0.05, 3.5), 2.94009, 0.005 * 2.94009);
        cr_assert_eq(capo_quantile_t(0.05, 0.2), capo_quantile_t(0.05, 1),
                     "there is no less than one");
}

/* To the last digits: exactly below twenty degrees of freedom, by the series behind, which misses
 * what it says. */
Test(spread, student_to_the_last_digits)
{
        static const struct {
                double alpha, freedom, t, off;
        } table[] = {{0.05, 5, 2.570581836, 1e-9},    {0.05, 7, 2.364624252, 1e-9},
                     {0.2, 4, 1.533206274, 1e-9},     {0.01, 19, 2.860934606, 1e-9},
                     {0.5, 20, 0.686954496, 1e-7},    {0.1, 20, 1.724718243, 3e-6},
                     {0.05, 20, 2.085963447, 1.1e-5}, {0.01, 20, 2.845339710, 1e-4},
                     {0.001, 20, 3.849516275, 6e-4}};

        for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
                double t = capo_quantile_t(table[i].alpha, table[i].freedom);

                cr_expect_float_eq(t, table[i].t, table[i].off, "%u: %.9f", i, t);
        }
        /* between whole numbers straight in 1 / freedom */
        cr_expect_float_eq(capo_quantile_t(0.05, 4 / 0.9), 2.776445105 * 0.5 + 2.570581836 * 0.5,
                           1e-8);
        cr_expect_float_eq(capo_quantile_t(0.05, 19.999999), capo_quantile_t(0.05, 20), 2e-5);
}

Test(spread, medians_of_all_orders)
{
        for (unsigned n = 1; n <= 7; n++) {
                for (unsigned code = 0; code < 5040;
                     code++) { /* places of n numbers, some of them alike */
                        double v[7];
                        unsigned c = code, sorted[7], at = 0;

                        for (unsigned i = 0; i < n; i++, c /= 4)
                                v[i] = (double)(c % 4 * c % 7);
                        for (unsigned x = 0; x < 7; x++) {
                                for (unsigned i = 0; i < n; i++) {
                                        if (v[i] == x)
                                                sorted[at++] = x;
                                }
                        }
                        cr_assert_eq(capo_median(v, n), (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0,
                                     "%u: %u", n, code);
                }
        }
}

Test(spread, borders_of_the_order_statistics)
{
        double v[9], scratch[9];

        for (int i = 0; i < 9; i++)
                v[i] = i * i; /* 4.5 -+ 2.94: v[1] to v[8] */
        cr_expect_float_eq(capo_median_se(v, 9, scratch), (64 - 1) / (2 * 1.96), 1e-9);
        cr_expect_float_eq(capo_median_se(v, 2, scratch), 1.2533 * 1.4826 * 0.5 / sqrt(2), 1e-9);
        cr_expect_float_eq(capo_median_se((double[]){0, 1, 11, 12, 13, 14}, 6, scratch),
                           1.2533 * 1.4826 * 2 / sqrt(6), 1e-9);
}
