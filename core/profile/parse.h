/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a rule, read by themselves; include/capo/profile.h has what reads a whole profile. */
#pragma once

#include "core/profile/profile_json.h"

struct capo_profile;

/** capo_parse_rows() - the list of rows of a rule for @coll, into @p. Return: false with a fault.
 */
bool capo_parse_rows(struct capo_json *r, struct capo_profile *p, unsigned coll);
