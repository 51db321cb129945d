/* SPDX-License-Identifier: Apache-2.0 */
/* capo sweep --refine: which candidates the next round tries, from what the earlier ones measured. */
#pragma once

#include "profiles/import/import.h"
#include "tuner/sweep_plan.h"

struct sweep_round {
        unsigned classes; /* collective and power of two of the size, that were measured */
        unsigned settled; /* of these: nothing is open but what may be the best */
        unsigned tied;    /* of these: noise does not tell the best apart */
        unsigned most;    /* candidates open in one of them; in the first round in any */
};

/**
 * sweep_search() - set plan->base and plan->keep for the next round
 * @plan: the whole space
 * @set: all measurements so far; empty in the first round
 *
 * Coordinate descent in AutoCCL's order (Xu et al., NSDI 2025): algorithm, protocol, channels, chunk. Each pair
 * of algorithm and protocol starts from the first channels and chunk, and from four corners of long
 * lists. The leading pairs then try their neighbours in each coordinate, and those with
 * the same channels x chunk or chunk : channels.
 * If nothing near is new, what may be the fastest is measured again.
 */
void sweep_search(struct capo_sweep_plan *plan, const struct capo_samples *set,
                  struct sweep_round *round);

/** sweep_search_best() - the fastest candidate of the class so far, as an index of plan->candidate; -1:
 * none was measured. */
int sweep_search_best(const struct capo_sweep_plan *plan, const struct capo_samples *set,
                      unsigned coll, unsigned log2);
