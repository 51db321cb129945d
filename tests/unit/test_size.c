/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/size.h"
#include "core/base/util.h"
#include "tests/unit/comma.h"

Test(size, parse)
{
        static const struct {
                const char *text;
                int r;
                uint64_t bytes;
        } rows[] = {
                {"0", 0, 0},
                {"17", 0, 17},
                {"8B", 0, 8},
                {"1K", 0, 1024},
                {"1k", 0, 1024},
                {"25MiB", 0, 25ull << 20},
                {"4G", 0, 4ull << 30},
                {"1.5M", 0, 3ull << 19},
                {"4294967296", 0, 4294967296ull},
                {"18446744073709551615", 0, UINT64_MAX},
                {"max", 0, UINT64_MAX},
                {"18446744073709551616", -ERANGE, 0},
                {"99999999T", -ERANGE, 0},
                {"", -EINVAL, 0},
                {"-1", -EINVAL, 0},
                {"1X", -EINVAL, 0},
                {"1Kx", -EINVAL, 0},
                {"1kib", 0, 1024},
                {"1KB", 0, 1024},
                {"1Ki", -EINVAL, 0},
                {"1Kxb", -EINVAL, 0},
                {"1Kib1", -EINVAL, 0},
                {"1ib", -EINVAL, 0},
                {"17179869183G", 0, 17179869183ull << 30},
                {"17179869184G", -ERANGE, 0},
                {"17179869183.5G", 0, UINT64_MAX - (1ull << 29) + 1},
                {"17179869184.5G", -ERANGE, 0},
                {"0.5", 0, 1},
                {"0.4", 0, 0},
                {"8.1 KiB", 0, 8294},
                {"900 B", 0, 900},
                {"1 ", -EINVAL, 0},
                {"1  K", -EINVAL, 0},
                {"1 2", -EINVAL, 0},
                {"K", -EINVAL, 0},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                uint64_t v = 0;

                cr_assert_eq(capo_size_parse(rows[i].text, &v), rows[i].r, "\"%s\"", rows[i].text);
                cr_assert_eq(v, rows[i].bytes, "\"%s\" gave %lu", rows[i].text, v);
        }
}

Test(size, digits_without_end)
{
        static const struct {
                const char *begin;
                char digit;
                uint64_t bytes;
        } rows[] = {{"2.", '4', 2503}, {"0.", '9', 1024}, {"3.", '0', 3072}};
        char text[512];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                uint64_t v = 0;

                memset(text, rows[i].digit,
                       sizeof text); /* a power of ten of more than 308 of them is infinity */
                memcpy(text, rows[i].begin, 2);
                memcpy(text + sizeof text - 2, "K", 2);
                cr_assert_eq(capo_size_parse(text, &v), 0);
                cr_assert_eq(v, rows[i].bytes, "%s%c... gave %lu", rows[i].begin, rows[i].digit, v);
        }
}

Test(size, ranges)
{
        static const struct {
                const char *text;
                int r;
                uint64_t from, to;
        } rows[] = {
                {"37.5K", 0, 38400, 38400},
                {"1-1.9 MiB", 0, 1 << 20, 1992294},
                {"900 B-1 KiB", 0, 900, 1024},
                {"4K-1M", 0, 4096, 1 << 20},
                {"100-200", 0, 100, 200},
                {"1 KiB-1 KiB", 0, 1024, 1024},
                {"1-max", -EINVAL, 0, 0},
                {"2 MiB-1 MiB", -EINVAL, 0, 0},
                {"-1", -EINVAL, 0, 0},
                {"1-", -EINVAL, 0, 0},
                {"1-2-3", -EINVAL, 0, 0},
                {"1-99999999T", -ERANGE, 0, 0},
                {"17.5 PiB", 0, 35ull << 49, 35ull << 49},
                {"1 EiB", 0, 1ull << 60, 1ull << 60},
                {"16 EiB", -ERANGE, 0, 0},
                {"", -EINVAL, 0, 0},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                uint64_t from = 0, to = 0;

                cr_expect_eq(capo_size_range(rows[i].text, &from, &to), rows[i].r, "\"%s\"",
                             rows[i].text);
                cr_expect(from == rows[i].from && to == rows[i].to, "\"%s\" gave %lu-%lu",
                          rows[i].text, from, to);
        }
}

Test(size, print)
{
        char t[32];

        cr_assert_str_eq(capo_size_print(0, t, sizeof t), "0 B");
        cr_assert_str_eq(capo_size_print(900, t, sizeof t), "900 B");
        cr_assert_str_eq(capo_size_print(1023, t, sizeof t), "1023 B");
        cr_assert_str_eq(capo_size_print(1024, t, sizeof t), "1 KiB");
        cr_assert_str_eq(capo_size_print(1536, t, sizeof t), "1.5 KiB");
        cr_assert_str_eq(capo_size_print(99 * 1024 + 512, t, sizeof t), "99.5 KiB");
        cr_assert_str_eq(capo_size_print(100 * 1024 + 256, t, sizeof t), "100 KiB");
        cr_assert_str_eq(capo_size_print(1 << 20, t, sizeof t), "1 MiB");
        cr_assert_str_eq(capo_size_print(25 << 20, t, sizeof t), "25 MiB");
        cr_assert_str_eq(capo_size_print(3 << 19, t, sizeof t), "1.5 MiB");
        cr_assert_str_eq(capo_size_print(UINT64_MAX, t, sizeof t), "16 EiB");
}

Test(size, does_not_depend_on_the_locale)
{
        static const char *const texts[] = {"1.5M", "0.25 KiB", "37.5K", "1.999 GiB"};
        static const uint64_t bytes[] = {1572864, 256, 38400, 2146409906};
        uint64_t out;

        comma_locale();
        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                cr_expect_eq(capo_size_parse(texts[i], &out), 0, "%s", texts[i]);
                cr_expect_eq(out, bytes[i], "%s is %llu", texts[i], (unsigned long long)out);
        }
        cr_expect_eq(capo_size_parse("1,5M", &out), -EINVAL);
        cr_expect_eq(capo_size_parse("1.5e3", &out), -EINVAL);
}
