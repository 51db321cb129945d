/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the single calls of a log. */
#pragma once

#include "analysis/log/log_read.h"

struct capo_record;

struct capo_log_calls; /* the shapes of calls that the log has described so far */

/** capo_log_calls_new() - for one log. */
struct capo_log_calls *capo_log_calls_new(void);
void capo_log_calls_free(struct capo_log_calls *c);
static inline void capo_log_calls_freep(struct capo_log_calls **c) { capo_log_calls_free(*c); }

/* @thread: number of the calling thread in its process. */
typedef int (*capo_log_call_fn)(const struct capo_record *r, unsigned thread, void *arg);

/** capo_log_calls_take() - pass the frames of a log one by one; @each is called for every call in
 * the frame
 * @each: returns 0 to go on; another value ends the walk. NULL: only the shapes in the frame are
 * kept.
 *
 * Times are ns since the log's epoch. Calls come in the order of the log, which is not the order of
 * time.
 * Return: 0; what @each returned. */
int capo_log_calls_take(struct capo_log_calls *c, const struct capo_log_frame *f,
                        capo_log_call_fn each, void *arg);

/** capo_log_calls_each() - all remaining frames. Return: 0; what @each did; as capo_log_next(). */
int capo_log_calls_each(struct capo_log *log, capo_log_call_fn each, void *arg);

typedef int (*capo_log_cell_fn)(const struct capo_log_cell *cell,
                                const struct capo_log_hist_view *host,
                                const struct capo_log_hist_view *gpu, void *arg);

/** capo_log_cells_each() - the cells of all frames that are left of @log, each as it was written
 * last: a checkpoint writes those that have changed anew. Return: as capo_log_calls_each(). */
int capo_log_cells_each(struct capo_log *log, capo_log_cell_fn each, void *arg);
