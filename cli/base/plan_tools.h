/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the parts of the planner, for every verb that asks NCCL. */
#pragma once

#include <stddef.h>

/** cli_topology_find() - the stored XML of a platform ("dgx1v"). Return: 0; -ENOENT. */
int cli_topology_find(const char *platform, char *path, size_t room);

/** cli_tuner_find() - capo's own tuner plugin. Return: 0; -ENOENT. */
int cli_tuner_find(char *path, size_t room);

/** cli_parts_find() - find what is needed to ask NCCL
 * @named: the FILE of an option; NULL: CAPO_NCCL, or the one found on this machine
 * @tools: the folder for capo_plan_question.tools
 * @libnccl: the libnccl.so.2 to ask
 * @room: of each of the two
 *
 * Return: 0; negative errno with @why: one sentence about what is missing. */
int cli_parts_find(const char *named, char *tools, char *libnccl, size_t room, char *why,
                   size_t why_room);
