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
