/* SPDX-License-Identifier: Apache-2.0 */
/* Trials: a job spends one call in `period` on finding out whether a row of the profile is faster
 * than NCCL's own choice. With predicted rows (basis "modelled") the call in question runs the row,
 * and all others NCCL's choice; a guard is the other way round: rows decide, and the call in
 * question runs NCCL's choice. "tune" is both: predicted rows are tried, measured ones guarded.
 * Nothing is concluded inside the job: ranks that switched by their own times would disagree. capo
 * fit, or the next capo run, reads the log.
 *
 * Which question it is must be known to all ranks alike. NCCL asks a communicator's tuner the same
 * questions in the same order on every rank, or its own choices would differ, so each rank counts
 * the questions of the communicator (a graph that is replayed asks none, but NCCL wants a call to
 * be captured on all ranks or on none). The recorder's count of calls would not do: a non-blocking
 * rank asks on a thread of NCCL's, where nobody knows the call. Only a group that is simulated is
 * asked about on one rank alone; such questions are not counted.
 *
 * A question asked while a graph is captured has its turn as any other; capo fit leaves captured
 * calls out, which nothing times.
 *
 * CAPO_TRIAL is "predicted", "guard" or "tune", then ",period=N" and ",calls=N" (questions per
 * communicator). */
#pragma once

#include "core/profile/profile_table.h"

enum capo_trial_mode {
        CAPO_TRIAL_OFF,
        CAPO_TRIAL_PREDICTED = 1, /* bits */
        CAPO_TRIAL_GUARD = 2,
        CAPO_TRIAL_TUNE = 3
};

struct capo_trial {
        enum capo_trial_mode mode;
        uint32_t period; /* one call in so many */
        uint64_t calls;  /* questions of a communicator; afterwards no more are spent */
        uint8_t *predicted, *guarded; /* a bit per row of the profile */
        uint32_t n_rows;
};

/* What a question is asked about. */
struct capo_trial_ask {
        uint64_t comm; /* NCCL's hash of the communicator; 0: not known, then nothing is tried */
        uint64_t nth;  /* question of it, from 1 on; 0: of a group that is only simulated */
        const float *table; /* NCCL's predictions; NULL: before 2.22 */
        int n_algos, n_protos;
};

/** capo_least_cost() - the shortest time that NCCL predicts; -1: no pair is available. */
static inline float capo_least_cost(const float *table, int n)
{
        float least = -1;

        for (int i = 0; i < n; i++) {
                if (table[i] >= 0 && (least < 0 || table[i] < least))
                        least = table[i];
        }
        return least;
}

/** capo_trial_parse() - @text of CAPO_TRIAL; "" is OFF. Return: 0; -EINVAL with the reason. */
int capo_trial_parse(const char *text, struct capo_trial *out, char *why, size_t room);

/** capo_trial_rows() - mark the rows of @profile that are on trial. Return: 0; -ENOMEM. */
int capo_trial_rows(struct capo_trial *trial, const struct capo_profile *profile);

/** capo_trial_turn() - is this the one question of its period? By a hash of the communicator and
 * the period's number, so that no rhythm of the job falls in step with it. Pure. */
bool capo_trial_turn(const struct capo_trial *trial, uint64_t comm, uint64_t nth);

/** capo_trial_choose() - what becomes of the profile's choice @c
 *
 * Pure: equal on all ranks where the arguments are. A predicted row that NCCL itself predicts to
 * take more than twice the time of its choice is not tried.
 *
 * Return: @c, or algo 0 and rule 0: NCCL's own choice. */
struct capo_choice capo_trial_choose(const struct capo_trial *trial,
                                     const struct capo_trial_ask *ask, struct capo_choice c);
