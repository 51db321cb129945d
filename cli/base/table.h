/* SPDX-License-Identifier: Apache-2.0 */
/* Columns that line up, and numbers as people read them. */
#ifndef CAPO_TABLE_H
#define CAPO_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

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

/* All write to @text (at least 32 bytes) and return it. */

/** capo_text_count() - 1204816 as "1,204,816". */
char *capo_text_count(uint64_t n, char *text);

/** capo_text_us() - ns as microseconds with three digits that count: "1,311", "12.3", "0.04". */
char *capo_text_us(double ns, char *text);

/** capo_text_time() - ns in the unit that suits: "88 us", "1.3 ms", "12.4 s", "42 min 18 s", "3 h 05 min". */
char *capo_text_time(double ns, char *text);

/** capo_text_gbs() - "242", "35.0", "0.08". */
char *capo_text_gbs(double gbs, char *text);

/** capo_text_percent() - share 0..1 as "61.2 %", "0.002 %". */
char *capo_text_percent(double share, char *text);

#endif
