/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of operations and of lines in FABRIC frames, by name. For the files that name or list
 * them: others get along with core/log/fabric_frame.h. */
#pragma once

#include "core/log/fabric_frame.h"

/* Kinds of operations: the words of the log, the report and the JSON. */
enum capo_fi_kind {
#define FABRIC_KIND(id, key, transmits) CAPO_FI_##id,
#include "core/log/fabric_frame.def"
        CAPO_FI_KINDS,
};
static_assert(CAPO_FI_KINDS <= CAPO_FI_KIND_ROOM, "tables by kind are too small");

enum capo_fabric_line {
#define FABRIC_LINE(id, word, type) CAPO_FABRIC_##id,
#include "core/log/fabric_frame.def"
        CAPO_FABRIC_LINES,
};
