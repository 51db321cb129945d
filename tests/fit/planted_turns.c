/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fit/planted_turns.h"
#include "tuner/trial.h"

bool planted_turn(uint64_t comm, uint64_t nth)
{
        static struct capo_trial trial;
        char why[128];

        return (trial.period ||
                capo_trial_parse("predicted,period=100", &trial, why, sizeof why) == 0) &&
               capo_trial_turn(&trial, comm, nth);
}
