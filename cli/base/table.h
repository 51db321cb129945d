/* SPDX-License-Identifier: Apache-2.0 */
/* Columns that line up. Numbers as people read them come along: profiles/job/figures.h. */
#ifndef CAPO_TABLE_H
#define CAPO_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "profiles/job/figures.h"

struct capo_table; /* cells are given row by row, left to right */

/**
 * capo_table_new() - @columns: one letter per column: 'l' left, 'r' right aligned; a blank before a letter sets two
 * more spaces before that column. NULL: no memory.
 */
struct capo_table *capo_table_new(const char *columns);
void capo_table_free(struct capo_table *t);
static inline void capo_table_freep(struct capo_table **t)
{
        capo_table_free(*t);
}

/** capo_table_cell() - the next cell. Memory trouble shows as an empty cell. */
void capo_table_cell(struct capo_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** capo_table_print() - all rows; the first @n_bold between @bold and @plain (terminal codes, "" for none). Trailing
 * blanks are left off. */
void capo_table_print(const struct capo_table *t, FILE *out, unsigned n_bold, const char *bold, const char *plain);

#endif
