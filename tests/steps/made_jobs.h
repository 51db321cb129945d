/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of one rank of a made-up job whose steps are known. What a step is made of is what the
 * recorded programs do (tests/patterns): DDP, FSDP, ZeRO, tensor and pipeline parallel, and what
 * combines them, with as many layers, buckets and micro-batches as wanted. Around the steps there
 * is what real jobs have: a start, a cut beginning, log lines, evaluations, uneven epochs, stalls,
 * calls out of order.
 */
#pragma once

#include "analysis/steps/steps.h"

enum made_kind {
        MADE_DDP,
        MADE_FSDP,
        MADE_ZERO2,
        MADE_ZERO3,
        MADE_TENSOR,
        MADE_PIPELINE,
        MADE_MOE,
        MADE_3D, /* tensor, pipeline and data parallel */
        MADE_DECODE,
        MADE_STEPS, /* those above have steps */
        MADE_SWEEP = MADE_STEPS,
        MADE_CHAOS,
        MADE_KINDS,
};

struct made_job {
        enum made_kind kind;
        struct capo_step_call *call;
        uint32_t n;
        uint32_t period; /* calls of a step without anything besides; 0: there are no steps */
        uint32_t steps;  /* whole ones */
        char what[160];  /* the choices made */
};

const char *made_name(enum made_kind kind);

/** made_job() - the same @seed makes the same job. Ends the process without memory. */
struct made_job made_job(enum made_kind kind, uint64_t seed);
/** made_plain() - one recorded step after the other, nothing besides: what @pattern has. */
struct made_job made_plain(enum made_kind kind, uint32_t layers, uint32_t steps);
