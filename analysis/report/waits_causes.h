/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "analysis/report/job_page.h"

/** capo_judge_causes() - causes, for the waits that count; what these say of GPU and network gives
 * way to a cause that was measured. Before the waits are put into words. */
void capo_judge_causes(struct capo_page *page);

/** capo_tell_causes() - the causes behind the sentences of the waits. */
void capo_tell_causes(struct capo_page *page);

/** capo_judge_change() - one cause more, if the steps take longer for good. After the steps. */
void capo_judge_change(struct capo_page *page);

/** capo_late_causes() - those of the late rank of communicator @name; NULL: nobody is late there, or the
 * cause is not known. capo_late_why() - "rank 3: its CPU limit": the same in words, in @text;
 * "rank 3" if the cause is not known; NULL: nobody is late there. */
const struct capo_causes *capo_late_causes(const struct capo_page *page, const char *name);
const char *capo_late_why(const struct capo_page *page, const char *name, char *text, size_t room);

/** capo_wait_is_sure() - is that rank also to be acted on? In a short job on a busy machine a few calls
 * that were late by chance are extrapolated: a small cost needs a narrow interval, a rank that is
 * late again and again, and more than one call. */
bool capo_wait_is_sure(const struct capo_job *job, const struct capo_page_wait *w);
