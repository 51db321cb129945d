/* SPDX-License-Identifier: Apache-2.0 */
/* The last calls of one log: those of the process, and of each communicator a few that are older,
 * because another thread of the process may have made all of the last ones. */
#ifndef CAPO_HANG_LAST_CALLS_H
#define CAPO_HANG_LAST_CALLS_H

#include "capo/record.h"
#include "analysis/hang/hang_verdict.h"

enum { CAPO_HANG_OLDER = 8 };

struct hang_older_calls {
        uint32_t n; /* around */
        struct capo_record v[CAPO_HANG_OLDER];
};

struct hang_last_calls {
        struct capo_record *v; /* CAPO_HANG_CALLS, around; made by the user of this */
        uint64_t n;
        uint64_t first_ns;              /* begin of the oldest that was seen */
        struct hang_older_calls *older; /* by the number of the communicator */
        uint32_t n_older;
};

/** hang_last_take() - the next call of the log. Return: 0; -ENOMEM. */
int hang_last_take(struct hang_last_calls *l, const struct capo_record *r, unsigned thread);

/** hang_last_next() - those that are kept, the older ones first. @at: 0 at first, moved on. NULL
 * behind the last. */
const struct capo_record *hang_last_next(const struct hang_last_calls *l, uint64_t *at);

/** hang_last_clear() - none is kept: the next log begins. */
void hang_last_clear(struct hang_last_calls *l);

void hang_last_finish(struct hang_last_calls *l);

#endif
