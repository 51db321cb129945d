/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of conditions: what is read, what is refused, and that what is printed reads back. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "core/base/util.h"
#include "core/profile/range.h"

static bool read_text(const char *text, enum capo_range_kind kind, struct capo_range *out)
{
        struct capo_json r;
        bool good;

        capo_json_init(&r, text, strlen(text), "f", NULL);
        good = capo_range_read(&r, kind, out) && capo_json_end(&r);
        capo_json_finish(&r);
        return good;
}

static const struct {
        enum capo_range_kind kind;
        const char *text;
        double min, max;     /* min < 0: refused */
        const char *printed; /* NULL: as it was, without quotes */
} rows[] = {
        {CAPO_RANGE_WHOLE, "4", 4, 4, NULL},
        {CAPO_RANGE_WHOLE, "\"4\"", 4, 4, NULL},
        {CAPO_RANGE_WHOLE, "0", 0, 0, NULL},
        {CAPO_RANGE_WHOLE, "\"4-8\"", 4, 8, NULL},
        {CAPO_RANGE_WHOLE, "\"16-\"", 16, INFINITY, NULL},
        {CAPO_RANGE_WHOLE, "\"-4\"", 0, 4, NULL},
        {CAPO_RANGE_WHOLE, "\"8-4\"", -1, 0, NULL},
        {CAPO_RANGE_WHOLE, "\"-\"", -1, 0, NULL},
        {CAPO_RANGE_WHOLE, "\"\"", -1, 0, NULL},
        {CAPO_RANGE_WHOLE, "1.5", -1, 0, NULL},
        {CAPO_RANGE_WHOLE, "\"1-2.5\"", -1, 0, NULL},
        {CAPO_RANGE_WHOLE, "-1", -1, 0, NULL},
        {CAPO_RANGE_WHOLE, "\"4-8-9\"", -1, 0, NULL},
        {CAPO_RANGE_WHOLE, "\"x\"", -1, 0, NULL},
        {CAPO_RANGE_WHOLE, "\"x-4\"", -1, 0, NULL},
        {CAPO_RANGE_WHOLE, "\"4-x\"", -1, 0, NULL},
        {CAPO_RANGE_WHOLE, "true", -1, 0, NULL},
        {CAPO_RANGE_GBS, "1.5", 1.5, 1.5, NULL},
        {CAPO_RANGE_GBS, "\"15-30.25\"", 15, 30.25, NULL},
        {CAPO_RANGE_GBS, "-0.5", -1, 0, NULL},
        {CAPO_RANGE_NCCL, "\"2.28\"", 22800, 22899, NULL},
        {CAPO_RANGE_NCCL, "\"2.28.9\"", 22809, 22809, NULL},
        {CAPO_RANGE_NCCL, "\"2.28.0\"", 22800, 22800, NULL},
        {CAPO_RANGE_NCCL, "\"2.28-2.30\"", 22800, 23099, NULL},
        {CAPO_RANGE_NCCL, "\"2.28.3-2.28.9\"", 22803, 22809, NULL},
        {CAPO_RANGE_NCCL, "\"2.28-2.28\"", 22800, 22899, "2.28"},
        {CAPO_RANGE_NCCL, "\"2.28-\"", 22800, INFINITY, NULL},
        {CAPO_RANGE_NCCL, "\"-2.27\"", 0, 22799, NULL},
        {CAPO_RANGE_NCCL, "\"2.30-2.28\"", -1, 0, NULL},
        {CAPO_RANGE_NCCL, "\"-\"", -1, 0, NULL},
        {CAPO_RANGE_NCCL, "\"\"", -1, 0, NULL},
        {CAPO_RANGE_NCCL, "\"2.28x\"", -1, 0, NULL},
        {CAPO_RANGE_NCCL, "\"2.28-x\"", -1, 0, NULL},
        {CAPO_RANGE_NCCL, "\"2.28-2.30-\"", -1, 0, NULL},
        {CAPO_RANGE_NCCL, "\"2\"", -1, 0, NULL},
        {CAPO_RANGE_NCCL, "2.28", -1, 0, NULL},
};

Test(range, reads_what_the_format_says_and_prints_it_back)
{
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_range v, again;
                char text[100], quoted[104], wanted[100] = "";
                bool quotes, good = read_text(rows[i].text, rows[i].kind, &v);

                cr_expect_eq(good, rows[i].min >= 0, "%s", rows[i].text);
                if (!good || rows[i].min < 0)
                        continue;
                cr_expect(v.min == rows[i].min && (v.max == rows[i].max), "%s: %g to %g",
                          rows[i].text, v.min, v.max);
                quotes = capo_range_print(rows[i].kind, v, text, sizeof text);
                if (rows[i].printed)
                        snprintf(wanted, sizeof wanted, "%s", rows[i].printed);
                else
                        snprintf(wanted, sizeof wanted, "%.*s",
                                 (int)strcspn(rows[i].text + (*rows[i].text == '"'), "\""),
                                 rows[i].text + (*rows[i].text == '"'));
                cr_expect_str_eq(text, wanted);
                cr_expect_eq(quotes, rows[i].kind == CAPO_RANGE_NCCL || v.min != v.max, "%s", text);
                snprintf(quoted, sizeof quoted, quotes ? "\"%s\"" : "%s", text);
                cr_expect(read_text(quoted, rows[i].kind, &again) && again.min == v.min &&
                                  again.max == v.max,
                          "%s", text);
        }
}

Test(range, any)
{
        cr_expect(capo_range_any(CAPO_ANY));
        cr_expect_not(capo_range_any((struct capo_range){0, 0}));
        cr_expect_not(capo_range_any((struct capo_range){0, INFINITY}));
}
