/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/base/cli_page.h"
#include "cli/report/report_formats.h"

/** report_causes() - the section CAUSES; none where nothing was found. */
void report_causes(const struct capo_page *r, struct cli_page *page);

extern const struct cli_entity report_cause, report_seen;
