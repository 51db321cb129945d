/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the JSON report. */
#pragma once

#include "cli/base/cli_fields.h"
#include "cli/base/cli_json.h"
#include "cli/report/report_formats.h"
#include "core/base/calls.h"

/* What the pages for people have, too, in JSON. */
extern const struct cli_entity report_comm, report_wait, report_unknown, report_place, report_rule,
        report_next, report_other, report_allocated, report_row, report_nic, report_step_times;

static inline int64_t report_comm_number(uint32_t comm)
{
        return comm == CAPO_NO_COMM ? -1 : (int64_t)comm;
}

/* NULL: none. */
static inline const char *report_call_name(uint8_t call)
{
        return call ? capo_call_name(call) : NULL;
}

/** report_json_fabric_calls() - traffic by communicator and call. */
json_t *report_json_fabric_calls(const struct capo_page *page);

/** report_json_trials() - empty without trials. */
json_t *report_json_trials(const struct capo_page *page);
