/* SPDX-License-Identifier: Apache-2.0 */
/* Times in which no rank made a call, and calls that were not seen to end. */
#pragma once

#include <jansson.h>

#include "analysis/report/job_page.h"

/** capo_watch_record() - the last hang that capo watch saw in the job's folder (hang.json)
 * @from, @to: since when nothing moved, and when that was seen last, ns since 1970
 *
 * Return: json_decref() it; NULL: none. */
json_t *capo_watch_record(const struct capo_job *job, double *from, double *to);

/** capo_judge_stalls() - finds times in which no rank made a call (stalls.c); a step of
 * capo_judge_problems(). */
void capo_judge_stalls(struct capo_page *page);

/** capo_unseen_waiting() - upper bound in ns, mean over ranks, for waiting in silences far longer
 * than the job's usual ones, for which there are neither GPU times nor starts of calls, and while a
 * process was stopped before the first call that the logs kept. */
double capo_unseen_waiting(const struct capo_page *r);

/** capo_silent_at_end_ns() - how long no rank made a call before a process of the job ended badly; 0:
 * less than 1 s. */
double capo_silent_at_end_ns(const struct capo_page *r);

/** capo_unended_share() - the part of the ranks' time for which a call was under way that was not
 * seen to end, as far as known; 0 to 1. Times on the GPU leave such calls out. */
double capo_unended_share(const struct capo_job *job);
