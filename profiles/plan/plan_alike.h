/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks of a question are asked for real. */
#ifndef CAPO_PLAN_ALIKE_H
#define CAPO_PLAN_ALIKE_H

#include "profiles/plan/plan_job.h"

/**
 * plan_alike_find() - fill the units of a job and the list of ranks that are asked
 * @job:   its ranks, their nodes, node_machine and node_unit are set
 * @whole: every rank is asked
 *
 * Return: 0; -E2BIG more than CAPO_PLAN_WHOLE_MAX would have to be asked, @n is how many.
 */
int plan_alike_find(struct plan_job *job, bool whole, uint32_t *n);

/** plan_alike_bytes() - memory that NVLink domains of several nodes take; @twice:
 * CAPO_NCCL_PATHS_TWICE. plan_alike_available() - what this machine has; 0 not known. */
double plan_alike_bytes(const struct plan_job *job, bool twice);
double plan_alike_available(void);

#endif
