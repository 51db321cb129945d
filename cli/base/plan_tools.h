/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of the planner are: for every verb that asks NCCL. */
#ifndef CAPO_PLAN_TOOLS_H
#define CAPO_PLAN_TOOLS_H

#include <stddef.h>

/** cli_tools_find() - the folder for capo_plan_question.tools. Return: 0; -ENOENT. */
int cli_tools_find(char *folder, size_t room);

/** cli_topology_find() - the stored XML of a platform ("dgx1v"). Return: 0; -ENOENT. */
int cli_topology_find(const char *platform, char *path, size_t room);

/** cli_tuner_find() - capo's own tuner plugin. Return: 0; -ENOENT. */
int cli_tuner_find(char *path, size_t room);

/**
 * cli_libnccl_find() - the libnccl.so.2 to ask
 * @named: what --nccl says; NULL: CAPO_NCCL, or the one found on this machine
 *
 * Return: 0; negative errno with @why: one sentence that says which of these it was.
 */
int cli_libnccl_find(const char *named, char *path, size_t room, char *why, size_t why_room);

#endif
