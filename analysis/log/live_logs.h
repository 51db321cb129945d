/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a running process is as old as its last checkpoint. Newer calls are in the process's
 * shared memory and can be read like a log: no file is written, and the process is not disturbed.
 *
 *      for each info of capo_segment_find() (analysis/log/recover.h) with info->alive:
 *              capo_live_log_open(info, &log);
 *              capo_job_add(job, log);              analysis/job/stats.h: as any other log
 *
 * A reader shows the state when it was opened. For a newer state, open another one. */
#pragma once

#include "analysis/log/log_paths.h"
#include "analysis/log/recover.h"

/** capo_live_log_open() - open the memory of a process as a log
 * @info: from capo_segment_find(), of a live or a killed process
 * @out: set only on success; capo_log_close() it. Its capo_log_path() is that of the process's own
 * log
 *
 * It contains what the log would contain after a clean end (descriptions, cells, the last calls and
 * the unfinished ones), but no HANG frames. Its END is not clean while the process lives. If
 * info->trace_all, it has only the last calls: all calls are in the process's own log.
 *
 * Return: as capo_segment_peek() and capo_log_open(). */
int capo_live_log_open(const struct capo_segment_info *info, struct capo_log **out);

/** capo_live_logs_take() - replace logs of this user's running processes among @paths by their
 * memory
 * @paths: the logs of running processes must not be open yet
 *
 * A process that writes every call to its log (--trace all) keeps its log.
 *
 * Return: how many were replaced. */
int capo_live_logs_take(struct capo_log_paths *paths);
