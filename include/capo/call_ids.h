/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls by name. Apart from record.h because nearly everything knows records and few name a
 * call: a row more in calls.def rebuilds those that include this. Where the kind of a call is what
 * matters, capo_call_kind() (core/base/calls.h) tells it without.
 */
#ifndef CAPO_CALL_IDS_H
#define CAPO_CALL_IDS_H

#include "capo/record.h"

enum capo_call_id {
        CAPO_CALL_NONE = 0,
#define CAPO_CALL(id, name, kind) CAPO_CALL_##id,
#include "capo/calls.def"
        CAPO_CALLS,
};
static_assert(CAPO_CALLS <= CAPO_CALL_ROOM, "tables by call are too small");

#endif
