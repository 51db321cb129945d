/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates an answer: which rule of a profile decides a call, why the others do not, and where
 * NCCL with a tuner differs from NCCL alone. It uses the plugin's look-up (core/profile/match.h)
 * with the values that NCCL passed to a tuner for this communicator. */
#pragma once

#include "core/base/layout.h"
#include "core/profile/profile_table.h"
#include "profiles/plan/plan.h"

/* A profile, and the facts that a job would know. */
struct capo_plan_by {
        const struct capo_profile *profile; /* NULL: no rules */
        const char *layout;                 /* as set by a launcher; "" or NULL: none */
        const char *class;                  /* of the allocation; "" or NULL: not known */
        bool allow_modelled;
        unsigned n_ranks;
};

struct capo_plan_decision {
        struct capo_shape shape;
        struct capo_question question;
        struct capo_layout_why layout_why;
        struct capo_choice choice;
        char derived[CAPO_LAYOUT_TEXT]; /* shape.layout may point here: do not copy the struct */
};

/** capo_plan_decide() - the plugin's answer for @row of @own, the answer of NCCL alone. @out keeps
 * pointers to @by's strings. */
void capo_plan_decide(const struct capo_plan_by *by, const struct capo_plan_answer *own,
                      const struct capo_plan_row *row, struct capo_plan_decision *out);

/** capo_plan_look_up() - the same if shape and question are already set: sets out->choice. */
void capo_plan_look_up(const struct capo_profile *profile, struct capo_plan_decision *out);

/**
 * capo_plan_blocked() - one sentence why the profile's choice does not run; NULL: it runs, or there
 * is none.
 * @with: NULL: no answer with the profile exists.
 */
const char *capo_plan_blocked(const struct capo_choice *choice, const struct capo_plan_row *own,
                              const struct capo_plan_row *with);

enum capo_rule_fate {
        CAPO_RULE_DECIDES,
        CAPO_RULE_NOT_THIS_JOB,  /* why says which condition fails */
        CAPO_RULE_NOT_THIS_CALL, /* link, bandwidth, pipelining or registered buffers */
        CAPO_RULE_LESS_SPECIFIC, /* holds, but another does better; why says by what */
        CAPO_RULE_NO_ROW         /* holds, but has no row of this size */
};

struct capo_rule_verdict {
        uint32_t rule; /* index in the profile */
        enum capo_rule_fate fate;
        const char *why; /* NULL: nothing to add */
};

/** capo_plan_judge() - judge every rule for the collective of @d, in the profile's order
 * @winner: set to the rule that decides; UINT32_MAX: none
 *
 * Return: a list of @n items, to be freed. */
struct capo_rule_verdict *capo_plan_judge(const struct capo_profile *profile,
                                          const struct capo_plan_decision *d, uint32_t *winner,
                                          size_t *n);

/** capo_plan_constants() - the first rule that changes NCCL's constants for a communicator of this
 * shape; NULL: none, or this release does not support it. */
const struct capo_rule *capo_plan_constants(const struct capo_profile *profile,
                                            const struct capo_shape *shape);

/* One row, without and with the tuner. */
struct capo_plan_difference {
        struct capo_plan_row
                with;  /* us and busbw: NCCL's model for that choice, from the unchanged table */
        bool same;     /* algorithm, protocol and channels */
        char rule[96]; /* the row of the profile that decided: "my.json:41 measured, gain 17 %"; "":
                          none */
};

struct capo_plan_comparison {
        struct capo_plan_difference *rows; /* one per row of the answers; NULL: only one answer */
        size_t n_differ;
        bool agree;           /* all ranks agree, in all rows of both answers */
        bool any_rule;        /* some row was decided by a rule */
        const char *gap;      /* what this release does not report; NULL: it reports all */
        const char *no_match; /* why no rule of the profile can match here; NULL: one can, or there
                                 are none */
        unsigned n_chunks;    /* rows with a chunk size */
        bool chunks_dead;     /* this release does not ask a tuner for it */
        unsigned n_turned;    /* rows whose rule overrides the call itself, which only the preload
                                 library does */
        bool turned_dead;     /* this release has no calls that accept these overrides */
        unsigned modelled_left; /* predicted rules that are not used because they are not allowed */
        char why[CAPO_NEAREST_TEXT + 128]; /* the text of no_match */
};

/** capo_plan_compare() - @with NULL: evaluate @own alone. @by: NULL, or with a profile. */
void capo_plan_compare(const struct capo_plan_answer *own, const struct capo_plan_answer *with,
                       const struct capo_plan_by *by, struct capo_plan_comparison *out);
