/* SPDX-License-Identifier: Apache-2.0 */
/* What the job will be, as far as the command and the environment tell before it starts. */
#pragma once

#include "cli/doctor/doctor.h"
#include "core/base/layout.h"
#include "core/profile/match.h"

struct run_expected {
        struct capo_layout_launch launch; /* layout.n_nodes 0: not known */
        bool by_command; /* the launcher's own options tell the layout, or hide it */
        struct capo_reach reach;
        struct capo_shape shape;                           /* if the layout is known */
        char layout[CAPO_LAYOUT_TEXT], nccl[32], why[200]; /* why the layout is not known */
};

/** run_expect() - @given: --layout, or NULL. Next come CAPO_LAYOUT, the options of torchrun, srun and
 * mpirun in @command, and the environment. Return: 0; -EINVAL: CAPO_LAYOUT is no layout
 * (launch.said). */
int run_expect(char **command, const char *given, bool allow_modelled, struct run_expected *x);
