/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a job, found in the calls of one rank. Training and inference repeat a pattern of
 * calls; nothing of the framework is asked. The calls are given in the order in which the host made
 * them, from a log (analysis/steps/job_steps.h) or from the memory of a living process:
 *
 *      struct capo_step_call call = {.t_ns = ..., .comm = ..., .call = ..., .bytes = ...};
 *      struct capo_steps steps;
 *      capo_steps_find(calls, n, &steps);
 *      if (steps.known != CAPO_STEPS_NONE) ... steps.p50_ns, steps.step[steps.n - 1] ...
 *      capo_steps_finish(&steps);
 *
 * A step is the shortest stretch of calls that comes again and again and has in it what belongs to
 * one: a repeated layer or micro-batch is no step where a reduction of gradients follows k of them
 * (analysis/steps/steps_level.c). What cannot be told from the calls alone - whether k short
 * repeats and a small all-reduce are k steps with a log line, or one step of k micro-batches - is
 * UNCERTAIN, and says so.
 */
#ifndef CAPO_STEPS_H
#define CAPO_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One call that moves data. Leave out what creates and destroys, records of whole groups (their
 * members are calls), and calls captured into a CUDA graph. */
struct capo_step_call {
        uint64_t t_ns; /* when the host made it; any epoch */
        uint64_t bytes;
        uint32_t comm; /* any number that tells communicators apart */
        uint32_t seq;  /* its number on the communicator */
        int32_t peer;
        uint8_t call; /* enum capo_call_id */
};

enum capo_steps_known {
        CAPO_STEPS_NONE,
        CAPO_STEPS_UNCERTAIN,
        CAPO_STEPS_FOUND,
};

/* What a step is made of: @count calls alike. */
struct capo_step_part {
        uint64_t bytes;
        uint32_t comm, count;
        int32_t peer;
        uint8_t call;
        bool varies; /* of several sizes; bytes is the mean */
};

struct capo_step {
        uint64_t t_ns, ns;
        uint32_t first, n; /* its calls: the first one's place among those given, how many */
        bool plain;        /* made of the parts, with no more than a few small calls besides; else
                              something more was done in it, such as an evaluation */
};

struct capo_steps {
        enum capo_steps_known known;
        char why[200];         /* NONE: why not; UNCERTAIN: what else it can be */
        uint32_t period;       /* calls in a step */
        uint64_t bytes;        /* that they move */
        uint32_t inner, outer; /* calls of a shorter and of a longer repeat; 0: there is none */
        double covered;        /* of all calls given, those in plain steps */
        struct capo_step_part *part;
        uint32_t n_parts;
        struct capo_step *step; /* whole ones, in order */
        uint32_t n, n_plain;
        /* of plain steps */
        double p50_ns, p95_ns, mean_ns;
        double drift;     /* last quarter's median over the first one's, less 1 */
        uint32_t changed; /* number of the step, from 0, from which on they take clearly longer or
                             shorter (Pettitt's test, p < 0.001, and 5 % or more); 0: none */
        double before_ns, after_ns; /* medians on both sides */
};

/** capo_steps_find() - @calls by time. Return: 0; -ENOMEM. capo_steps_finish() is due. */
int capo_steps_find(const struct capo_step_call *calls, size_t n, struct capo_steps *out);
void capo_steps_finish(struct capo_steps *steps);

#endif
