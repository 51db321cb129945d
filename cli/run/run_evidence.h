/* SPDX-License-Identifier: Apache-2.0 */
/* What earlier jobs tried of one profile: a file of lines, a row at a size in one job each. */
#pragma once

#include "profiles/fit/fit_trial.h"

enum { EVIDENCE_JOBS = 64 }; /* the newest are kept */

struct run_evidence {
        struct capo_trial_found *found; /* the oldest job first */
        uint64_t *job;                  /* of each */
        int n;
};

/** run_evidence_read() - @path; a file that is not there is empty, and lines that cannot be read
 * are dropped. Return: 0; -ENOMEM. */
int run_evidence_read(const char *path, struct run_evidence *out);
void run_evidence_finish(struct run_evidence *e);

/** run_evidence_add() - what the job logged in @dir found, after the others. Return: 0; -ENOMEM. */
int run_evidence_add(struct run_evidence *e, const char *dir, const struct capo_trial_found *found,
                     int n);

/** run_evidence_write() - the newest EVIDENCE_JOBS jobs, atomically. Return: 0; negative errno,
 * printed. */
int run_evidence_write(const struct run_evidence *e, const char *path);
