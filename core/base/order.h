/* SPDX-License-Identifier: Apache-2.0 */
/* What qsort() and bsearch() ask: which comes first. */
#ifndef CAPO_ORDER_H
#define CAPO_ORDER_H

#include <stdint.h>

/* Below, like or above 0 as @a is below, like or above @b. By several things: CAPO_ORDER(...) ?: CAPO_ORDER(...). */
#define CAPO_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static inline int capo_order_u64(const void *a, const void *b)
{
        return CAPO_ORDER(*(const uint64_t *)a, *(const uint64_t *)b);
}

static inline int capo_order_double(const void *a, const void *b)
{
        return CAPO_ORDER(*(const double *)a, *(const double *)b);
}

#endif
