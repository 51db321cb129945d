/* SPDX-License-Identifier: Apache-2.0 */

#include "core/base/xalloc.h"
#include "profiles/fit/fit_private.h"

/* A radix sort, by the bytes in which the keys differ. */
void capo_fit_sort(struct capo_fit_key *v, size_t n)
{
        _cleanup_free_ struct capo_fit_key *room = xmalloc((n + 1) * sizeof *room);
        uint64_t any = 0, all = UINT64_MAX;

        for (size_t i = 0; i < n; i++) {
                any |= v[i].key;
                all &= v[i].key;
        }
        for (int shift = 0; shift < 64; shift += 8) {
                size_t at[257] = {0};

                if (!((any ^ all) >> shift & 255))
                        continue;
                for (size_t i = 0; i < n; i++)
                        at[(v[i].key >> shift & 255) + 1]++;
                for (int k = 0; k < 255; k++)
                        at[k + 1] += at[k];
                for (size_t i = 0; i < n; i++)
                        room[at[v[i].key >> shift & 255]++] = v[i];
                memcpy(v, room, n * sizeof *v);
        }
}
