/* SPDX-License-Identifier: Apache-2.0 */
/* Known bugs that match a recorded job: by its NCCL release, settings and calls and, if it hangs,
 * by the stacks of its ranks. */
#pragma once

#include "analysis/diagnose/known_bugs.h"
#include "analysis/report/job_page.h"

enum { CAPO_RECORDED_BUGS = 4 };

struct capo_recorded_bug {
        const struct capo_known_bug *bug;
        enum capo_bug_match match; /* CAPO_BUG_FITS, CAPO_BUG_MAYBE */
};

/** capo_recorded_bugs() - bugs with one of @effects, best match first
 * @effects: bits, 1 << enum capo_bug_effect
 * @stacks: frames of stuck ranks, one per line; NULL: none
 * @out: CAPO_RECORDED_BUGS of them
 *
 * Rows of the table with neither a condition nor a symptom are skipped, because every job of that
 * release would match.
 *
 * Return: how many. */
int capo_recorded_bugs(const struct capo_job *job, unsigned effects, const char *stacks,
                       struct capo_recorded_bug *out);

/** capo_bug_text() - "NCCL hang: WHEN: ADVICE (fixed in 2.28.7, LINK)". @room: 512 is enough for
 * all rows. Return: @text. */
char *capo_bug_text(const struct capo_known_bug *bug, char *text, size_t room);

/** capo_bug_fixed() - "fixed in 2.28.7", "no fix known to capo", "a setting". @text: 32 bytes. */
char *capo_bug_fixed(const struct capo_known_bug *bug, char *text);

/** capo_page_bugs() - add problems to @page: bugs that corrupt data or make the job slow; if a
 * process was killed or stuck, also those that crash or hang it. */
void capo_page_bugs(struct capo_page *page);
