/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict on a job that is stuck. Its local ranks are judged at every look; when a call has not
 * moved for --hang, one of the watches that share the folder of logs is elected, and judges all
 * ranks that can be seen: those of this machine by their memory, the others by their logs.
 */
#ifndef CAPO_WATCH_ALARM_H
#define CAPO_WATCH_ALARM_H

#include "cli/watch/watch_jobs.h"

/** watch_alarm() - after a look. Return: ns until the next look should be, UINT64_MAX: any time. */
uint64_t watch_alarm(const struct watch *w, struct watch_job *job);

/** watch_alarm_logs() - of a job none of whose processes is here; @news: one of them has written
 * that it sees a hang. Return: as above. */
uint64_t watch_alarm_logs(const struct watch *w, struct watch_job *job, bool news);

/** watch_alarm_end() - the job is gone, or the watch is: what it claimed is free again. */
void watch_alarm_end(struct watch_job *job);

#endif
