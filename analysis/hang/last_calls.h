/* SPDX-License-Identifier: Apache-2.0 */
/* The last calls of one log. A few older ones are kept for each communicator, because another
 * thread of the process may have made all of the last ones. */
#pragma once

#include "capo/record.h"
#include "analysis/hang/hang_verdict.h"

enum { CAPO_HANG_OLDER = 8 };

struct hang_older_calls {
        uint32_t n; /* a ring buffer */
        struct capo_record v[CAPO_HANG_OLDER];
};

struct hang_last_calls {
        struct capo_record *v; /* CAPO_HANG_CALLS, a ring buffer; allocated by the caller */
        uint64_t n;
        uint64_t first_ns;              /* begin of the oldest call seen */
        struct hang_older_calls *older; /* by id of the communicator */
        uint32_t n_older;
};

/** hang_last_take() - add the next call of the log. */
void hang_last_take(struct hang_last_calls *l, const struct capo_record *r, unsigned thread);

/** hang_last_next() - walk the kept calls, older ones first. @at: starts with 0. NULL after the
 * last. */
const struct capo_record *hang_last_next(const struct hang_last_calls *l, uint64_t *at);

/** hang_last_clear() - remove all, before the next log. */
void hang_last_clear(struct hang_last_calls *l);

void hang_last_finish(struct hang_last_calls *l);
