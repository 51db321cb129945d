/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that find steps. */
#pragma once

#include "analysis/steps/steps.h"

/* Equal calls have the same token. Sizes may be ignored: with a mixture of experts or batched
 * requests they differ from call to call. */
struct step_tokens {
        const struct capo_step_call *calls;
        uint32_t *of;  /* token of each call */
        uint64_t *sum; /* prefix sums of token hashes, without rare small ones: sequences of equal
                          difference have the same tokens, in any order. n + 1 items */
        uint64_t *hash, *bytes; /* by token; bytes: over all its calls */
        uint32_t *count, *example;
        uint32_t n, n_tokens;
        uint32_t from; /* marks are searched from this call on */
};

#define STEP_ALL_COMMS UINT32_MAX

/* A repeated sequence of @length calls. The calls from one occurrence to the next are a repeat. */
struct step_mark {
        uint32_t *at; /* where it occurs, ascending; owned if it is a finalist */
        uint32_t n;
        uint32_t length, comm; /* of the sequence; the communicator that its calls are on */
        uint32_t period;       /* calls in the usual repeat */
        uint64_t usual;        /* hash of the usual repeat */
        uint32_t example;      /* begin of one usual repeat */
        uint32_t repeats;      /* number of usual repeats */
};

enum { STEP_FINALISTS = 24 };
struct step_marks {
        struct step_mark mark[STEP_FINALISTS]; /* sorted by period when complete */
        uint32_t n;
};

/** step_marks_find() - the best mark of each period. */
void step_marks_find(const struct step_tokens *t, struct step_marks *out);
void step_marks_free(struct step_marks *m);

/** step_mark_follow() - find it in all calls, not only from t->from on. */
void step_mark_follow(const struct step_tokens *t, struct step_mark *m);

/** step_times() - fill the times in @s. */
void step_times(struct capo_steps *s);
