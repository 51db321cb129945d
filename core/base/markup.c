/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/markup.h"

void capo_markup_text(FILE *out, const char *text)
{
        for (; *text; text++) {
                switch (*text) {
                case '<': fputs("&lt;", out); break;
                case '>': fputs("&gt;", out); break;
                case '&': fputs("&amp;", out); break;
                case '"': fputs("&quot;", out); break;
                default: fputc(*text, out);
                }
        }
}
