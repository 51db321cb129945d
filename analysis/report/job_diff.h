/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings of the same job before and after: what became faster or slower, and is it more than
 * noise. Each side may be several runs; then how much runs differ by themselves is known, and is
 * the noise.
 */
#ifndef CAPO_DIFF_H
#define CAPO_DIFF_H

#include "analysis/job/stats.h"

#define CAPO_DIFF_RUNS 64 /* a side; more are not looked at */

enum capo_diff_verdict {
        CAPO_DIFF_NOISE,
        CAPO_DIFF_SMALL, /* sure, but below @min_change */
        CAPO_DIFF_FASTER,
        CAPO_DIFF_SLOWER,
        CAPO_DIFF_HOST_TIMES, /* not judged: only how long the calls took to return is known */
        CAPO_DIFF_NOT_TIMED,  /* not judged: fewer than two calls of one side were timed */
};

/* One (communicator name, call, bytes) that both recordings have. */
struct capo_diff_row {
        const char *comm; /* of the first job */
        uint8_t call;
        uint8_t clock;                    /* the best that both have; HOST is the enqueue */
        uint64_t bytes, count_a, count_b; /* calls per rank */
        uint64_t timed_a, timed_b;
        double p50_a_us, p50_b_us; /* geometric means of the runs' medians */
        double change;             /* p50_b_us / p50_a_us - 1: 0.1 is 10 % slower; NAN not timed */
        double low, high; /* its 95 % interval over all rows together. A ratio is as likely twice as
                             half, so the ends are not equally far away */
        double half_width; /* half of that interval */
        double seconds;    /* on one rank, over its calls in b: negative is gained */
        uint8_t algo_proto_a, algo_proto_b; /* of the most calls; 0 not known */
        uint16_t rule_b;                    /* of the most calls in b */
        uint8_t verdict;
        double se_;            /* standard error of ln(after / before) */
        double freedom_;       /* of the variation between runs; 0: there is one */
        double calls_freedom_; /* of that within runs */
};

struct capo_diff {
        struct capo_diff_row *rows; /* by |seconds|, most first */
        size_t n_rows;
        bool between_runs;           /* noise is the variation between runs */
        uint64_t matched, unmatched; /* calls, over both recordings */
        double seconds;              /* sum over rows that are beyond noise */
        size_t n_faster, n_slower;
        size_t runs_a, runs_b;       /* runs compared */
        double seconds_a, seconds_b; /* how long the first of each took */
        const char
                *rules; /* what the numbers of rules stand for in all runs after (core/log/rules.h);
                           NULL when they had different profiles; the first job's */
};

/**
 * capo_diff_make() - compare finished jobs
 * @a, @b: the runs before and after; with as many after as before the i-th of each are a pair, made
 * at about the same time, so that drift of the machine hits both
 * @min_change: fraction below which nothing is called faster or slower, however sure
 *
 * Medians come from the logs' histograms (interpolated in buckets of 1/16 octave). With one run a
 * side an interval is that of the order statistics within the runs, never less than 1 %. With two
 * and more it comes from the variation between runs (or between pairs): of the row itself, or what
 * is typical of all rows where that is larger.
 *
 * Return: 0; -ENOMEM.
 */
int capo_diff_make(struct capo_job *const *a, size_t n_a, struct capo_job *const *b, size_t n_b,
                   double min_change, struct capo_diff *out);
void capo_diff_finish(struct capo_diff *d);

#endif
