/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the JSON report. */
#ifndef CAPO_CLI_REPORT_JSON_H
#define CAPO_CLI_REPORT_JSON_H

#include <jansson.h>

#include "cli/base/cli_json.h"

#include "cli/report/report_formats.h"

/** report_json_rows() - the value of "rows". */
json_t *report_json_rows(const struct report_view *view);

/** report_json_fabric() - the value of "fabric": one object per rank and domain; empty without
 * libfabric. */
json_t *report_json_fabric(const struct capo_page *page);

/** report_json_fabric_calls() - the value of "fabric_calls": traffic by communicator and call. */
json_t *report_json_fabric_calls(const struct capo_page *page);

/** report_json_steps() - the value of "steps". */
json_t *report_json_steps(const struct capo_page *page);

/** report_json_trials() - the value of "trials"; empty without trials. */
json_t *report_json_trials(const struct capo_page *page);

/** report_json_judged() - adds "problem_list", "waits", "next", "allocation", "places" and "rules"
 * to @to. */
void report_json_judged(json_t *to, const struct capo_page *page);

#endif
