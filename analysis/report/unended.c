/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that were not seen to end have no duration, so the time on the GPU leaves them out. In a job
 * that hung they can be most of it. This sums how long they had been there when each process was
 * seen last.
 */
#include <math.h>
#include <string.h>

#include "analysis/report/job_judge.h"
#include "analysis/report/unended.h"
#include "core/base/calls.h"
#include "core/log/info.h"
#include "core/log/unfinished.h"

/* Since when a call of @p has not been seen to end, in ns since the log's epoch; UINT64_MAX: none.
 */
static uint64_t unended_since(const struct capo_job_process *p)
{
        const char *line = capo_job_info(p, CAPO_INFO_UNFINISHED);
        const struct capo_job_call *last = &p->last_call;
        uint64_t since = UINT64_MAX;
        struct capo_unfinished_call u;
        bool idle = false;

        for (; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
                if (!capo_unfinished_read(line, &u))
                        continue;
                idle |= u.where == CAPO_UNFINISHED_IDLE && u.record.comm == last->comm;
                if ((u.where == CAPO_UNFINISHED_HOST || u.where == CAPO_UNFINISHED_ENDS ||
                     u.where == CAPO_UNFINISHED_RUNNING || u.where == CAPO_UNFINISHED_BUSY) &&
                    u.record.t_begin < since)
                        since = u.record.t_begin;
        }
        if (since == UINT64_MAX && last->call && !idle && last->clock != CAPO_CLOCK_EVENT &&
            last->clock != CAPO_CLOCK_KERNEL && capo_call_kind(last->call) != CAPO_KIND_OTHER)
                since = last->t_begin;
        return since;
}

double capo_unended_share(const struct capo_job *job)
{
        double all = (double)capo_job_duration_ns(job) * job->n_processes, sum = 0;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];
                const char *status = capo_job_info(p, CAPO_INFO_EXIT);
                uint64_t since;

                if (capo_process_ended(job, p) && (!status || !strcmp(status, "0")))
                        continue;
                since = unended_since(p);
                if (since < p->last_ns)
                        sum += (double)(p->last_ns - since);
        }
        return all > 0 ? fmin(1, sum / all) : 0;
}
