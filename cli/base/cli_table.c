/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"

enum { MAX_COLUMNS = 1024, WORTH = 24, FOLDED = 16, LEAST = 8 };

struct column {
        unsigned before, fixed; /* blanks; width, 0: that of its widest cell */
        bool right, fold;
        char leaves; /* 'a' is dropped first; 0: never */
};

struct capo_table {
        unsigned n_columns;
        bool fixed; /* any column has a fixed width */
        struct column column[MAX_COLUMNS];
        char **cells;
        size_t n_cells;
};

/* The columns to print, and their widths. */
struct layout {
        unsigned width[MAX_COLUMNS];
        bool hidden[MAX_COLUMNS];
        unsigned columns; /* of the terminal; 0: any */
};

struct capo_table *capo_table_new(const char *columns)
{
        struct capo_table *t = xcalloc(1, sizeof *t);
        unsigned before = 0;

        while (*columns && t->n_columns < MAX_COLUMNS) {
                struct column *c = &t->column[t->n_columns];

                for (; strchr(" .,", *columns); columns++)
                        before += *columns == ' ' ? 2u : *columns == '.' ? -1u : 0;
                c->before = before;
                c->right = *columns++ == 'r';
                while (isdigit((unsigned char)*columns))
                        c->fixed = 10 * c->fixed + (unsigned)(*columns++ - '0');
                t->fixed |= c->fixed > 0;
                if (*columns == '~') {
                        c->fold = true;
                        columns++;
                }
                if (*columns == '/') {
                        c->leaves = columns[1];
                        columns += 2;
                }
                t->n_columns++;
                before = 2;
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

        va_start(args, format);
        *xadd(t->cells, t->n_cells) = capo_print(format, args);
        va_end(args);
}

void capo_table_row(struct capo_table *t, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        _cleanup_free_ char *text = capo_print(format, args);
        va_end(args);
        for (char *cell = text, *next; cell; cell = next ? next + 1 : NULL) {
                next = strchrnul(cell, '\t');
                *xadd(t->cells, t->n_cells) = xstrndup(cell, (size_t)(next - cell));
                next = *next ? next : NULL;
        }
        while (t->n_cells % t->n_columns)
                *xadd(t->cells, t->n_cells) = NULL;
}

/* End of the row that begins at @row, without dropped columns. */
static unsigned row_end(const struct capo_table *t, size_t row)
{
        unsigned n = t->n_cells - row < t->n_columns ? (unsigned)(t->n_cells - row) : t->n_columns;

        while (n && !t->cells[row + n - 1])
                n--;
        return n == 1 && !*t->cells[row] ? 0 : n;
}

static void measure_columns(const struct capo_table *t, struct layout *l)
{
        for (size_t row = 0; row < t->n_cells; row += t->n_columns) {
                unsigned n = row_end(t, row);

                for (unsigned c = 0; c < n; c++) {
                        unsigned w = cli_screen_width(t->cells[row + c]);

                        if (w > l->width[c] && (n == t->n_columns || c + 1 < n))
                                l->width[c] = w;
                }
        }
        for (unsigned c = 0; c < t->n_columns; c++) {
                if (t->column[c].fixed && (!l->columns || !t->column[c].before))
                        l->width[c] = t->column[c].fixed;
        }
}

static unsigned sum_widths(const struct capo_table *t, const struct layout *l,
                           const unsigned *width)
{
        unsigned n = 0;

        for (unsigned c = 0; c < t->n_columns; c++)
                n += l->hidden[c] ? 0 : t->column[c].before + width[c];
        return n;
}

/* Drop columns, the least important first, then shorten texts. */
static void fit_columns(const struct capo_table *t, struct layout *l)
{
        unsigned least[MAX_COLUMNS], total, most = 0;

        for (unsigned c = 0; c < t->n_columns; c++) {
                unsigned worth = t->column[c].fold ? FOLDED : WORTH;

                least[c] = !t->column[c].right && l->width[c] > worth ? worth : l->width[c];
        }
        while ((total = sum_widths(t, l, least)) > l->columns) {
                int next = -1;

                for (unsigned c = 0; c < t->n_columns; c++) {
                        if (t->column[c].leaves && !l->hidden[c] &&
                            (next < 0 || t->column[c].leaves < t->column[next].leaves))
                                next = (int)c;
                }
                if (next < 0)
                        break;
                l->hidden[next] = true;
        }
        for (; total > l->columns; total--) { /* still too wide: shorten the widest texts */
                int widest = -1;

                for (unsigned c = 0; c < t->n_columns; c++) {
                        if (!l->hidden[c] && least[c] > LEAST &&
                            (widest < 0 || least[c] > least[widest]))
                                widest = (int)c;
                }
                if (widest < 0)
                        break;
                least[widest]--;
        }
        for (unsigned pass = 0; pass < 2;
             pass++) { /* distribute the rest: names first, then sentences */
                for (unsigned c = 0; c < t->n_columns; c++) {
                        if (l->hidden[c] || t->column[c].fold != pass || total >= l->columns)
                                continue;
                        most = l->width[c] - least[c];
                        most = most < l->columns - total ? most : l->columns - total;
                        least[c] += most;
                        total += most;
                }
        }
        memcpy(l->width, least, sizeof least);
}

/* Print the first and the last letters of @text with an ellipsis between them. */
static void print_cut(FILE *out, const char *text, unsigned width)
{
        unsigned skip = cli_screen_width(text) - (width - width / 2 - 1), n = 0;

        for (; *text; text++) {
                bool more = (*text & 0xc0) == 0x80; /* continuation bytes of a letter */

                n += !more;
                if (n <= width / 2 || n > skip)
                        fputc(*text, out);
                else if (n == skip && !more)
                        fputs("\xe2\x80\xa6", out);
        }
}

/* Print one line of a cell: as much of @text as fits, or cut in its middle. Return: the rest. */
static const char *print_part(FILE *out, const char *text, unsigned width, unsigned pad, bool folds,
                              unsigned *at)
{
        unsigned used = cli_screen_width(text);
        size_t n = strlen(text);

        fprintf(out, "%*s", (int)pad, "");
        if (used > width && folds) {
                n = cli_screen_fold(text, width, &used);
                fwrite(text, 1, n, out);
        } else if (used > width) {
                print_cut(out, text, width);
                used = width;
        } else {
                fputs(text, out);
        }
        *at += pad + used;
        return text + n + strspn(text + n, " ");
}

/* Print one row on a terminal, with further lines for folded texts. */
static void print_fitted(const struct capo_table *t, const struct layout *l, FILE *out,
                         char *const *cells, unsigned n)
{
        const char *rest[MAX_COLUMNS];
        bool more = true;

        for (unsigned c = 0; c < n; c++)
                rest[c] = cells[c] ? cells[c] : "";
        for (bool first = true; more; first = false) {
                unsigned start = 0, at = 0;

                more = false;
                fputs(first ? "" : "\n", out);
                for (unsigned c = 0; c < n; c++) {
                        bool spans = c + 1 == n && n < t->n_columns;
                        unsigned width = l->width[c], pad = 0, used;

                        if (l->hidden[c] && !spans)
                                continue;
                        start += t->column[c].before;
                        if (spans)
                                width = l->columns > start + LEAST ? l->columns - start : LEAST;
                        used = cli_screen_width(rest[c]);
                        if (t->column[c].right && used < l->width[c])
                                pad = l->width[c] - used;
                        else if (!first && *rest[c] && t->column[c].fold)
                                pad = (unsigned)strspn(cells[c],
                                                       " "); /* indented like its first line */
                        if (*rest[c])
                                rest[c] = print_part(out, rest[c], pad < width ? width - pad : 1,
                                                     start + pad >= at ? start + pad - at : 1,
                                                     spans || t->column[c].fold, &at);
                        more |= *rest[c] != 0;
                        start += width;
                }
        }
}

/* Print one row unchanged. */
static void print_whole(const struct capo_table *t, const struct layout *l, FILE *out,
                        char *const *cells, unsigned n)
{
        size_t blanks = 0;

        for (unsigned c = 0; c < n; c++) {
                unsigned w = cli_screen_width(cells[c]),
                         pad = l->width[c] > w ? l->width[c] - w : 0;

                blanks += t->column[c].before + (t->column[c].right ? pad : 0);
                if (w || t->fixed) {
                        fprintf(out, "%*s%s", (int)blanks, "", cells[c] ? cells[c] : "");
                        blanks = 0;
                }
                blanks += t->column[c].right ? 0 : pad;
        }
}

/* Print the heads of dropped columns, comma-separated. Return: are there any? */
static bool print_left_out(const struct capo_table *t, const struct layout *l, const char *before,
                           FILE *out)
{
        bool any = false;

        for (unsigned c = 0; c < t->n_columns; c++) {
                if (!l->hidden[c] || c >= t->n_cells || !t->cells[c] || !*t->cells[c])
                        continue;
                fprintf(out, "%s%s", any ? ", " : before, t->cells[c]);
                any = true;
        }
        return any;
}

static void print_table(const struct capo_table *t, struct layout *l, FILE *out, unsigned n_bold)
{
        bool fits, colours = cli_screen_is_terminal(out) && !getenv("NO_COLOR");

        measure_columns(t, l);
        fits = !l->columns || sum_widths(t, l, l->width) <= l->columns;
        if (!fits)
                fit_columns(t, l);
        for (size_t row = 0; row < t->n_cells; row += t->n_columns) {
                bool is_bold = colours && row / t->n_columns < n_bold;

                fputs(is_bold ? CAPO_STYLE_BOLD : "", out);
                (l->columns ? print_fitted : print_whole)(t, l, out, t->cells + row,
                                                          row_end(t, row));
                fputs(is_bold ? CAPO_STYLE_NORMAL : "", out);
                fputc('\n', out);
        }
}

void capo_table_print(const struct capo_table *t, FILE *out, unsigned n_bold)
{
        struct layout l = {.columns = cli_screen_columns(out)};

        print_table(t, &l, out, n_bold);
        if (print_left_out(t, &l, "(--wide shows all columns: also ", out))
                fputs(")\n", out);
}

void capo_table_fit(const struct capo_table *t, FILE *out, FILE *left_out)
{
        struct layout l = {.columns = cli_screen_columns(out)};

        print_table(t, &l, out, 0);
        print_left_out(t, &l, "", left_out);
}

void capo_table_lines(const struct capo_table *t, FILE *out, unsigned columns)
{
        struct layout l = {.columns = columns};

        print_table(t, &l, out, 0);
}

bool capo_table_fits(const struct capo_table *t, FILE *out)
{
        struct layout l = {.columns = cli_screen_columns(out)};

        measure_columns(t, &l);
        return !l.columns || sum_widths(t, &l, l.width) <= l.columns;
}
