/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fit/planted_turns.h"
#include "tuner/trial.h"

bool planted_turn(uint64_t comm, uint64_t nth, uint32_t period)
{
        struct capo_trial trial = {
                .mode = CAPO_TRIAL_PREDICTED, .period = period, .calls = UINT64_MAX};

        return capo_trial_turn(&trial, comm, nth);
}
