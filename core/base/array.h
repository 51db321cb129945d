/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that grow. The one place that decides how: by the number of items, without a field. */
#pragma once

#include "core/base/util.h"

/** capo_array_room() - make room for one more item behind the first @n of a list
 * @list: address of the list's pointer (struct x **), NULL for an empty list. A list that grows
 *        moves.
 * @n:    items in it; the list must have been grown by this function only, one at a time
 * @item: bytes of one item
 *
 * The room is the smallest power of two that holds the list, so it grows only where @n is 0 or a
 * power of two and every item is moved once on average.
 *
 * Return: 0; -ENOMEM: the list is as it was. */
static inline int capo_array_room(void *list, size_t n, size_t item)
{
        void **at = list, *larger;
        size_t room = n ? 2 * n : 1;

        if (n & (n - 1))
                return 0;
        larger = room > SIZE_MAX / item ? NULL : realloc(*at, room * item);
        if (!larger)
                return -ENOMEM;
        *at = larger;
        return 0;
}
