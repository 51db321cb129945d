/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that nobody measured: NCCL's own model for them (capo plan), corrected by what was measured on another
 * allocation of the same machines over what the model said there. Rules made so are marked modelled.
 */
#ifndef CAPO_FIT_MODEL_H
#define CAPO_FIT_MODEL_H

#include "profiles/fit.h"

/* Less than this is within what the model is off by: 1 to 4 % where bandwidth rules, 17 % seen elsewhere (docs/plan.md)
 */
#define CAPO_MODEL_MARGIN 0.15

struct capo_fit_machine {
        const char *tools; /* folder of the planner's parts */
        const char *libnccl;
        const char *topo;     /* NCCL topology XML of one node */
        const char *platform; /* NULL: the file says all */
};

struct capo_fit_modelled {
        int n_rows;     /* written, "leave" rows not counted */
        int n_sizes;    /* looked at */
        char from[160]; /* the measured allocation it leans on */
};

/**
 * capo_fit_model() - add a modelled rule for @layout ("3+5") to @profile
 * @out: what was done; n_rows 0: nothing is expected to beat NCCL's own choice by CAPO_MODEL_MARGIN, no rule written
 *
 * Return: 0; -ENODATA nothing measured that a model could be corrected by; -EEXIST @layout was measured; -EINVAL no
 * such allocation; what capo_plan_ask() returns. @why: one line for each.
 */
int capo_fit_model(const struct capo_fit *fit, const struct capo_fit_machine *machine, const char *layout,
                   const struct capo_fit_options *options, struct capo_profile *profile, struct capo_fit_modelled *out,
                   char *why, size_t room);

#endif
