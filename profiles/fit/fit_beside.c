/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that ran outside of NCCL's table: reported, but not used for rules. */
#include <stdlib.h>

#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_private.h"

static int by_what(const void *a, const void *b)
{
        const struct capo_fit_item *x = a, *y = b;

        return CAPO_ORDER(x->key, y->key) ?: CAPO_ORDER(x->ran, y->ran) ?:
               CAPO_ORDER(x->bytes, y->bytes) ?: CAPO_ORDER(x->us, y->us);
}

void capo_fit_beside(struct capo_fit *fit, const struct capo_samples *set, const uint32_t *like,
                     struct capo_fit_item *items, size_t n)
{
        if (n)
                qsort(items, n, sizeof *items, by_what);
        for (size_t i = 0, k; i < n; i = k) {
                struct capo_fit_beside *b;
                size_t last = i;

                for (k = i + 1;
                     k < n && items[k].key == items[i].key && items[k].ran == items[i].ran; k++)
                        last = items[k].bytes != items[last].bytes ? k : last;
                xarray_room(&fit->beside, fit->n_beside, sizeof *b);
                b = &fit->beside[fit->n_beside++];
                *b = (struct capo_fit_beside){
                        .like = set->runs[like[items[i].key >> 16]],
                        .call = (uint8_t)(items[i].key >> 8),
                        .make = (uint8_t)items[i].key,
                        .ran = items[i].ran,
                        .from = items[i].bytes,
                        .upto = items[last].bytes,
                        .n_samples = k - i,
                        .us = (items[(last + k - 1) / 2].us + items[(last + k) / 2].us) / 2};
                b->like.source = NULL;
        }
}
