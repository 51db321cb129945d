/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a profile that can be read: found before a job finds it. */
#ifndef CAPO_PROFILE_CHECK_H
#define CAPO_PROFILE_CHECK_H

#include "capo/profile.h"

enum capo_finding_level {
        CAPO_FINDING_ERROR,   /* does nothing, or not what it says */
        CAPO_FINDING_WARNING, /* works, and may surprise */
        CAPO_FINDING_NOTE,
};

/**
 * capo_profile_check() - look for all of it
 * @say:  called for each finding, in no particular order of lines; @line is 0 for the whole file; @text is one sentence
 * @user: handed to @say
 *
 * Return: number of errors, or -ENOMEM.
 */
typedef void (*capo_finding_say)(void *user, enum capo_finding_level level, uint32_t line, const char *text);
int capo_profile_check(const struct capo_profile *profile, capo_finding_say say, void *user);

/** capo_row_possible() - has any NCCL from 2.19 to 2.30 this algorithm and protocol for this collective? "Leave" rows
 * are possible. (src/graph/tuning.cc: Broadcast and Reduce have Ring; AllReduce all but PAT; AllGather and
 * ReduceScatter Ring, PAT, NVLS, CollNetDirect; all but Ring and Tree only with Simple.) */
bool capo_row_possible(const struct capo_row *row);

#endif
