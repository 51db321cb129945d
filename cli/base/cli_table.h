/* SPDX-License-Identifier: Apache-2.0 */
/* Aligned columns. analysis/job/figures.h formats the numbers. */
#pragma once

#include "analysis/job/figures.h"
#include "core/base/util.h"

struct capo_table; /* cells are added row by row, left to right */

/** capo_table_new() - @columns describes them from left to right. For each:
 *
 *      blank, .    two more blanks before it, one less (default: two between columns); commas are
 *                  ignored
 *      l, r        left, right aligned
 *      20          fixed width; longer text shifts the rest of its row. Default: the width of the
 *                  widest cell. Tables with fixed columns keep trailing blanks.
 *      ~           long text, which a terminal page folds at blanks instead of cutting it
 *      /a          dropped when a terminal is too narrow: first /a, then /b, ... Default: never
 *
 * "l16/b,l,r,r/a,l~": names, calls, two numbers of which the second is dropped first, sentences. */
struct capo_table *capo_table_new(const char *columns);
void capo_table_free(struct capo_table *t);
static inline void capo_table_freep(struct capo_table **t) { capo_table_free(*t); }

/** capo_table_cell() - add the next cell. */
void capo_table_cell(struct capo_table *t, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/** capo_table_row() - add the cells of a row up to its end, tab-separated. Missing cells do not
 * exist: the last one of a short row may have any length. */
void capo_table_row(struct capo_table *t, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/** capo_table_print() - print all rows; the first @n_bold bold on a terminal. Trailing blanks are
 * removed. If @out is a terminal page (cli_screen.h), every row fits it, and a line names the
 * dropped columns by their first cells. */
void capo_table_print(const struct capo_table *t, FILE *out, unsigned n_bold);

/** capo_table_fit() - the same without bold rows; the names of dropped columns are written to
 * @left_out, comma-separated, instead of a line. */
void capo_table_fit(const struct capo_table *t, FILE *out, FILE *left_out);

/** capo_table_lines() - the same for @columns of any terminal, without names of dropped columns. */
void capo_table_lines(const struct capo_table *t, FILE *out, unsigned columns);

/** capo_table_fits() - are all columns printed completely on @out? */
bool capo_table_fits(const struct capo_table *t, FILE *out);
