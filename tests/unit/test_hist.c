/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms out of logs: what they hold, where a quantile lies, and that nothing is written
 * outside of the buckets. */
#include <math.h>
#include <stdlib.h>
#include <criterion/criterion.h>

#include "analysis/job/hist.h"

static struct capo_hist h;

static void end(void) { capo_hist_finish(&h); }

TestSuite(hist, .fini = end);

Test(hist, empty)
{
        cr_assert(capo_hist_quantile(&h, 0.5) == 0 && capo_hist_mean(&h) == 0 &&
                  capo_hist_cov(&h) == 0);
        capo_hist_add(&h, 5, 0);
        cr_assert(h.count == 0 && !h.bucket);
        capo_hist_merge(&h, &(struct capo_hist){0});
        cr_assert_null(h.bucket);
}

Test(hist, one_value_is_every_quantile)
{
        capo_hist_add(&h, 1000003, 7);
        for (unsigned i = 0; i <= 10; i++)
                cr_assert_eq(capo_hist_quantile(&h, i / 10.0), 1000003);
        cr_assert(capo_hist_mean(&h) == 1000003 && capo_hist_cov(&h) < 1e-6);
        cr_assert(h.n == 1 && h.bucket[0] == 7);
}

Test(hist, small_numbers_have_a_bucket_each)
{
        for (uint64_t v = 0; v < 16; v++)
                capo_hist_add(&h, v, v + 1);
        cr_assert(h.first == 0 && h.n == 16 && h.count == 136 && h.min_ns == 0 && h.max_ns == 15);
        for (unsigned v = 0; v < 16; v++)
                cr_assert_eq(h.bucket[v], v + 1);
        cr_assert_eq(h.sum_ns, 16 * 15 * 31 / 6 + 120);
}

Test(hist, it_grows_in_both_directions)
{
        capo_hist_add(&h, 1 << 20, 1);
        capo_hist_add(&h, 1 << 10, 2);
        capo_hist_add(&h, 1 << 30, 3);
        cr_assert(h.first == capo_hist_bucket(1 << 10) &&
                  h.n == capo_hist_bucket(1 << 30) - h.first + 1);
        cr_assert(h.bucket[0] == 2 && h.bucket[h.n - 1] == 3 &&
                  h.bucket[capo_hist_bucket(1 << 20) - h.first] == 1);
        cr_assert(h.min_ns == 1 << 10 && h.max_ns == 1 << 30 && h.count == 6);
}

/* Inside a bucket values are taken to lie evenly. */
Test(hist, quantiles_are_interpolated)
{
        unsigned b = capo_hist_bucket(1024);
        double low = (double)capo_hist_floor(b), width = (double)capo_hist_floor(b + 1) - low;

        capo_hist_add(&h, 1, 1);
        capo_hist_add(&h, 1024, 100);
        capo_hist_add(&h, 4096, 99);
        cr_assert_float_eq(capo_hist_quantile(&h, 51.0 / 200), low + width / 2, 1e-9);
        cr_assert_eq(capo_hist_quantile(&h, 0), 1);
        cr_assert_eq(capo_hist_quantile(&h, 1), 4096, "never beyond the largest");
}

Test(hist, mean_and_variation)
{
        capo_hist_add(&h, 1000, 1);
        capo_hist_add(&h, 3000, 1);
        cr_assert_eq(capo_hist_mean(&h), 2000);
        cr_assert_float_eq(capo_hist_cov(&h), 0.5, 1e-12);
}

Test(hist, of_a_log)
{
        const struct capo_log_hist_pair pairs[] = {{.bucket = 100, .count = 3},
                                                   {.bucket = 90, .count = 4},
                                                   {.bucket = 65535, .count = 5}};
        const struct capo_log_hist_view view = {.head = {.count = 12,
                                                         .sum_ns = 700,
                                                         .min_ns = 50,
                                                         .max_ns = 90,
                                                         .sum_sq = 41000,
                                                         .n = 3},
                                                .pairs = pairs};

        capo_hist_add_view(&h, &view);
        cr_assert(h.first == 90 && h.n == CAPO_HIST_BUCKETS - 90);
        cr_assert(h.bucket[0] == 4 && h.bucket[10] == 3 && h.bucket[h.n - 1] == 5,
                  "beyond the last counts in the last");
        cr_assert(h.count == 12 && h.sum_ns == 700 && h.min_ns == 50 && h.max_ns == 90 &&
                  h.sum_sq == 41000);
        capo_hist_add_view(
                &h, &(struct capo_log_hist_view){.head = {.count = 0, .n = 3}, .pairs = pairs});
        cr_assert_eq(h.count, 12);
}

Test(hist, calls_of_a_nanosecond_vary_too)
{
        capo_hist_add(&h, 0, 1);
        capo_hist_add(&h, 2, 1);
        cr_assert_float_eq(capo_hist_cov(&h), 1, 1e-9);
}

Test(hist, of_a_log_with_one_bucket)
{
        const struct capo_log_hist_pair pairs[] = {{.bucket = CAPO_HIST_BUCKETS - 1, .count = 5},
                                                   {.bucket = CAPO_HIST_BUCKETS, .count = 2}};

        for (uint32_t n = 1; n <= 2; n++) {
                const struct capo_log_hist_view view = {.head = {.count = 5, .n = n},
                                                        .pairs = pairs};

                capo_hist_add_view(&h, &view);
                cr_assert(h.first == CAPO_HIST_BUCKETS - 1 && h.n == 1, "%u and %u more", h.first,
                          h.n);
                cr_assert_eq(h.bucket[0], n == 1 ? 5 : 12);
        }
}
