/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <criterion/criterion.h>

#include "core/base/markup.h"

Test(markup, entities)
{
        char *text = NULL;
        size_t n;
        FILE *out = open_memstream(&text, &n);

        capo_markup_text(out, "a < b && c > \"d\" 'e' \xc3\xa9");
        capo_markup_text(out, "");
        fclose(out);
        cr_assert_str_eq(text, "a &lt; b &amp;&amp; c &gt; &quot;d&quot; 'e' \xc3\xa9");
        free(text);
}

Test(markup, cells)
{
        static const struct {
                const char *text, *cell;
        } rows[] = {
                {"plain", "plain"},
                {"", ""},
                {"a,b", "\"a,b\""},
                {"say \"a\"", "\"say \"\"a\"\"\""},
                {"two\nlines", "\"two\nlines\""},
                {"=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"},
                {"+1", "'+1"},
                {"-2+3", "'-2+3"},
                {"@SUM(1,2)", "\"'@SUM(1,2)\""},
                {"a=b", "a=b"},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                char *text = NULL;
                size_t n;
                FILE *out = open_memstream(&text, &n);

                capo_markup_csv(out, rows[i].text);
                fclose(out);
                cr_expect_str_eq(text, rows[i].cell);
                free(text);
        }
}
