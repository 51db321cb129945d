/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a worker: the user's NCCL settings, and settings that replace the machine. */
#pragma once

#include "profiles/plan/plan_job.h"

/* The plugins are links in the question's folder, where the loader searches. libX.so is the one
 * form of name that every release accepts: 2.19 and 2.20 open the variable's value and nothing
 * else, 2.27.3 accepts no path (tried on 2.19.3, 2.20.5, 2.21.5, 2.27.3, 2.27.7 and 2.32.3). The
 * net plugin is searched as libnccl-net-<name>.so. */
#define PLAN_NET_LINK      "libnccl-net-capoplan.so"
#define PLAN_TUNER_LINK    "libcapo-plan-tuner.so"
#define PLAN_PROFILER_LINK "libcapo-plan-profiler.so"

/** plan_environment_new() - for the worker of @node, ended by NULL; @folder is the question's own. */
char **plan_environment_new(const struct capo_plan_question *q, const struct plan_job *job,
                            const char *folder, uint32_t node);
