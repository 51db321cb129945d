/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of the planner are: for every verb that asks NCCL. */
#ifndef CAPO_PLAN_TOOLS_H
#define CAPO_PLAN_TOOLS_H

#include <stddef.h>

/** capo_plan_tools_find() - the folder for capo_plan_question.tools. Return: 0; -ENOENT. */
int capo_plan_tools_find(char *folder, size_t room);

/** capo_plan_stored_topology() - the stored XML of a platform ("dgx1v"). Return: 0; -ENOENT. */
int capo_plan_stored_topology(const char *platform, char *path, size_t room);

/** capo_plan_tuner_find() - capo's own tuner plugin. Return: 0; -ENOENT. */
int capo_plan_tuner_find(char *path, size_t room);

#endif
