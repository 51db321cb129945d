/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces behind one another, and what is cut off where there is no room. */
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/text.h"

Test(text, pieces)
{
        char text[16] = "";

        cr_assert_eq(capo_append(text, sizeof text, "%s %d", "rank", 3), text);
        cr_assert_str_eq(text, "rank 3");
        capo_append(text, sizeof text, "%s", "");
        capo_append(text, sizeof text, ", %u", 4u);
        cr_assert_str_eq(text, "rank 3, 4");
}

Test(text, what_does_not_fit_is_cut_off)
{
        char text[8] = "abcd\0 xx";

        capo_append(text, 7, "%s", "efgh");
        cr_assert_str_eq(text, "abcdef");
        cr_assert_eq(text[7], 'x', "what is behind its room is another's");
        capo_append(text, 7, "%s", "more");
        cr_assert_str_eq(text, "abcdef");
        *text = 0;
        capo_append(text, 1, "%d", 12);
        cr_assert_str_eq(text, "");
}

static char *printed(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *printed(const char *format, ...)
{
        va_list args;
        char *text;

        va_start(args, format);
        text = capo_print(format, args);
        va_end(args);
        return text;
}

Test(text, of_its_own)
{
        char *text = printed("%s:%0300d", "number", 7);

        cr_assert(text && strlen(text) == 307 && text[306] == '7');
        free(text);
        text = printed("%s", "");
        cr_assert_str_eq(text, "");
        free(text);
}

Test(text, when)
{
        char text[32] = "before";

        setenv("TZ", "UTC-2", 1);
        cr_assert_eq(capo_text_when(UINT64_C(1700000000999999999), "%Y-%m-%d %H:%M:%S", text),
                     text);
        cr_assert_str_eq(text, "2023-11-15 00:13:20");
        cr_assert_str_eq(capo_text_when(0, "%H:%M", text), "02:00");
}
