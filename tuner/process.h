/* SPDX-License-Identifier: Apache-2.0 */
/* What all communicators share: the profile, the launcher's layout, and tables per shape. */
#pragma once

#include <pthread.h>

#include "tuner/trial.h"

extern struct capo_process {
        pthread_mutex_t lock;
        bool ready;
        struct capo_profile *profile; /* NULL: none in force */
        bool failed;                  /* CAPO_PROFILE cannot be obeyed: `why` says why */
        char why[1000];
        char layout[CAPO_LAYOUT_TEXT]; /* of the job, by CAPO_LAYOUT or this rank's launcher; "" */
        bool speaks; /* rank 0 by the launcher, or no launcher: for what all would say */
        struct capo_trial trial; /* of the profile's rows */
        bool direct_blocked;     /* NCCL_ALGO or NCCL_PROTO is set */
} capo_process;

/** capo_process_load() - everything that happens once per process; afterwards nothing in
 * capo_process changes. The caller holds the lock. */
void capo_process_load(void);

/** capo_process_tables() - the tables for a shape, of an earlier communicator or compiled. The
 * caller holds the lock.
 * @own: the caller frees them
 *
 * Return: 0; -ENOMEM; -E2BIG as capo_tables_new(). */
int capo_process_tables(const struct capo_shape *shape, const struct capo_tables **out, bool *own);
