/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks of a job did over time, in equal parts of the time of which the logs keep single
 * calls: how much of each part a call was on the GPU, and how much of that it waited for late
 * ranks. Without GPU times: how much of it the host was in NCCL's calls.
 */
#ifndef CAPO_TIMELINE_H
#define CAPO_TIMELINE_H

#include "analysis/job/job.h"

enum { CAPO_TIMELINE_RANKS = 1024 };

struct capo_timeline_rank {
        uint32_t process;
        float *busy, *waiting; /* share of each part, 0..1; waiting is not in busy */
};

struct capo_timeline {
        double from_s, to_s; /* after the job's start */
        bool gpu;
        uint32_t n_parts, n_ranks;
        struct capo_timeline_rank *rank; /* by rank; of more than CAPO_TIMELINE_RANKS, so many */
};

/** capo_timeline_make() - @parts of time, fewer where ranks times parts are more than @cells.
 * n_ranks 0: the logs keep no single calls. Return: 0; -ENOMEM. capo_timeline_finish() is due in
 * both cases. */
int capo_timeline_make(const struct capo_job *job, uint32_t parts, uint32_t cells,
                       struct capo_timeline *out);
void capo_timeline_finish(struct capo_timeline *t);

#endif
