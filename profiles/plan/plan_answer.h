/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a finished job and its files to a struct capo_plan_answer. */
#pragma once

#include "profiles/plan/plan_job.h"

/** plan_answer_read() - @folder has log.<node> and graph. Return: 0; -EPROTO with @why:
 * some ranks did not answer. */
int plan_answer_read(struct plan_job *job, const struct capo_plan_question *q, const char *folder,
                     struct capo_plan_answer *out, char *why, size_t room);

/** plan_answer_warning() - the first "NCCL WARN" in any node's log, without its prefix; "": none.
 */
void plan_answer_warning(const char *folder, uint32_t n_nodes, char *out, size_t room);

/** plan_answer_gap() - " (cudaX was called, ...)" if a CUDA function was called that has no virtual
 * implementation; "": none. */
void plan_answer_gap(const struct plan_job *job, char *out, size_t room);
