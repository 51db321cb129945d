/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up machines whose true times are known, and measurements of them as people make them. */
#ifndef WORLDS_H
#define WORLDS_H

#include "profiles/import/import.h"

enum { MAX_SIZES = 24, KINDS = 7, MAX_RUNS = 5 };

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
        double slow_hour; /* ln: all runs of NCCL's own choice were slow by this; 0 none */
        double swapped;   /* part of a candidate's runs, where it has three or more, that was
                             measured under another's label */
};

/** world_make() - world @number of @seed. @default_runs, @runs: 0 by chance, else how many. */
void world_make(struct world *w, uint64_t seed, unsigned number, int default_runs, int runs);

/** world_measure() - its measurements. */
void world_measure(const struct world *w, struct capo_samples *set);

/** world_size() - bytes of size @i; world_truth() - us of kind @k; world_own() - NCCL's own choice.
 */
uint64_t world_size(const struct world *w, int i);
double world_truth(const struct world *w, int k, double bytes);
int world_own(const struct world *w, double bytes);

#endif
