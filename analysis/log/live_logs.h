/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a process that still runs is as old as its last checkpoint. What it has done since is
 * in its memory, and that can be read like a log: no file is written, and the process does not
 * notice.
 *
 *      each of capo_segment_find() (analysis/log/recover.h) with info->alive:
 *              capo_live_log_open(info, &log);
 *              capo_job_add(job, log, ...);          analysis/job/stats.h: as any other log
 *
 * A reader shows the moment in which it was opened. To see what came later, open another.
 */
#ifndef CAPO_LIVE_LOGS_H
#define CAPO_LIVE_LOGS_H

#include "analysis/log/log_paths.h"
#include "analysis/log/recover.h"

/**
 * capo_live_log_open() - what a process has in memory now
 * @info: of capo_segment_find(), a living process or one that was killed
 * @out:  set only on success; capo_log_close() it. capo_log_path() is that of the process's own log
 *
 * It has what the log would have after a clean end (descriptions, cells, the last calls and those
 * that the process is in), but for HANG frames, and its END is not clean while the process lives.
 * One of a process with info->trace_all has only the last calls: all are in its own log.
 *
 * Return: as capo_segment_peek() and capo_log_open().
 */
int capo_live_log_open(const struct capo_segment_info *info, struct capo_log **out);

/**
 * capo_live_logs_take() - of @paths, those of living processes of this user are read from memory
 * @paths: none of them is open yet, or the ones in question are closed
 *
 * A process that keeps every call in its log (--trace all) stays as it is there.
 *
 * Return: how many; -ENOMEM.
 */
int capo_live_logs_take(struct capo_log_paths *paths);

#endif
