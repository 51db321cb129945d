/* SPDX-License-Identifier: Apache-2.0 */
/* Compares recordings of the same job before and after a change: what became faster or slower, and
 * whether that is larger than run-to-run noise. With several runs per side, the differences between
 * runs of a side are the noise. */
#pragma once

#include "analysis/job/stats.h"

#define CAPO_DIFF_RUNS 64 /* per side; more are ignored */

enum capo_diff_verdict {
        CAPO_DIFF_NOISE,
        CAPO_DIFF_SMALL, /* sure, but below the least change that was asked for */
        CAPO_DIFF_FASTER,
        CAPO_DIFF_SLOWER,
        CAPO_DIFF_HOST_TIMES, /* not judged: only how long the calls took to return is known */
        CAPO_DIFF_NOT_TIMED,  /* not judged: fewer than two calls of one side were timed */
};

/* One (communicator name, call, bytes) that both recordings have. */
struct capo_diff_row {
        const char *comm; /* of the first job */
        uint8_t call;
        uint8_t clock; /* the best clock that both have; HOST measures the enqueue */
        uint64_t bytes, count_a, count_b; /* calls per rank */
        double p50_a_us, p50_b_us;        /* geometric means of the runs' medians */
        double change;     /* p50_b_us / p50_a_us - 1: 0.1 is 10 % slower; NAN: not timed */
        double low, high;  /* its simultaneous 95 % interval over all rows. It is symmetric for the
                              logarithm, so the ends are not equally far away */
        double half_width; /* half of that interval */
        double seconds; /* on one rank, over the calls that it made in a and in b; negative: gained */
        uint8_t algo_proto_a, algo_proto_b; /* of most calls; 0 not known */
        uint16_t rule_b;                    /* of most calls in b */
        uint8_t verdict;
        double se_;            /* standard error of ln(after / before) */
        double freedom_;       /* degrees of freedom of the variation between runs; 0: one run */
        double calls_freedom_; /* degrees of freedom within runs */
};

struct capo_diff {
        struct capo_diff_row *rows; /* sorted by |seconds|, most first */
        size_t n_rows;
        bool between_runs;           /* noise is the variation between runs */
        uint64_t matched, unmatched; /* calls, over both recordings */
        double seconds;              /* sum over statistically significant rows */
        size_t n_faster, n_slower;
        size_t runs_a, runs_b;       /* runs compared */
        double seconds_a, seconds_b; /* duration of the first run of each side */
        const char *rules; /* meaning of rule numbers, common to all runs after (core/log/rules.h);
                              NULL: their profiles differ. Owned by the first job */
};

/** capo_diff_make() - compare finished jobs
 * @a, @b: the runs before and after. With equal numbers, the i-th of each are a pair made at about
 * the same time, so that drift of the machine affects both
 * @min_change: changes below this fraction are never called faster or slower
 *
 * Medians come from the logs' histograms (interpolated in buckets of 1/16 octave). With one run per
 * side, the interval comes from the order statistics within the runs and is at least 1 %. With
 * more, it comes from the variation between runs (or between pairs): that of the row, or the
 * typical one of all rows if larger. */
void capo_diff_make(struct capo_job *const *a, size_t n_a, struct capo_job *const *b, size_t n_b,
                    double min_change, struct capo_diff *out);
