/* SPDX-License-Identifier: Apache-2.0 */
/* The calls by name. Not in call_kinds.h, because nearly every file includes that and few name a
 * call: a new row in calls.def rebuilds only the files that include this. Code that needs the kind
 * of a call asks capo_call_kind() (core/base/calls.h) instead. */
#pragma once

#include <assert.h>

#include "capo/call_kinds.h"

enum capo_call_id {
        CAPO_CALL_NONE = 0,
#define CAPO_CALL(id, name, kind) CAPO_CALL_##id,
#include "capo/calls.def"
        CAPO_CALLS,
};
static_assert(CAPO_CALLS <= CAPO_CALL_ROOM, "tables by call are too small");
