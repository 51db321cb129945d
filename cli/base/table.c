/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/table.h"
#include "core/base/util.h"

enum { MAX_COLUMNS = 32 };

struct capo_table {
        unsigned n_columns;
        bool right[MAX_COLUMNS], wide[MAX_COLUMNS];
        char **cells;
        size_t n_cells, room;
};

struct capo_table *capo_table_new(const char *columns)
{
        struct capo_table *t = calloc(1, sizeof *t);
        bool wide = false;

        for (; t && *columns && t->n_columns < MAX_COLUMNS; columns++) {
                if (*columns == ' ') {
                        wide = true;
                        continue;
                }
                t->right[t->n_columns] = *columns == 'r';
                t->wide[t->n_columns++] = wide;
                wide = false;
        }
        return t;
}

void capo_table_free(struct capo_table *t)
{
        if (!t)
                return;
        for (size_t i = 0; i < t->n_cells; i++)
                free(t->cells[i]);
        free(t->cells);
        free(t);
}

void capo_table_cell(struct capo_table *t, const char *format, ...)
{
        va_list args;
        char *text = NULL;

        if (t->n_cells == t->room) {
                size_t more = t->room ? 2 * t->room : 256;
                char **larger = realloc(t->cells, more * sizeof *larger);

                if (!larger)
                        return;
                t->cells = larger;
                t->room = more;
        }
        va_start(args, format);
        if (vasprintf(&text, format, args) < 0)
                text = NULL;
        va_end(args);
        t->cells[t->n_cells++] = text;
}

/* Columns on the screen: UTF-8 continuation bytes take none. */
static unsigned width(const char *text)
{
        unsigned n = 0;

        for (; text && *text; text++)
                n += (*text & 0xc0) != 0x80;
        return n;
}

void capo_table_print(const struct capo_table *t, FILE *out, unsigned n_bold, const char *bold, const char *plain)
{
        unsigned widths[MAX_COLUMNS] = {0}, in_row = 0;
        size_t blanks = 0;

        for (size_t i = 0; i < t->n_cells; i++) {
                unsigned w = width(t->cells[i]), *max = &widths[i % t->n_columns];

                *max = w > *max ? w : *max;
        }
        for (size_t i = 0; i < t->n_cells; i++) {
                unsigned c = (unsigned)(i % t->n_columns), w = width(t->cells[i]);

                if (c == 0 && i / t->n_columns < n_bold)
                        fputs(bold, out);
                blanks += (c ? 2 : 0) + (t->wide[c] ? 2 : 0) + (t->right[c] ? widths[c] - w : 0);
                if (w) {
                        fprintf(out, "%*s%s", (int)blanks, "", t->cells[i]);
                        blanks = 0;
                }
                blanks += t->right[c] ? 0 : widths[c] - w;
                if (++in_row == t->n_columns || i + 1 == t->n_cells) {
                        fprintf(out, "%s\n", i / t->n_columns < n_bold ? plain : "");
                        in_row = 0;
                        blanks = 0;
                }
        }
}

char *capo_text_count(uint64_t n, char *text)
{
        char digits[24];
        int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), at = 0;

        for (int i = 0; i < length; i++) {
                if (i && (length - i) % 3 == 0)
                        text[at++] = ',';
                text[at++] = digits[i];
        }
        text[at] = 0;
        return text;
}

/* Three digits that count, thousands separated. */
static char *three_digits(double v, char *text)
{
        if (!isfinite(v) || v < 0)
                return strcpy(text, "-");
        if (v < 9.995)
                snprintf(text, 32, "%.2f", v);
        else if (v < 99.95)
                snprintf(text, 32, "%.1f", v);
        else if (v < 1e18)
                capo_text_count((uint64_t)llround(v), text);
        else
                snprintf(text, 32, "%.3g", v);
        return text;
}

char *capo_text_us(double ns, char *text)
{
        return three_digits(ns / 1000, text);
}

char *capo_text_gbs(double gbs, char *text)
{
        return three_digits(gbs, text);
}

char *capo_text_time(double ns, char *text)
{
        double s = ns / 1e9;

        if (!isfinite(ns) || ns < 0)
                return strcpy(text, "-");
        if (ns < 999.5)
                snprintf(text, 32, "%.0f ns", ns);
        else if (ns < 9950)
                snprintf(text, 32, "%.1f us", ns / 1e3);
        else if (ns < 999.5e3)
                snprintf(text, 32, "%.0f us", ns / 1e3);
        else if (ns < 999.5e6)
                snprintf(text, 32, ns < 99.5e6 ? "%.1f ms" : "%.0f ms", ns / 1e6);
        else if (s < 119.5)
                snprintf(text, 32, "%.1f s", s);
        else if (s < 7199.5)
                snprintf(text, 32, "%d min %02d s", (int)(s + 0.5) / 60, (int)(s + 0.5) % 60);
        else if (s < 1e9)
                snprintf(text, 32, "%d h %02d min", (int)(s / 60 + 0.5) / 60, (int)(s / 60 + 0.5) % 60);
        else
                snprintf(text, 32, "%.3g s", s);
        return text;
}

char *capo_text_percent(double share, char *text)
{
        double p = 100 * share;

        if (!isfinite(p) || p < 0)
                return strcpy(text, "-");
        if (p >= 1 || p < 1e-9)
                snprintf(text, 32, "%.1f %%", p);
        else
                snprintf(text, 32, "%.*f %%", (int)-floor(log10(p)), p);
        return text;
}
