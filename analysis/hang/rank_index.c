/* SPDX-License-Identifier: Apache-2.0 */
#include <search.h>
#include <stdlib.h>

#include "core/base/xalloc.h"
#include "analysis/hang/rank_index.h"

struct numbered {
        const void *key;
        int (*order)(const void *,
                     const void *); /* in each entry, because tsearch() passes nothing else */
        uint32_t number;
};

static int by_key(const void *a, const void *b)
{
        const struct numbered *x = a, *y = b;

        return x->order(x->key, y->key);
}

uint32_t capo_index_number(struct capo_index *index, const void *key,
                           int (*order)(const void *, const void *), uint32_t number)
{
        struct numbered *mine = xmalloc(sizeof *mine), **found;

        *mine = (struct numbered){.key = key, .order = order, .number = number};
        found = tsearch(mine, &index->root, by_key);
        if (!found)
                return number;
        number = (*found)->number;
        if (*found != mine)
                free(mine);
        return number;
}

void capo_index_finish(struct capo_index *index)
{
        tdestroy(index->root, free);
        index->root = NULL;
}
