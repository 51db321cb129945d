/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "analysis/job/stats.h"
#include "analysis/log/log_read.h"

/* capo_job_add() for the path of a log. */
static inline int add_log(struct capo_job *job, const char *path, char *why, size_t why_size)
{
        struct capo_log *log;
        int r = capo_log_open(path, &log, why, why_size);

        if (r == 0)
                capo_job_add(job, log);
        return r;
}
