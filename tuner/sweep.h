/* SPDX-License-Identifier: Apache-2.0 */
/* The hook by which a sweep takes over the decision (tuner/sweep.c, `capo sweep`). */
#pragma once

#include "tuner/sweep_plan.h"

/** capo_sweep_choose - the candidate for this call, or algo 0: none, the profile decides
 *
 * NULL when not sweeping; set before the first communicator is made (a constructor that looks at
 * the setting is early enough) and never changed after. A pure function of its argument. Called on
 * the thread that NCCL asks on; no lock, no allocation, no output. A candidate that the table does
 * not offer is not applied. Asked only for calls the recorder is in. */
extern struct capo_choice (*capo_sweep_choose)(const struct capo_sweep_ask *ask);
