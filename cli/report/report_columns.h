/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of the rows, the same in every format: one row of the table in report_columns.c. */
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
        const char *head, *spec; /* on pages (cli_page.h); NULL: in files only */
        const char *key, *csv;   /* name in JSON and in CSV; NULL: not in these */
        void (*show)(const struct report_cell *cell, char text[256]);
        json_t *(*value)(const struct report_cell *cell); /* NULL: JSON has no such key here */
};

extern const struct report_column report_columns[]; /* ends with one without any name */

/** report_row_json() - one row as an object. */
json_t *report_row_json(const struct report_view *view, const struct capo_page_row *row);

#endif
