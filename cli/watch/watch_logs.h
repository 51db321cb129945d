/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of other machines whose logs are in a folder that this one sees, as of `capo run -- srun`:
 * their memory cannot be looked at, but each process writes into its log when it sees a hang.
 */
#ifndef CAPO_WATCH_LOGS_H
#define CAPO_WATCH_LOGS_H

#include "cli/watch/watch_jobs.h"

struct watch_logs {
        struct watch_log {
                char *name;
                uint64_t at; /* of the first frame that was not read */
        } * v;
        size_t n;
        struct watch_job job; /* of the folder: its newest */
};

/**
 * watch_logs_news() - has a process of @folder written since the last call that it sees a hang?
 * What was there at the first call is no news. Return: 1, 0; -ENOMEM.
 */
int watch_logs_news(struct watch_logs *logs, const char *folder);
void watch_logs_finish(struct watch_logs *logs);

#endif
