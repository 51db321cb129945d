/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_PROFILE_SHOW_H
#define CAPO_PROFILE_SHOW_H

#include "core/profile/profile_table.h"
#include "core/base/size.h"

/** profile_show() - the whole profile as tables, to standard output. */
void profile_show(const struct capo_profile *profile);

struct profile_ask {
        struct capo_shape shape;
        const char *layout;            /* canonical, of the communicator; NULL */
        struct capo_question question; /* its bytes only when `one` */
        int coll;                      /* -1: all */
        bool one;
};

/** profile_show_match() - what this communicator gets, and why. 0, or -errno after a message. */
int profile_show_match(const struct capo_profile *profile, struct profile_ask *ask);

#endif
