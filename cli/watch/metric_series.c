/* SPDX-License-Identifier: Apache-2.0 */

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cli/watch/metric_series.h"
#include "core/base/xalloc.h"

/* The place of @hash, which is free if it is not there. */
static uint64_t *find_place(const struct metric_series *s, uint64_t hash)
{
        size_t at = hash & (s->room - 1);

        while (s->hash[at] && s->hash[at] != hash)
                at = (at + 1) & (s->room - 1);
        return &s->hash[at];
}

static bool make_room(struct metric_series *s)
{
        struct metric_series larger = {.n = s->n, .room = s->room ? 2 * s->room : 256};

        larger.hash = xcalloc(larger.room, sizeof *larger.hash);
        for (size_t i = 0; i < s->room; i++) {
                if (s->hash[i])
                        *find_place(&larger, s->hash[i]) = s->hash[i];
        }
        free(s->hash);
        *s = larger;
        return true;
}

bool metric_series_add(struct metric_series *s, const char *text, size_t n)
{
        uint64_t hash = XXH3_64bits(text, n) | 1, *place;

        if (2 * s->n >= s->room && !make_room(s))
                return false;
        place = find_place(s, hash);
        if (*place)
                return false;
        *place = hash;
        s->n++;
        return true;
}

void metric_series_clear(struct metric_series *s)
{
        free(steal(&s->hash));
        s->n = s->room = 0;
}
