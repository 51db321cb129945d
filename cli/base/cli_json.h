/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for JSON output. */
#pragma once

#include <stdio.h>
#include <jansson.h>

#include "analysis/diagnose/known_bugs.h"
#include "analysis/report/late_cause.h"
#include "profiles/plan/plan.h"

/** cli_json_real() - null for NAN and infinity. */
json_t *cli_json_real(double value);

/** cli_json_number() - six significant digits; null for NAN and infinity. */
json_t *cli_json_number(double value);

/** cli_json_known() - null if @value is negative, which means unknown for rates. */
json_t *cli_json_known(double value);

/** cli_json_text() - text from a program may not be valid UTF-8, which jansson rejects: invalid
 * bytes become '?'. NULL becomes null. */
json_t *cli_json_text(const char *s);

/** cli_json_gpus() - [[node, number], ...] */
json_t *cli_json_gpus(const struct capo_plan_gpu *gpus, size_t n);

/** cli_json_cause() - why a rank is late, with its GPU's clocks; null: not known. */
json_t *cli_json_cause(const struct capo_late_cause *cause);

/** cli_json_bug() - a row of the known bugs. @match: "fits", "maybe"; NULL: not checked. */
json_t *cli_json_bug(const struct capo_known_bug *bug, const char *match);

/** cli_json_print() - print @page, which is freed, and a newline; @flags: jansson's. Return: 0. */
int cli_json_print(FILE *out, json_t *page, size_t flags);

/** cli_json_csv_value() - print a scalar as a CSV cell; null is empty. */
void cli_json_csv_value(FILE *out, const json_t *value);

/** cli_json_csv() - print the objects of a list in @page, which is freed, as rows of CSV
 * @path: names of nested lists, outermost first, "series.points": a row also has the scalars of the
 * enclosing objects. The first row names the columns. Return: 0. */
int cli_json_csv(FILE *out, json_t *page, const char *path);

/** CLI_FORM_PRINT() - print to stdout in @form: @json with jansson's @flags, its rows at @path as
 * CSV, or @page; only the needed one is evaluated. Return: as cli_page_print(). */
#define CLI_FORM_PRINT(form, page, json, flags, path)                       \
        ((form) == CLI_FORM_JSON  ? cli_json_print(stdout, (json), (flags)) \
         : (form) == CLI_FORM_CSV ? cli_json_csv(stdout, (json), (path))    \
                                  : cli_page_print((page), (form), stdout))
