/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to make of an answer: which rule of a profile decides a call and why the others do not, and
 * where NCCL with a tuner differs from NCCL by itself. The same look-up the plugin makes
 * (core/profile/match.h), with what NCCL told a tuner about this communicator.
 */
#ifndef CAPO_PLAN_JUDGE_H
#define CAPO_PLAN_JUDGE_H

#include "core/base/layout.h"
#include "core/profile/profile_table.h"
#include "profiles/plan/plan.h"

/* A profile, and what a job would know beside it. */
struct capo_plan_by {
        const struct capo_profile *profile; /* NULL: no rule decides anything */
        const char *layout;                 /* as a launcher says it; "" or NULL nothing */
        const char *class;                  /* of the allocation; "" or NULL not known */
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

/** capo_plan_decide() - what the plugin would answer for @row of @own, NCCL's answer by itself.
 * @by's strings are kept. */
void capo_plan_decide(const struct capo_plan_by *by, const struct capo_plan_answer *own,
                      const struct capo_plan_row *row, struct capo_plan_decision *out);

/** capo_plan_look_up() - the same for a shape and a question that are filled in: sets out->choice.
 */
void capo_plan_look_up(const struct capo_profile *profile, struct capo_plan_decision *out);

/** capo_plan_blocked() - one sentence why a choice of the profile does not run; NULL it does, or
 * there is none.
 * @with: NULL: nobody asked with the profile. */
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
        const char *why; /* NULL nothing more to say */
};

/**
 * capo_plan_judge() - every rule that lists the collective of @d, in the profile's order
 * @winner: set to the rule that decides, UINT32_MAX none
 *
 * Return: malloc'ed list of @n; NULL out of memory.
 */
struct capo_rule_verdict *capo_plan_judge(const struct capo_profile *profile,
                                          const struct capo_plan_decision *d, uint32_t *winner,
                                          size_t *n);

/** capo_plan_constants() - the first rule that changes NCCL's constants for a communicator of this
 * shape; NULL none, or this release takes none. */
const struct capo_rule *capo_plan_constants(const struct capo_profile *profile,
                                            const struct capo_shape *shape);

/* One row, by itself and with the tuner. */
struct capo_plan_difference {
        struct capo_plan_row with; /* us and busbw: NCCL's model for that choice, from its table
                                      before it was changed */
        bool same;                 /* algorithm, protocol and channels */
        char rule[96]; /* the row of the profile behind it: "my.json:41 measured, gain 17 %"; ""
                          none */
};

struct capo_plan_comparison {
        struct capo_plan_difference *rows; /* as the answers'; NULL: nothing to compare with */
        size_t n_differ;
        bool agree;           /* all ranks, in all rows of both */
        bool any_rule;        /* some row has one */
        const char *gap;      /* what this release tells nobody; NULL it tells all */
        const char *no_match; /* why no rule can hold here, with a profile that has some; NULL one
                                 can */
        unsigned n_chunks;    /* rows that say a chunk */
        bool chunks_dead;     /* this release asks no tuner for it */
        unsigned n_turned;    /* rows whose rule turns the call, which the preload library does and
                                 nobody asked here */
        bool turned_dead;     /* this release has no calls that take what they ask for */
        unsigned modelled_left; /* modelled rules that are not used because nobody asked for them */
        char why[160];          /* behind no_match */
};

/** capo_plan_compare() - @with NULL: judge @own alone. @by: NULL, or with a profile. Return: 0;
 * -ENOMEM. */
int capo_plan_compare(const struct capo_plan_answer *own, const struct capo_plan_answer *with,
                      const struct capo_plan_by *by, struct capo_plan_comparison *out);
void capo_plan_comparison_finish(struct capo_plan_comparison *c);

#endif
