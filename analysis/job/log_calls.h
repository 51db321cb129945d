/* SPDX-License-Identifier: Apache-2.0 */
/* The single calls of a log, one after the other. */
#ifndef CAPO_LOG_CALLS_H
#define CAPO_LOG_CALLS_H

#include "analysis/log/log_read.h"

struct capo_record;

struct capo_log_calls; /* what a log has said so far of the shapes of its calls */

/** capo_log_calls_new() - for one log. NULL: no memory. */
struct capo_log_calls *capo_log_calls_new(void);
void capo_log_calls_free(struct capo_log_calls *c);
static inline void capo_log_calls_freep(struct capo_log_calls **c)
{
        capo_log_calls_free(*c);
}

/* @thread is the number of the thread that made the call, in its process. */
typedef int (*capo_log_call_fn)(const struct capo_record *r, unsigned thread, void *arg);

/**
 * capo_log_calls_take() - give it each frame of the log in turn; @each is called with every call
 * the frame holds
 * @each: 0 to go on; anything else ends it. NULL: only what the frame says of shapes is taken.
 * Times are ns since the log's epoch. Calls are in the order of the log, which is not that of time.
 * Return: 0; what @each returned; -ENOMEM.
 */
int capo_log_calls_take(struct capo_log_calls *c, const struct capo_log_frame *f,
                        capo_log_call_fn each, void *arg);

/** capo_log_calls_each() - all frames that are left of @log. Return: 0; what @each returned;
 * -ENOMEM; -EIO, as capo_log_next(). */
int capo_log_calls_each(struct capo_log *log, capo_log_call_fn each, void *arg);

#endif
