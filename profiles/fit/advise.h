/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts the effect of a framework's bucket size: the gradient all-reduces of a recording are
 * summed per step, divided into buckets of other sizes, and timed with a curve of measured times.
 * All results are predictions and are marked as such. */
#pragma once

#include "analysis/job/stats.h"
#include "profiles/fit/fit.h"

/* Time of one all-reduce by size: linear in log size and log time between measured points; constant
 * bandwidth above the last, constant time below the first. */
struct capo_curve {
        struct capo_curve_point {
                double bytes, us;
                double pm; /* half the 95 % interval of us, as a fraction of it */
        } * at;
        size_t n;
};

struct capo_advice_bucket {
        uint64_t cap;         /* bytes: the bucket size setting */
        uint64_t bucket;      /* resulting bytes per bucket: the step's bytes divided evenly */
        uint64_t n;           /* buckets per step */
        bool beyond;          /* outside of the measured sizes */
        double seconds;       /* per step, predicted, without overlap */
        double doubt_seconds; /* half the 95 % interval of the difference from now */
};

enum { CAPO_ADVICE_BUCKETS = 12 };

struct capo_advice {
        const char *comm;
        uint32_t n_ranks;
        uint64_t steps;      /* of the recording; found, or given by the caller */
        bool steps_found;    /* from the greatest common divisor of the calls' counts */
        uint64_t calls;      /* all-reduces per step */
        uint64_t step_bytes; /* per step */
        uint64_t largest, smallest;
        double now_seconds;      /* per step, by the same curve */
        double recorded_seconds; /* per step, as timed on the GPU, waiting included; 0: not timed */
        struct capo_advice_bucket bucket[CAPO_ADVICE_BUCKETS];
        size_t n_buckets;
        double within; /* largest difference from now that no bucket size exceeds beyond the doubt
                          of measured times */
        int best;      /* index; -1: no change is worth it */
};

/** capo_curve_of_job() - from the recording's own all-reduces on @comm. Uses the lower quartile of
 * their times, to leave out waiting. Return: 0; -ENODATA: fewer than two sizes were timed on the
 * GPU. */
int capo_curve_of_job(const struct capo_job *job, uint32_t comm, struct capo_curve *out);

/** capo_curve_of_fit() - from a fit: at each size the profile's choice. Return: 0; -ENODATA: no
 * all-reduce on @n_ranks. */
int capo_curve_of_fit(const struct capo_fit *fit, uint32_t n_ranks, struct capo_curve *out);

/** capo_advise() - predict other bucket sizes for one communicator's gradients
 * @steps: number of steps; 0: find it
 *
 * Return: 0; -ENODATA: no all-reduces there, or the number of steps is not known; -EDOM: the sizes
 * look like a benchmark. */
int capo_advise(const struct capo_job *job, uint32_t comm, const struct capo_curve *curve,
                uint64_t steps, struct capo_advice *out);
