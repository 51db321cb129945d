/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs on other machines with logs in a shared folder, as with `capo run -- srun`. Their memory
 * cannot be read, but each process writes to its log when it sees a hang. */
#pragma once

#include "cli/watch/watch_jobs.h"

struct watch_logs {
        struct watch_log {
                char *name;
                uint64_t at; /* offset of the first unread frame */
        } * v;
        size_t n;
        struct watch_job job; /* of the folder: its newest job */
};

/** watch_logs_news() - has a process of @folder written since the last call that it sees a hang?
 * What is there at the first call does not count. Return: 1, 0; -ENOMEM. */
int watch_logs_news(struct watch_logs *logs, const char *folder);
void watch_logs_finish(struct watch_logs *logs);
