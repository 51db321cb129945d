/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a profile that can be read: found before a job finds it. */
#pragma once

#include "core/base/util.h"

struct capo_profile;
struct capo_when;

enum capo_finding_level {
        CAPO_FINDING_ERROR,   /* does nothing, or not what it says */
        CAPO_FINDING_WARNING, /* works, and may surprise */
        CAPO_FINDING_NOTE,
};

/** capo_profile_check() - look for all of it
 * @say:  called for each finding, in no particular order of lines; @line is 0 for the whole file;
 *        @text is one sentence
 * @user: handed to @say
 *
 * Return: number of errors, or -ENOMEM. */
typedef void (*capo_finding_say)(void *user, enum capo_finding_level level, uint32_t line,
                                 const char *text);
int capo_profile_check(const struct capo_profile *profile, capo_finding_say say, void *user);

/** capo_when_never() - can no communicator be as @w says? @why: set when it cannot, the first
 * contradiction between two conditions. */
bool capo_when_never(const struct capo_when *w, char *why, size_t room);
