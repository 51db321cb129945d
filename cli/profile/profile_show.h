/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/profile/profile_table.h"
#include "core/base/size.h"

/** profile_show() - print the whole profile as tables to standard output. */
void profile_show(const struct capo_profile *profile);

struct profile_ask {
        struct capo_shape shape;
        const char *layout;            /* canonical layout of the communicator; NULL: none */
        struct capo_question question; /* its bytes are only used if `one` */
        int coll;                      /* -1: all */
        bool one;
};

/** profile_show_match() - print what this communicator gets, and why. Return: 0; -errno after a
 * message. */
int profile_show_match(const struct capo_profile *profile, struct profile_ask *ask);
