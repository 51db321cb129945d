/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/markup.h"
#include "core/base/util.h"

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

void capo_markup_csv(FILE *out, const char *text)
{
        bool formula = *text && strchr("=+-@\t", *text), quotes = strpbrk(text, ",\"\n\r") != NULL;

        if (quotes)
                putc('"', out);
        if (formula)
                putc('\'', out);
        for (; *text; text++) {
                if (*text == '"')
                        putc('"', out);
                putc(*text, out);
        }
        if (quotes)
                putc('"', out);
}
