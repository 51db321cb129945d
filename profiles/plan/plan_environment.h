/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a worker: the user's NCCL settings, and settings that replace the machine. */
#pragma once

#include "profiles/plan/plan_job.h"

enum { PLAN_ENVIRONMENT_ROOM = 40 };

/* The plugins are links in the question's folder, where the loader searches. libX.so is the one
 * form of name that every release accepts: 2.19 and 2.20 open the variable's value and nothing
 * else, 2.27.3 accepts no path (tried on 2.19.3, 2.20.5, 2.21.5, 2.27.3, 2.27.7 and 2.32.3). The
 * net plugin is searched as libnccl-net-<name>.so. */
#define PLAN_NET_LINK      "libnccl-net-capoplan.so"
#define PLAN_TUNER_LINK    "libcapo-plan-tuner.so"
#define PLAN_PROFILER_LINK "libcapo-plan-profiler.so"

struct environment {
        char **vars; /* the first ones belong to the parent */
        size_t n;
        char text[PLAN_ENVIRONMENT_ROOM][PLAN_PATH + 64];
        size_t n_text;
};

/** plan_environment_new() - for the worker of @node; @folder is the question's own. */
struct environment *plan_environment_new(const struct capo_plan_question *q,
                                         const struct plan_job *job, const char *folder,
                                         uint32_t node);
