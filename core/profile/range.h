/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges: a number or text as "4-8", "16-", "2.28-2.30". docs/profile-format.md has the grammar. */
#pragma once

#include "capo/profile.h"
#include "core/profile/profile_json.h"

enum capo_range_kind {
        CAPO_RANGE_WHOLE, /* whole numbers */
        CAPO_RANGE_GBS,
        CAPO_RANGE_NCCL, /* releases; only as text */
};

/** capo_range_any() - is it CAPO_ANY? */
static inline bool capo_range_any(struct capo_range range)
{
        return range.min < 0 && range.max < 0;
}

/** capo_range_read() - take one. False: @r has failed. */
bool capo_range_read(struct capo_json *r, enum capo_range_kind kind, struct capo_range *out);

/** capo_range_print() - as people write it. Return: does JSON want quotes round it? */
bool capo_range_print(enum capo_range_kind kind, struct capo_range range, char *text, size_t room);
