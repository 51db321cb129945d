/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a process that still runs is as old as its last checkpoint; what it has done since is
 * in its memory. These are copies of that memory, as logs, for the time of one command.
 */
#ifndef CAPO_LIVE_LOGS_H
#define CAPO_LIVE_LOGS_H

#include <stdint.h>

#include "analysis/log/log_find.h"

struct capo_live_logs {
        char folder[32]; /* "" none was needed */
        int lock;
        uint32_t n; /* logs that were replaced */
};

/**
 * capo_live_logs_take() - @paths of living processes of this user become copies of their memory
 *
 * A process that keeps every call in its log (--trace all) stays as it is there. The copies have
 * the names of the logs, in a folder of their own. capo_live_logs_finish() removes them; it is due
 * in any case.
 *
 * Return: 0; -ENOMEM; other -errno when there is no room for copies: the paths are as they were.
 */
int capo_live_logs_take(struct capo_log_paths *paths, struct capo_live_logs *live);
void capo_live_logs_finish(struct capo_live_logs *live);

#endif
