/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks of a question are really started. */
#pragma once

#include "profiles/plan/plan_job.h"

/** plan_alike_find() - fill the units of a job and the list of ranks to start
 * @job: its ranks, their nodes, node_machine and node_unit must be set
 * @whole: start every rank
 *
 * Return: 0; -E2BIG: more than CAPO_PLAN_WHOLE_MAX would be needed, namely @n. */
int plan_alike_find(struct plan_job *job, bool whole, uint32_t *n);

/** plan_alike_bytes()     - memory needed for NVLink domains of several nodes; @twice:
 *                          CAPO_NCCL_PATHS_TWICE
 * plan_alike_available() - memory of this machine; 0: not known */
double plan_alike_bytes(const struct plan_job *job, bool twice);
double plan_alike_available(void);
