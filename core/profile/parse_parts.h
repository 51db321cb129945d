/* SPDX-License-Identifier: Apache-2.0 */
/* What the parsers of a profile's parts share. */
#ifndef CAPO_PARSE_PARTS_H
#define CAPO_PARSE_PARTS_H

#include "core/profile/profile_json.h"

struct capo_profile;

/** capo_parse_word() - one of @words, without regard to case, '_' and '-'; *@out is its index.
 * Return: false with a fault. */
bool capo_parse_word(struct capo_json *r, const struct capo_slice *words, size_t n, uint8_t *out);

/** capo_parse_whole() - a whole number from @min to @max; @what is expected else. Return: false
 * with a fault. */
bool capo_parse_whole(struct capo_json *r, double min, double max, double *out, const char *what);

/** capo_parse_rows() - the list of rows of a rule for @coll, into @p. Return: false with a fault.
 */
bool capo_parse_rows(struct capo_json *r, struct capo_profile *p, unsigned coll);

#endif
