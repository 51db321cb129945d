/* SPDX-License-Identifier: Apache-2.0 */
/* TOKENS of the report: the load of EP groups. */
#pragma once

#include <jansson.h>

#include "cli/report/report_formats.h"

struct cli_page;

/** report_tokens() - the section; empty without EP groups. */
void report_tokens(const struct capo_page *r, struct cli_page *page);

/** report_json_tokens() - the same; empty without EP groups. */
json_t *report_json_tokens(const struct capo_page *page);
