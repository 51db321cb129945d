/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/table.h"
#include "core/base/array.h"

enum { MAX_COLUMNS = 32 };

struct capo_table {
        unsigned n_columns;
        bool right[MAX_COLUMNS], wide[MAX_COLUMNS];
        char **cells;
        size_t n_cells;
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

        if (capo_array_room(&t->cells, t->n_cells, sizeof *t->cells) < 0)
                return;
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
