/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a job did over time. The time for which logs have single calls is divided into
 * equal parts. Each part has the share with a call on the GPU, and the share waiting for late
 * ranks. Without GPU times: the share in which the host was in NCCL calls. */
#pragma once

#include "analysis/job/job.h"

enum { CAPO_TIMELINE_RANKS = 1024 };

struct capo_timeline_rank {
        uint32_t process;
        float *busy, *waiting; /* share of each part, 0..1; busy does not include waiting */
};

struct capo_timeline {
        double from_s, to_s; /* after the job's start */
        bool gpu;
        uint32_t n_parts, n_ranks;
        struct capo_timeline_rank *rank; /* by rank; if there are more than CAPO_TIMELINE_RANKS,
                                            that many spread evenly */
};

/** capo_timeline_make() - @parts of time; fewer if ranks x parts exceeds @cells. n_ranks 0: the
 * logs have no single calls. */
void capo_timeline_make(const struct capo_job *job, uint32_t parts, uint32_t cells,
                        struct capo_timeline *out);
