/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a framework's knobs would change: the gradient all-reduces of a recording are put together
 * per step, cut anew at other bucket sizes, and timed by a curve of measured times. All of it is a
 * model and says so.
 */
#ifndef CAPO_ADVISE_H
#define CAPO_ADVISE_H

#include "analysis/job/stats.h"
#include "profiles/fit/fit.h"

/* Time of one all-reduce by size, straight between measured points in log size and log time; beyond
 * the last at its bandwidth, below the first at its time. */
struct capo_curve {
        double *bytes, *us;
        double *pm; /* half the 95 % interval of us, as a part of it */
        size_t n;
};

struct capo_advice_bucket {
        uint64_t cap;         /* bytes: the knob's value */
        uint64_t bucket;      /* bytes a bucket really gets: the step's bytes shared evenly */
        uint64_t n;           /* buckets per step */
        bool beyond;          /* the sizes that were measured */
        double seconds;       /* per step, modelled, nothing overlapped */
        double doubt_seconds; /* half the 95 % interval of how much more or less that is than now */
};

enum { CAPO_ADVICE_BUCKETS = 12 };

struct capo_advice {
        const char *comm;
        uint32_t n_ranks;
        uint64_t steps;      /* of the recording; found, or told */
        bool steps_found;    /* by the greatest common count of the calls */
        uint64_t calls;      /* all-reduces per step */
        uint64_t step_bytes; /* per step */
        uint64_t largest, smallest;
        double now_seconds;      /* per step, by the same curve */
        double recorded_seconds; /* per step, as the GPU's clock saw it, waiting included; 0 not
                                    timed */
        struct capo_advice_bucket bucket[CAPO_ADVICE_BUCKETS];
        size_t n_buckets;
        double within; /* no bucket size differs from now by more than this part and by more than
                          the measured times' doubt */
        int best;      /* index; -1: as good as it is */
};

/** capo_curve_of_job() - from the recording's own all-reduces on @comm (lowest quarter of their
 * times: waiting left out as far as that goes). Return: 0; -ENODATA fewer than two sizes timed on
 * the GPU; -ENOMEM. */
int capo_curve_of_job(const struct capo_job *job, uint32_t comm, struct capo_curve *out);

/** capo_curve_of_fit() - from a fit: at each size what the profile would choose. Return: 0;
 * -ENODATA no all-reduce on
 * @n_ranks; -ENOMEM. */
int capo_curve_of_fit(const struct capo_fit *fit, uint32_t n_ranks, struct capo_curve *out);

/** capo_curve_at() - microseconds. */
double capo_curve_at(const struct capo_curve *c, double bytes);
void capo_curve_finish(struct capo_curve *c);

/**
 * capo_advise() - one communicator's gradients
 * @steps: 0: find them
 *
 * Return: 0; -ENODATA: no all-reduces there, or the number of steps cannot be told; -EDOM: these
 * are the sizes of a benchmark.
 */
int capo_advise(const struct capo_job *job, uint32_t comm, const struct capo_curve *curve,
                uint64_t steps, struct capo_advice *out);

#endif
