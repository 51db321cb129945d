/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that look at the steps of a recorded job share. */
#ifndef CAPO_STEPS_JOB_PARTS_H
#define CAPO_STEPS_JOB_PARTS_H

#include "analysis/job/gpu_spans.h"
#include "analysis/job/job.h"
#include "analysis/steps/steps.h"

struct capo_job_steps;

/* The calls of one process that may be in steps, by time. */
struct step_log {
        struct capo_step_call
                *call; /* comm: 1 + index in job->comms, 0 none; t_ns since the epoch */
        uint32_t n;
        struct capo_gpu_span *span; /* NULL: not asked for. By begin */
        uint32_t n_spans;
        bool captured; /* calls were captured into a CUDA graph: they are left out */
};

/** step_log_read() - the last @most calls, a power of two. @spans: also where they were on the GPU.
 * A log that cannot be read any more has none. Return: 0; -ENOMEM. */
int step_log_read(const struct capo_job *job, uint32_t process, uint32_t most, bool spans,
                  struct step_log *out);
void step_log_free(struct step_log *log);

/** step_log_comms() - number in the process -> 1 + index in job->comms; 65,536 of them. */
void step_log_comms(const struct capo_job *job, uint32_t process, uint32_t *comms);

/** steps_ran_ahead() - did the host make the calls of the steps so far ahead of the GPU that their
 * times say nothing? By the calls that were timed there; where none of them was, by what the
 * shortest of the calls in a step took in the job. */
bool steps_ran_ahead(const struct capo_job *job, const struct step_log *log,
                     const struct capo_steps *s);

/** job_slow_steps() - fill slow. @log: of s->process. Return: 0; -ENOMEM. */
int job_slow_steps(const struct capo_job *job, const struct step_log *log,
                   struct capo_job_steps *s);

#endif
