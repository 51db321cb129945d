/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives that a tuner is asked about, by name. For the files that name one. */
#pragma once

#include <assert.h>

#include "capo/call_kinds.h"

/* ncclFunc_t of the five calls a tuner is asked about: same numbers in every release since 2.4. */
enum capo_coll {
#define CAPO_COLL(id, ...) CAPO_COLL_##id,
#include "capo/collectives.def"
        CAPO_COLLS,
};

static_assert(CAPO_COLLS == CAPO_NCCL_COLLS,
              "a row more in the list is one more in capo/call_kinds.h");
