/* SPDX-License-Identifier: Apache-2.0 */
/* Where meet.c and the fake provider wait for each other. */
#ifndef CAPO_TESTS_MEET_H
#define CAPO_TESTS_MEET_H

#include <stdatomic.h>
#include <stdbool.h>

struct meet {
        atomic_bool here; /* the provider's, inside the call */
        atomic_bool go;   /* the program's */
};

#endif
