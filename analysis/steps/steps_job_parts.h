/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that find the steps of a recorded job. */
#pragma once

#include "analysis/job/gpu_spans.h"
#include "analysis/job/job.h"
#include "analysis/steps/steps.h"

struct capo_job_steps;

/* The calls of one process that can be in steps, sorted by time. */
struct step_log {
        struct capo_step_call
                *call; /* comm: 1 + index in job->comms, 0: none; t_ns: since the epoch */
        uint32_t n;
        struct capo_gpu_span *span; /* sorted by begin; NULL: not requested */
        uint32_t n_spans;
        bool captured; /* some calls were captured into a CUDA graph; they are left out */
};
