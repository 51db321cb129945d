/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>

#include "core/log/number_index.h"
#include "core/log/segment.h"

#define INDEX_LEAST 4096u

bool capo_index_new(struct capo_number_index *x)
{
        x->size = INDEX_LEAST;
        x->at = capo_map_own(x->size * sizeof *x->at);
        return x->at != NULL;
}

void capo_index_free(struct capo_number_index *x)
{
        if (x->at)
                munmap(x->at, x->size * sizeof *x->at);
        x->at = NULL;
}

void capo_index_clear(struct capo_number_index *x) { memset(x->at, 0, x->size * sizeof *x->at); }

int capo_index_grow(struct capo_number_index *x, uint32_t n)
{
        struct capo_number_index larger = *x;

        if (n <= x->size / 2)
                return 0;
        while (n > larger.size / 2)
                larger.size *= 2;
        larger.at = capo_map_own(larger.size * sizeof *larger.at);
        if (!larger.at)
                return -ENOMEM;
        capo_index_free(x);
        *x = larger;
        return 1;
}
