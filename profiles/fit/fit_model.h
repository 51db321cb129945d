/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that nobody measured: NCCL's own model for them (capo plan), corrected by what was
 * measured on another allocation of the same machines over what the model said there. Rules made so
 * are marked modelled.
 */
#ifndef CAPO_FIT_MODEL_H
#define CAPO_FIT_MODEL_H

#include "profiles/fit/fit.h"
#include "profiles/fragment/fragment_model.h"
#include "profiles/fragment/fragment_trays.h"

/* Less than this is within what the model is off by: 1 to 4 % where bandwidth rules, 17 % seen
 * elsewhere (docs/plan.md)
 */
#define CAPO_MODEL_MARGIN 0.15

/* The model takes NVLS for faster than it is below this: on 8 B300 it is 40 % too fast at 64 MiB
 * and prefers NVLS where Ring was 5 to 11 % faster, at 64 and 128 MiB; on 4 and 6 H100 it is right
 * from here on (docs/internals/models.md). */
#define CAPO_MODEL_NVLS_BYTES (256ull << 20)

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
 * @out: what was done; n_rows 0: nothing is expected to beat NCCL's own choice by
 * CAPO_MODEL_MARGIN, no rule written
 *
 * Return: 0; -ENODATA nothing measured that a model could be corrected by; -EEXIST @layout was
 * measured; -EINVAL no such allocation; what capo_plan_ask() returns. @why: one line for each.
 */
int capo_fit_model(const struct capo_fit *fit, const struct capo_fit_machine *machine,
                   const char *layout, const struct capo_fit_options *options,
                   struct capo_profile *profile, struct capo_fit_modelled *out, char *why,
                   size_t room);

/* What is decided about one collective at one size. */
struct capo_fit_decision {
        uint64_t bytes;
        uint8_t choice; /* CAPO_ALGO_PROTO; 0: leave it to NCCL */
        double us, gain;
        uint8_t settle; /* the two accounts of the links disagree: this one is worth a measurement;
                           0 none */
        double settle_gain; /* what the account that prefers it expects */
};

/** capo_fit_modelled_rows() - the decisions of one collective (by rising size) as rows of the last
 * rule
 * @open_end: the last decision holds for all larger sizes too
 * Return: rows that choose something, 0: nothing is written; what capo_profile_row() returns. */
int capo_fit_modelled_rows(struct capo_profile *profile, unsigned coll,
                           const struct capo_fit_decision *d, int n, bool open_end);

/* An allocation of which nothing at all is measured. */
struct capo_fit_fragment {
        struct fragment_model model;
        struct fragment_trays joined; /* what was modelled, where trays share an NVLink domain */
        char trays[64];               /* ranks per tray; "" nothing shares one */
        struct capo_fit_decision
                *decided; /* per row of model.nccl; us and gain also where the choice is left */
        char layout[64];  /* as NCCL counts nodes; "" one node */
        char class[CAPO_CLASS_ROOM * 4];
        bool by_class; /* the rule names the class: ranks per node alone do not say how the GPUs are
                          joined */
        int n_rows;    /* written */
        int line;      /* index of the rule in the profile; -1 none was needed */
};

/**
 * capo_fit_fragment() - NCCL's model corrected by the links (profiles/fragment/fragment_model.h),
 * as a modelled rule
 * @asks:  one collective after the other, sizes rising
 * @exact: these GPUs are meant; else any with as many per node, if that settles the class
 * @out:   ended by the caller with capo_fit_fragment_finish(), on success only
 *
 * A row is written where both accounts of the links (fragment_model.h, cost and links) name one
 * choice, each with a gain above CAPO_MODEL_MARGIN and options->min_gain (one that chooses NVLS
 * from CAPO_MODEL_NVLS_BYTES on). Where only one account does, no row: `settle`. No rule without
 * rows.
 *
 * Return: 0; -ENOMEM; what fragment_model() returns, with @why.
 */
int capo_fit_fragment(const struct fragment_machine *m, const struct capo_alloc *a, bool exact,
                      const struct capo_plan_ask *asks, size_t n_asks,
                      const struct capo_fit_options *options, struct capo_profile *profile,
                      struct capo_fit_fragment *out, char *why, size_t room);
void capo_fit_fragment_finish(struct capo_fit_fragment *f);

#endif
