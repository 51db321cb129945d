/* SPDX-License-Identifier: Apache-2.0 */
/* Columns that line up. Numbers as people read them come along: analysis/job/figures.h. */
#ifndef CAPO_TABLE_H
#define CAPO_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/job/figures.h"

struct capo_table; /* cells are given row by row, left to right */

/**
 * capo_table_new() - @columns describes them, from left to right; NULL: no memory. For each:
 *
 *      blank, .    two more blanks before it, one less (two are between columns); commas are for
 *                  the reader
 *      l, r        left, right aligned
 *      20          so wide, whatever is in it; what is longer moves the rest of its row. Without:
 *                  as wide as its widest cell. A table with such columns keeps the blanks at the
 *                  end of a row.
 *      ~           long text, which a terminal's page folds at blanks instead of cutting it in the
 *                  middle
 *      /a          where a terminal has too little room, columns are left out: /a first, then /b,
 *                  ... Without: never
 *
 * "l16/b,l,r,r/a,l~": names, calls, two numbers of which the second is not missed, sentences.
 */
struct capo_table *capo_table_new(const char *columns);
void capo_table_free(struct capo_table *t);
static inline void capo_table_freep(struct capo_table **t)
{
        capo_table_free(*t);
}

/** capo_table_cell() - the next cell. Memory trouble shows as an empty cell. */
void capo_table_cell(struct capo_table *t, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/** capo_table_row() - cells up to the end of a row, with tabs between them. Cells that are left out
 * are no cells: the last one of a short row may be as long as it likes. */
void capo_table_row(struct capo_table *t, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/** capo_table_end() - the row has no more cells. */
void capo_table_end(struct capo_table *t);

/**
 * capo_table_print() - all rows; the first @n_bold bold on a terminal. Trailing blanks are left
 * off. Where @out is the page of a terminal (cli_screen.h) every row fits it, and a line says which
 * columns are left out, by their first cells.
 */
void capo_table_print(const struct capo_table *t, FILE *out, unsigned n_bold);

/** capo_table_fit() - the same without bold rows. The first cells of columns that are left out go
 * to @left_out, with commas between them, in place of a line. */
void capo_table_fit(const struct capo_table *t, FILE *out, FILE *left_out);

/** capo_table_fits() - are all columns printed whole on @out? */
bool capo_table_fits(const struct capo_table *t, FILE *out);

#endif
