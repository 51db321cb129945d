/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sweeping: each call of the job measures one candidate. All ranks of the communicator must try the
 * same one, and they cannot agree by messages. So the choice is computed from what they share: the
 * plan (CAPO_SWEEP), the communicator's hash, the number of NCCL's question about it, and the cost
 * table. tuner/trial.h says why all ranks are asked alike. Before 2.28 NCCL does not say which
 * communicator asks: there the recorder's uid and its count of collectives stand in.
 *
 * A cell that NCCL does not offer is never tried. The first calls of a communicator are left alone;
 * they set up connections. Killing the job at any moment loses nothing but the rest.
 */

#include "capo/env.h"
#include "capo/msg.h"
#include "tuner/sweep.h"
#include "tuner/tuner_env.h"

static struct capo_sweep_plan *in_force;

static struct capo_choice pick_candidate(const struct capo_sweep_ask *ask)
{
        static atomic_flag rules_sent = ATOMIC_FLAG_INIT;

        if (unlikely(!atomic_flag_test_and_set(&rules_sent)) && capo_seam && capo_seam->rules) {
                static char text[CAPO_SWEEP_CANDIDATES * 48];

                capo_sweep_plan_rules(in_force, text, sizeof text);
                capo_seam->rules(text);
        }
        return capo_sweep_pick(in_force, ask);
}

__attribute__((constructor)) static void init_sweep(void)
{
        static struct capo_sweep_plan plan;
        const char *text = getenv(
                CAPO_ENV_sweep); /* most processes have none: stop here, before settings are read */
        char why[128];

        if (!text || !*text)
                return;
        if (capo_sweep_plan_parse(capo_tuner_env()->sweep, &plan, why, sizeof why) < 0) {
                capo_warn("not sweeping: CAPO_SWEEP: %s", why);
                return;
        }
        in_force = &plan;
        capo_sweep_choose = pick_candidate;
}
