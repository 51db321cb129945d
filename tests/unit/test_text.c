/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces behind one another, and what is cut off where there is no room. */
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
