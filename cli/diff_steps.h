/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "analysis/job/job.h"

/* Steps before and after (analysis/steps/job_steps.h). */
struct diff_steps {
        bool known;            /* both sides have steps, with as many calls */
        bool uncertain;        /* one of them is uncertain */
        uint64_t n_a, n_b;     /* of the first run of each side; 0 not known */
        double p50_a, p50_b;   /* ns; median over the runs */
        double nccl_a, nccl_b; /* share of a step; < 0 not known; of the first runs */
};

void diff_steps_make(struct capo_job *const *a, size_t n_a, struct capo_job *const *b, size_t n_b,
                     struct diff_steps *out);

/** diff_steps_text() - a sentence; "": not known. @seconds: gained or lost in total on one rank.
 * Return: @text. */
char *diff_steps_text(const struct diff_steps *s, double seconds, char *text, size_t room);
