/* SPDX-License-Identifier: Apache-2.0 */
/* The libfabric part of capo report. */
#ifndef CAPO_CLI_REPORT_FABRIC_H
#define CAPO_CLI_REPORT_FABRIC_H

#include <jansson.h>

#include "cli/report/report.h"
#include "profiles/job/fabric.h"

/** report_fabric_text() - the NETWORK section. */
void report_fabric_text(const struct report *r, const struct capo_fabric_job *f, FILE *out, const char *bold,
                        const char *plain);

/** report_fabric_json() - the value of "fabric": one object per rank and domain. @f NULL: an empty list. */
json_t *report_fabric_json(const struct report *r, const struct capo_fabric_job *f);

/** report_fabric_calls_json() - the value of "fabric_calls": traffic by communicator and call. */
json_t *report_fabric_calls_json(const struct capo_fabric_job *f);

/** report_near() - fill r->near from the machine that the job ran on. Return: 0; -ENOMEM. */
int report_near(struct report *r, const struct capo_topology *t);

#endif
