/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about the items of an array, to name what a loop would only spell out. IT names a pointer to
 * the item, for the condition IS and the VALUE; LIST and N are evaluated for each item,
 * VALUE up to twice. */
#pragma once

#include "core/base/util.h"

/** FIRST_OF(), LAST_OF() - the item that IS holds for; NULL. ANY_OF(), ALL_OF() - for one, all? */
#define FIRST_OF(it, list, n, is)                      \
        ({                                             \
                __typeof__(&*(list)) it = (list);      \
                while (it < PAST_OF(list, n) && !(is)) \
                        it++;                          \
                it < PAST_OF(list, n) ? it : NULL;     \
        })
#define LAST_OF(it, list, n, is)                            \
        ({                                                  \
                __typeof__(&*(list)) it = PAST_OF(list, n); \
                bool found_ = false;                        \
                while (!found_ && it > (list))              \
                        it--, found_ = (is);                \
                found_ ? it : NULL;                         \
        })
#define ANY_OF(it, list, n, is) (FIRST_OF(it, list, n, is) != NULL)
#define ALL_OF(it, list, n, is) (FIRST_OF(it, list, n, !(is)) == NULL)

/** COUNT_OF() - for how many it holds. MOST_OF() - the largest VALUE; 0 without an item. */
#define COUNT_OF(it, list, n, is)                                                   \
        ({                                                                          \
                uint32_t count_ = 0;                                                \
                for (__typeof__(&*(list)) it = (list); it < PAST_OF(list, n); it++) \
                        count_ += (is) ? 1 : 0;                                     \
                count_;                                                             \
        })
#define MOST_OF(it, list, n, value)                                                 \
        ({                                                                          \
                uint64_t most_ = 0;                                                 \
                for (__typeof__(&*(list)) it = (list); it < PAST_OF(list, n); it++) \
                        most_ = (value) > most_ ? (value) : most_;                  \
                most_;                                                              \
        })
