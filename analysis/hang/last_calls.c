/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "capo/call_ids.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"
#include "analysis/hang/last_calls.h"

static void keep_older(struct hang_last_calls *l, const struct capo_record *r)
{
        struct hang_older_calls *o;

        if (!r->comm || !r->seq || r->call == CAPO_CALL_GROUP)
                return;
        while (l->n_older <= r->comm) {
                xarray_room(&l->older, l->n_older, sizeof *l->older);
                l->older[l->n_older++].n = 0;
        }
        o = &l->older[r->comm];
        o->v[o->n++ % CAPO_HANG_OLDER] = *r;
}

void hang_last_take(struct hang_last_calls *l, const struct capo_record *r, unsigned thread)
{
        struct capo_record *place = &l->v[l->n % CAPO_HANG_CALLS];

        if (l->n >= CAPO_HANG_CALLS)
                keep_older(l, place);
        if (!l->n || r->t_begin < l->first_ns)
                l->first_ns = r->t_begin;
        *place = *r;
        place->thread = (uint16_t)thread;
        l->n++;
}

const struct capo_record *hang_last_next(const struct hang_last_calls *l, uint64_t *at)
{
        const uint64_t older = (uint64_t)l->n_older * CAPO_HANG_OLDER,
                       n = l->n < CAPO_HANG_CALLS ? l->n : CAPO_HANG_CALLS;

        for (; *at < older; ++*at) {
                const struct hang_older_calls *o = &l->older[*at / CAPO_HANG_OLDER];

                if (*at % CAPO_HANG_OLDER < o->n)
                        return &o->v[(*at)++ % CAPO_HANG_OLDER];
        }
        if (*at - older >= n)
                return NULL;
        return &l->v[(l->n - n + ((*at)++ - older)) % CAPO_HANG_CALLS];
}

void hang_last_clear(struct hang_last_calls *l)
{
        free(steal(&l->older));
        l->n_older = 0;
        l->n = l->first_ns = 0;
}

void hang_last_finish(struct hang_last_calls *l)
{
        free(steal(&l->older));
        free(steal(&l->v));
}
