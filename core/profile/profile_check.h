/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a profile that can be read: found before a job finds it. */
#pragma once

#include <stdint.h>

struct capo_profile;

enum capo_finding_level {
        CAPO_FINDING_ERROR,   /* does nothing, or not what it says */
        CAPO_FINDING_WARNING, /* works, and may surprise */
        CAPO_FINDING_NOTE,
};

/**
 * capo_profile_check() - look for all of it
 * @say:  called for each finding, in no particular order of lines; @line is 0 for the whole file;
 *        @text is one sentence
 * @user: handed to @say
 *
 * Return: number of errors, or -ENOMEM.
 */
typedef void (*capo_finding_say)(void *user, enum capo_finding_level level, uint32_t line,
                                 const char *text);
int capo_profile_check(const struct capo_profile *profile, capo_finding_say say, void *user);
