/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_WAITS_CAUSES_H
#define CAPO_WAITS_CAUSES_H

#include "analysis/report/job_page.h"

/** capo_judge_causes() - causes, for the waits that count; what these say of GPU and network gives
 * way to a cause that was measured. Before the waits are put into words. Return: 0; -ENOMEM. */
int capo_judge_causes(struct capo_page *page);

/** capo_tell_causes() - the causes behind the sentences of the waits. Return: 0; -ENOMEM. */
int capo_tell_causes(struct capo_page *page);

#endif
