/* SPDX-License-Identifier: Apache-2.0 */
/* What qsort() and bsearch() ask: which comes first. */
#ifndef CAPO_ORDER_H
#define CAPO_ORDER_H

#include <stdint.h>
#include <stdlib.h>

/* Below, like or above 0 as @a is below, like or above @b. By several things: CAPO_ORDER(...) ?:
 * CAPO_ORDER(...). */
#define CAPO_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static inline int capo_order_u64(const void *a, const void *b)
{
        return CAPO_ORDER(*(const uint64_t *)a, *(const uint64_t *)b);
}

static inline int capo_order_double(const void *a, const void *b)
{
        return CAPO_ORDER(*(const double *)a, *(const double *)b);
}

/** capo_middle() - sorts @v. Return: its median, of an even number the lower one of the two; 0 of
 * none. */
static inline double capo_middle(double *v, size_t n)
{
        if (!n)
                return 0;
        qsort(v, n, sizeof *v, capo_order_double);
        return v[(n - 1) / 2];
}

#endif
