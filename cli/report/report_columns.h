/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of rows, the same in every format: one row each in the table of report_columns.c. */
#ifndef CAPO_CLI_REPORT_COLUMNS_H
#define CAPO_CLI_REPORT_COLUMNS_H

#include <jansson.h>

#include "cli/report/report_formats.h"

struct report_cell {
        const struct report_view *view;
        const struct capo_page_row *row;
        struct capo_sampled sampled;
};

struct report_column {
        const char *head, *spec; /* on pages (cli_page.h); NULL: only in files */
        const char *key, *csv;   /* name in JSON and in CSV; NULL: not there */
        void (*show)(const struct report_cell *cell, char text[256]);
        json_t *(*value)(const struct report_cell *cell); /* NULL: JSON has no such key */
};

extern const struct report_column report_columns[]; /* ends with one without names */

/** report_row_json() - a row as an object. */
json_t *report_row_json(const struct report_view *view, const struct capo_page_row *row);

#endif
