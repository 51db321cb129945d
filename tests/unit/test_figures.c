/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people read them, at the borders between two ways to write them. */
#include <math.h>
#include <criterion/criterion.h>

#include "analysis/job/figures.h"

static char text[32];

Test(figures, count)
{
        cr_assert_str_eq(capo_text_count(0, text), "0");
        cr_assert_str_eq(capo_text_count(999, text), "999");
        cr_assert_str_eq(capo_text_count(1000, text), "1,000");
        cr_assert_str_eq(capo_text_count(1204816, text), "1,204,816");
        cr_assert_str_eq(capo_text_count(UINT64_MAX, text), "18,446,744,073,709,551,615");
}

Test(figures, rates_have_three_digits_that_count)
{
        cr_assert_str_eq(capo_text_gbs(0.04, text), "0.04");
        cr_assert_str_eq(capo_text_gbs(0.001, text), "0.001");
        cr_assert_str_eq(capo_text_gbs(0.00099, text), "<0.001");
        cr_assert_str_eq(capo_text_gbs(9.994, text), "9.99");
        cr_assert_str_eq(capo_text_gbs(9.996, text), "10.0");
        cr_assert_str_eq(capo_text_gbs(99.94, text), "99.9");
        cr_assert_str_eq(capo_text_gbs(99.96, text), "100");
        cr_assert_str_eq(capo_text_gbs(1311.4, text), "1,311");
        cr_assert_str_eq(capo_text_gbs(-1, text), "-");
        cr_assert_str_eq(capo_text_gbs(NAN, text), "-");
        cr_assert_str_eq(capo_text_gbs(1e22, text), "1e+22");
        cr_assert_str_eq(capo_text_gbs(242.4, text), "242");
        cr_assert_str_eq(capo_text_gbs(0.08, text), "0.08");
        cr_assert_str_eq(capo_text_gbs(0.0042, text), "0.0042");
        cr_assert_str_eq(capo_text_gbs(0.0131, text), "0.013");
        cr_assert_str_eq(capo_text_gbs(0.0949, text), "0.095");
        cr_assert_str_eq(capo_text_gbs(0.095, text), "0.10");
        cr_assert_str_eq(capo_text_gbs(0, text), "0.00");
}

Test(figures, time_in_the_unit_that_suits)
{
        static const struct {
                double ns;
                const char *text;
        } table[] = {
                {0, "0 ns"},
                {999.4, "999 ns"},
                {999.5, "1.0 us"},
                {999.6, "1.0 us"},
                {9949, "9.9 us"},
                {9950, "10 us"},
                {9951, "10 us"},
                {999.4e3, "999 us"},
                {999.5e3, "1.0 ms"},
                {999.6e3, "1.0 ms"},
                {99.4e6, "99.4 ms"},
                {99.5e6, "100 ms"},
                {99.6e6, "100 ms"},
                {999.4e6, "999 ms"},
                {999.5e6, "1.0 s"},
                {999.6e6, "1.0 s"},
                {119.4e9, "119.4 s"},
                {119.5e9, "2 min 00 s"},
                {119.6e9, "2 min 00 s"},
                {2538e9, "42 min 18 s"},
                {7199.4e9, "119 min 59 s"},
                {7199.5e9, "2 h 00 min"},
                {7199.6e9, "2 h 00 min"},
                {11100e9, "3 h 05 min"},
                {1e18 - 1e12, "277777 h 30 min"},
                {1e18, "1e+09 s"},
                {-1, "-"},
                {INFINITY, "-"},
        };

        for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
                cr_assert_str_eq(capo_text_time(table[i].ns, text), table[i].text, "%g: %s",
                                 table[i].ns, text);
}

Test(figures, percent)
{
        cr_assert_str_eq(capo_text_percent(0.6123, text), "61.2 %");
        cr_assert_str_eq(capo_text_percent(1, text), "100.0 %");
        cr_assert_str_eq(capo_text_percent(0.01, text), "1.0 %");
        cr_assert_str_eq(capo_text_percent(0.005, text), "0.5 %");
        cr_assert_str_eq(capo_text_percent(0.00002, text), "0.002 %");
        cr_assert_str_eq(capo_text_percent(2e-11, text), "0.000000002 %");
        cr_assert_str_eq(capo_text_percent(5e-12, text), "0.0 %");
        cr_assert_str_eq(capo_text_percent(0, text), "0.0 %");
        cr_assert_str_eq(capo_text_percent(-0.1, text), "-");
}

Test(figures, durations_have_three_digits_and_a_unit)
{
        static const struct {
                double ns;
                const char *text;
        } table[] = {
                {0, "0 ns"},           {611.4, "611 ns"},   {999.4, "999 ns"},
                {999.6, "1.00 us"},    {5517e3, "5.52 ms"}, {43013e3, "43.0 ms"},
                {9.996e6, "10.0 ms"},  {999.6e6, "1.00 s"}, {119.4e9, "119 s"},
                {120e9, "2 min 00 s"}, {-1, "-"},           {NAN, "-"},
        };

        for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
                cr_assert_str_eq(capo_text_duration(table[i].ns, text), table[i].text, "%g: %s",
                                 table[i].ns, text);
}

Test(figures, plural)
{
        cr_assert_str_eq(capo_text_plural(0, "rule", NULL), "0 rules");
        cr_assert_str_eq(capo_text_plural(1, "rule", NULL), "1 rule");
        cr_assert_str_eq(capo_text_plural(1200, "rule", NULL), "1,200 rules");
        cr_assert_str_eq(capo_text_plural(2, "process", "processes"), "2 processes");
}
