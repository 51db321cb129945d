/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that find steps share. */
#ifndef CAPO_STEPS_PARTS_H
#define CAPO_STEPS_PARTS_H

#include "analysis/steps/steps.h"

/* Calls that look alike are one token. Sizes may be left out: those of a mixture of experts or of
 * batched requests differ from call to call. */
struct step_tokens {
        const struct capo_step_call *calls;
        uint32_t *of;  /* by call */
        uint64_t *sum; /* of the hashes of the tokens before, but of small ones that are seldom: two
                          stretches with the same difference have the same tokens, in any order.
                          n + 1 */
        uint64_t *hash, *bytes; /* by token; bytes: of all its calls */
        uint32_t *count, *example;
        uint32_t n, n_tokens;
        uint32_t from; /* marks are looked for from this call on */
};

/** step_tokens_make() - @merge: how many sizes of one kind are taken for one: 0 none, 1 those of
 * sends, receives and all-to-all, 2 all, where there are many. Return: 0; -ENOMEM. */
int step_tokens_make(const struct capo_step_call *calls, uint32_t n, unsigned merge,
                     struct step_tokens *out);
void step_tokens_free(struct step_tokens *t);

#define STEP_ALL_COMMS UINT32_MAX

/* A mark that comes again, @length calls in a row: the calls between one and the next are a
 * repeat. */
struct step_mark {
        uint32_t *at; /* places, ascending; owned where it is a finalist */
        uint32_t n;
        uint32_t length, comm; /* the row, of the calls of this communicator */
        uint32_t period;       /* calls of the usual repeat */
        uint64_t usual;        /* its hash */
        uint32_t example;      /* where one begins */
        uint32_t repeats;      /* of it */
};

enum { STEP_FINALISTS = 24 };
struct step_marks {
        struct step_mark mark[STEP_FINALISTS]; /* by period once they are found */
        uint32_t n;
};

/** step_marks_find() - the best mark for each period. Return: 0; -ENOMEM. */
int step_marks_find(const struct step_tokens *t, struct step_marks *out);
void step_marks_free(struct step_marks *m);

/** step_mark_follow() - its places among all calls, not only from t->from on. Return: 0; -ENOMEM.
 */
int step_mark_follow(const struct step_tokens *t, struct step_mark *m);

/** step_level_choose() - the mark whose repeats are steps. @out gets known, why, period, inner,
 * outer, covered. Return: its index; -1 none; -ENOMEM. */
int step_level_choose(const struct step_tokens *t, struct step_marks *m, struct capo_steps *out);

/** step_is_plain() - has the stretch of @n calls from @first what one @of the @n_of calls has, and
 * little more? @counts: one per token, all 0, left so. */
bool step_is_plain(const struct step_tokens *t, uint32_t of, uint32_t n_of, uint32_t first,
                   uint32_t n, int32_t *counts);

/** step_times() - what is told of the times of the steps. Return: 0; -ENOMEM. */
int step_times(struct capo_steps *s);

#endif
