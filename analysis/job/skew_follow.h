/* SPDX-License-Identifier: Apache-2.0 */
/* Follows a delay to where it began. */
#pragma once

#include "analysis/job/job.h"

/** capo_skew_follow() - a rank that was late in one communicator because it waited in another: name
 * the rank where the delay began, or the other communicator. A step of capo_skew_solve(). */
void capo_skew_follow(struct capo_job *job);

/** capo_skew_is_alike() - did member @k of @c come about as late as @member? */
bool capo_skew_is_alike(const struct capo_job_comm *c, uint32_t k, uint32_t member);

/** capo_skew_alike() - how many members of @c came about as late as @member, itself included. */
uint32_t capo_skew_alike(const struct capo_job_comm *c, uint32_t member);
