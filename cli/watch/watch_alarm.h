/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on a stuck job. Local ranks are judged in every sample. When a call has not moved for
 * --hang, one of the watches that share the folder of logs is elected. It judges all visible ranks:
 * those on this machine from memory, the others from logs. */
#pragma once

#include "cli/watch/watch_jobs.h"

/** watch_alarm() - after a sample. Return: ns until the next sample should be taken; UINT64_MAX:
 * any time. */
uint64_t watch_alarm(const struct watch *w, struct watch_job *job);

/** watch_alarm_logs() - for a job without processes here; @news: one of them wrote that it sees a
 * hang. Return: as above. */
uint64_t watch_alarm_logs(const struct watch *w, struct watch_job *job, bool news);

/** watch_alarm_gone() - the processes of the job have ended: what was reported of it is over if all
 * ended well. Then as watch_alarm_end(). */
void watch_alarm_gone(struct watch_job *job);

/** watch_alarm_end() - the job or the watch ends: release the election. */
void watch_alarm_end(struct watch_job *job);
