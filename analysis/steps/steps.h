/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the steps of a job in the calls of one rank. Training and inference repeat a pattern of
 * calls; the framework is not asked. Pass the calls in the order in which the host made them, from
 * a log (analysis/steps/job_steps.h) or from the memory of a live process:
 *
 *      struct capo_step_call call = {.t_ns = ..., .comm = ..., .call = ..., .bytes = ...};
 *      struct capo_steps steps;
 *      capo_steps_find(calls, n, &steps);
 *      if (steps.known != CAPO_STEPS_NONE) ... steps.p50_ns, steps.step[steps.n - 1] ...
 *      capo_steps_finish(&steps);
 *
 * A step is the shortest repeated sequence of calls that contains what a step needs. A repeated
 * layer or micro-batch is not a step if a reduction of gradients follows k of them
 * (analysis/steps/steps_find.c). Some cases cannot be decided from calls alone: k short repeats and
 * a small all-reduce may be k steps and a log line, or one step of k micro-batches. Those are
 * UNCERTAIN. */
#pragma once

#include "core/base/util.h"

/* One call that moves data. Leave out calls that create or destroy, records of whole groups (their
 * members are calls), and calls captured into a CUDA graph. */
struct capo_step_call {
        uint64_t t_ns; /* when the host made it; any epoch */
        uint64_t bytes;
        uint32_t comm; /* any number that identifies the communicator */
        uint32_t seq;  /* its number on the communicator */
        int32_t peer;
        uint8_t call;  /* enum capo_call_id */
        uint16_t rule; /* capo_record.rule */
};

enum capo_steps_known {
        CAPO_STEPS_NONE,
        CAPO_STEPS_UNCERTAIN,
        CAPO_STEPS_FOUND,
};

/* A part of a step: @count equal calls. */
struct capo_step_part {
        uint64_t bytes;
        uint32_t comm, count;
        int32_t peer;
        uint8_t call;
        bool varies; /* the sizes differ; bytes is their mean */
};

struct capo_step {
        uint64_t t_ns, ns;
        uint32_t first, n; /* its calls: index of the first in the input, and how many */
        bool plain;        /* the usual parts and a few small calls more at most: no evaluation */
};

struct capo_steps {
        enum capo_steps_known known;
        char why[200];   /* NONE: the reason; UNCERTAIN: the other reading */
        uint32_t period; /* calls per step */
        uint64_t bytes;  /* bytes per step */
        double covered;  /* share of the calls that are in plain steps */
        struct capo_step_part *part;
        uint32_t n_parts;
        struct capo_step *step; /* complete steps, in order */
        uint32_t n, n_plain;
        /* over plain steps */
        double p50_ns, p95_ns, mean_ns, mean_error_ns; /* standard error of the mean */
        double recent_p50_ns, recent_p95_ns;           /* of the last minutes */
        double drift;     /* median of the last quarter over that of the first, minus 1 */
        uint32_t changed; /* step from which on they take clearly longer or shorter; 0: none */
        double before_ns, after_ns; /* medians before and after the change */
};

/** capo_steps_find() - @calls must be sorted by time. Return: 0. Call capo_steps_finish(). */
int capo_steps_find(const struct capo_step_call *calls, size_t n, struct capo_steps *out);
void capo_steps_finish(struct capo_steps *steps);
