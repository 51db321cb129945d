/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms and protocols by name. For the files that name one. Others pass numbers on, and ask
 * core/base/calls.h for their words. */
#pragma once

#include <assert.h>

#include "capo/call_kinds.h"

/* enum capo_algo, capo_proto: NCCL's numbers plus one, so that 0 means "not known". */
enum capo_algo {
        CAPO_ALGO_UNKNOWN = 0,
#define CAPO_ALGO(id, ...) CAPO_ALGO_##id,
#include "capo/algorithms.def"
        CAPO_ALGOS,
};

enum capo_proto {
        CAPO_PROTO_UNKNOWN = 0,
#define CAPO_PROTO(id, ...) CAPO_PROTO_##id,
#include "capo/protocols.def"
        CAPO_PROTOS,
};

static_assert(CAPO_ALGOS - 1 == CAPO_NCCL_ALGOS && CAPO_PROTOS - 1 == CAPO_NCCL_PROTOS,
              "a row more in a list is one more in capo/call_kinds.h");
