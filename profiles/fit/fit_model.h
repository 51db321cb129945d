/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for unmeasured allocations: NCCL's own model (capo plan), scaled by the ratio of measured
 * to predicted time on another allocation of the same machines. Such rules are marked "modelled".
 */
#pragma once

#include "profiles/fit/fit.h"
#include "profiles/fragment/fragment_orders.h"
#include "profiles/fragment/fragment_trays.h"

/* Below this size the model overrates NVLS: on 8 B300 it is 40 % too fast at 64 MiB, and prefers
 * NVLS where Ring was 5 to 11 % faster, at 64 and 128 MiB. On 4 and 6 H100 it is right from this
 * size on (docs/internals/models.md). */
#define CAPO_MODEL_NVLS_BYTES (256ull << 20)

struct capo_fit_machine {
        const char *tools; /* folder of the planner's programs */
        const char *libnccl;
        const char *topo;     /* NCCL topology XML of one node */
        const char *platform; /* NULL: the file has everything */
};

struct capo_fit_modelled {
        int n_rows;     /* written, without rows that leave NCCL's choice */
        int n_sizes;    /* examined */
        char from[160]; /* the measured allocation used for scaling */
};

/** capo_fit_model() - add a predicted rule for @layout ("3+5") to @profile
 * @out: the result; n_rows 0: no gain above CAPO_MODEL_MARGIN is expected, and no rule was written
 *
 * Return: 0; -ENODATA: no measurement to scale the model by; -EEXIST: @layout was measured;
 * -EINVAL: no such allocation; errors of capo_plan_ask(). @why: one line for each. */
int capo_fit_model(const struct capo_fit *fit, const struct capo_fit_machine *machine,
                   const char *layout, const struct capo_fit_options *options,
                   struct capo_profile *profile, struct capo_fit_modelled *out, char *why,
                   size_t room);

/* The decision for one collective at one size. */
struct capo_fit_decision {
        uint64_t bytes;
        uint8_t choice; /* CAPO_ALGO_PROTO; 0: NCCL's choice */
        double us, gain;
        uint8_t settle; /* the two results of the model disagree: measure this candidate; 0: none */
        double settle_gain; /* gain expected by the result that prefers it */
};

/** capo_fit_modelled_rows() - add the decisions of one collective (sorted by size) as rows of the
 * last rule
 * @open_end: the last decision applies to all larger sizes too
 *
 * Return: number of rows with a choice; 0: nothing was written. */
int capo_fit_modelled_rows(struct capo_profile *profile, unsigned coll,
                           const struct capo_fit_decision *d, int n, bool open_end);

/* An allocation without any measurement. */
struct capo_fit_fragment {
        struct fragment_model model;
        struct fragment_trays joined; /* on domains, if trays share an NVLink domain */
        char trays[CAPO_LAYOUT_TEXT]; /* ranks per tray; "": trays share none */
        struct capo_fit_decision
                *decided;              /* per row of model.nccl; us, gain also without a choice */
        char layout[CAPO_LAYOUT_TEXT]; /* as NCCL counts nodes; "": one node */
        char class[CAPO_CLASS_ROOM * 4];
        bool by_class; /* the rule names the class: ranks per node do not tell how GPUs are connected */
        struct fragment_orders orders; /* of its nodes (with trays: of its domains) */
        int n_rows;                    /* written */
        int n_rules; /* more than one: orders that need different choices have one each */
        int line;    /* index of the first rule in the profile; -1: none */
};

/** capo_fit_fragment() - add a predicted rule from NCCL's model corrected by the links
 * (profiles/fragment/fragment_model.h)
 * @asks: one collective after the other, sizes ascending
 * @profile: NULL: no rule is written; @options may be NULL then
 * @exact: for exactly these GPUs; else for any with as many per node, if that determines the class
 * @out: on success only, the caller ends it with capo_fit_fragment_finish()
 *
 * A row is written if cost and links of the model name one choice with a gain above CAPO_MODEL_MARGIN
 * and options->min_gain (NVLS only from CAPO_MODEL_NVLS_BYTES on). If only one does, `settle` is set
 * instead. Without rows there is no rule. With a->any_order each order of the nodes is asked: one rule
 * if all need the same choices (with the least gain of all), else one for each order that gains.
 *
 * Return: 0; errors of fragment_model(), with @why. */
int capo_fit_fragment(const struct fragment_machine *m, const struct capo_alloc *a, bool exact,
                      const struct capo_plan_ask *asks, size_t n_asks,
                      const struct capo_fit_options *options, struct capo_profile *profile,
                      struct capo_fit_fragment *out, char *why, size_t room);
void capo_fit_fragment_finish(struct capo_fit_fragment *f);

/** capo_fit_size_word() - a size as capo sweep --sizes accepts it. Returns @text. */
const char *capo_fit_size_word(uint64_t bytes, char text[24]);

enum { CAPO_FIT_SETTLE_TEXT = 512 };

/**
 * capo_fit_settle_text() - what is not settled about rows @first to @last, which have one `settle`
 * @command: the sweep that measures it
 *
 * Return: @text, of CAPO_FIT_SETTLE_TEXT each.
 */
char *capo_fit_settle_text(const struct capo_fit_fragment *f, int n_ranks, size_t first,
                           size_t last, char *text, char *command);
