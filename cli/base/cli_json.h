/* SPDX-License-Identifier: Apache-2.0 */
/* What faces print for programs. */
#ifndef CAPO_CLI_JSON_H
#define CAPO_CLI_JSON_H

#include <stdio.h>
#include <jansson.h>

#include "analysis/diagnose/known_bugs.h"
#include "analysis/report/late_cause.h"
#include "profiles/plan/plan.h"

/** cli_json_real() - null for what is no number or without end. */
json_t *cli_json_real(double value);

/** cli_json_number() - six digits that count; null for what is no number. */
json_t *cli_json_number(double value);

/** cli_json_known() - null where @value is negative, as rates are that nobody knows. */
json_t *cli_json_known(double value);

/** cli_json_text() - text from a program: not always UTF-8, which jansson refuses; bytes that are
 * none become '?'; NULL is null. */
json_t *cli_json_text(const char *s);

/** cli_json_gpus() - [[node, number], ...] */
json_t *cli_json_gpus(const struct capo_plan_gpu *gpus, size_t n);

/** cli_json_cause() - why a rank is late: by, and what is known of its clocks; null where it is not
 * known. */
json_t *cli_json_cause(const struct capo_late_cause *cause);

/** cli_json_bug() - a row of the known bugs. @match: "fits", "maybe"; NULL: not asked. */
json_t *cli_json_bug(const struct capo_known_bug *bug, const char *match);

/**
 * cli_json_print() - @page and a line's end
 * @page:  freed; NULL, because memory ran out while it was made, prints nothing
 * @flags: jansson's
 *
 * Return: 0; -ENOMEM.
 */
int cli_json_print(FILE *out, json_t *page, size_t flags);

/** cli_json_csv_value() - a scalar as a cell of CSV; null is an empty one. */
void cli_json_csv_value(FILE *out, const json_t *value);

/**
 * cli_json_csv() - the objects of a list in @page as rows of CSV
 * @page: freed; NULL, because memory ran out while it was made, prints nothing
 * @path: names of the lists, outermost first, "series.points": each row has the scalars of the
 *        objects on its way, too. The first row names the columns.
 *
 * Return: 0; -ENOMEM.
 */
int cli_json_csv(FILE *out, json_t *page, const char *path);

/** CLI_FORM_PRINT() - to stdout what @form asks for: @json with jansson's @flags, its rows at @path
 * as CSV, or @page; only that is made. Return: as cli_page_print(). */
#define CLI_FORM_PRINT(form, page, json, flags, path)                       \
        ((form) == CLI_FORM_JSON  ? cli_json_print(stdout, (json), (flags)) \
         : (form) == CLI_FORM_CSV ? cli_json_csv(stdout, (json), (path))    \
                                  : cli_page_print((page), (form), stdout))

#endif
