/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up machines whose true times are known, and measurements of them as people make them. */
#pragma once

#include "profiles/import/import.h"

enum { MAX_SIZES = 24, KINDS = 7, MAX_RUNS = 5 };

/* How measurements go wrong. Each is defined by its statistics alone:
 * HEAVY       errors of runs and sizes have Student's t with 2 or 3 degrees of freedom, same quartiles
 * DEPENDENT   errors of neighbouring sizes of a run correlate by 0.9 a step, without an end
 * WALK        a run's level is that of the run before plus an independent step of 0.5 to 3 %
 * BIMODAL     3 runs in 10 are slow at all sizes by 4 to 15 %, which is the machine's second mode
 * DRIFT       the machine gets slower or faster by 3 to 15 % from the first run to the last
 * PLACE       one candidate is faster out of place and slower in place than NCCL's own choice
 * EXCHANGED   the labels of two candidates are exchanged in all their runs
 * Set aside, to be scored at the end:
 * SHIFT       at a run by chance the level changes by 3 to 12 %, up or down, for all runs after it
 * SKEWED      errors are only positive: exponential
 * All but PLAIN run either in turn or one choice after the other, and half do not record the order. */
enum world_trouble {
        WORLD_PLAIN,
        WORLD_HEAVY,
        WORLD_DEPENDENT,
        WORLD_WALK,
        WORLD_BIMODAL,
        WORLD_DRIFT,
        WORLD_PLACE,
        WORLD_EXCHANGED,
        WORLD_SHIFT,
        WORLD_SKEWED,
        WORLD_TROUBLES
};

extern const uint8_t world_kinds[KINDS]; /* algorithm and protocol */

struct world {
        double alpha[KINDS], beta[KINDS]; /* us; us per byte */
        double wrong[KINDS]; /* NCCL's belief over the truth, a factor that slides with the size */
        double slide[KINDS];
        int n_sizes, n_kinds;
        uint64_t first;
        int step; /* doublings */
        int default_runs, runs;
        bool sweep, says_what_ran;
        double noise_run, noise_call, small; /* ln; small: times as much at the smallest size */
        double drift;                        /* over all runs */
        enum world_trouble trouble;
        bool in_turn, order_known;       /* of its runs; not for PLAIN */
        double second_mode, step_of_run; /* ln */
        double slope;     /* ln, from the first run to the last; SHIFT: of the change */
        int changed;      /* SHIFT: the first run after it; PLACE: the candidate */
        double out, in;   /* PLACE: ln time of that candidate */
        double stretches; /* part of the runs that are slow at a stretch of sizes */
        double slow_hour; /* ln: all runs of NCCL's own choice were slow by this; 0 none */
        double swapped;   /* part of a candidate's runs, where it has three or more, that was
                             measured under another's label */
};

/** world_make() - world @number of @seed. @default_runs, @runs: 0 by chance, else how many. */
void world_make(struct world *w, uint64_t seed, unsigned number, int default_runs, int runs);

/** world_trouble() - give @w, just made, a trouble, before it is measured. */
void world_trouble(struct world *w, enum world_trouble trouble);

/** world_measure() - its measurements. */
void world_measure(const struct world *w, struct capo_samples *set);

/** world_size() - bytes of size @i; world_truth() - us of kind @k; world_own() - NCCL's own choice.
 */
uint64_t world_size(const struct world *w, int i);
double world_truth(const struct world *w, int k, double bytes);

/** world_place_truth() - the same in one place (enum capo_place). */
double world_place_truth(const struct world *w, int k, double bytes, int place);
int world_own(const struct world *w, double bytes);
