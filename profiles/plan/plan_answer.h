/* SPDX-License-Identifier: Apache-2.0 */
/* From a finished job and the files around it to a struct capo_plan_answer. */
#ifndef CAPO_PLAN_ANSWER_H
#define CAPO_PLAN_ANSWER_H

#include "profiles/plan/plan.h"
#include "profiles/plan/plan_job.h"

/** plan_answer_read() - @folder has log.<node> and graph. Return: 0; -ENOMEM; -EPROTO with @why:
 * ranks did not answer.
 */
int plan_answer_read(struct plan_job *job, const struct capo_plan_question *q, const char *folder,
                     struct capo_plan_answer *out, char *why, size_t room);

/** plan_answer_warning() - the first "NCCL WARN" of any node's log, without its prefix; "" none. */
void plan_answer_warning(const char *folder, uint32_t n_nodes, char *out, size_t room);

/** plan_answer_gap() - " (cudaX was called, ...)" when a CUDA function without virtual answer was
 * called; "" none. */
void plan_answer_gap(const struct plan_job *job, char *out, size_t room);

#endif
