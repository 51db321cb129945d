/* SPDX-License-Identifier: Apache-2.0 */
/* Where meet.c and the fake provider wait for each other. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct meet {
        atomic_bool here; /* the provider's, inside the call */
        atomic_bool go;   /* the program's */
};
