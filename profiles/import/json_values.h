/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>

/** json_num() - number @key of @o, also if it is written as text; @otherwise: missing or not
 * finite. */
double json_num(const json_t *o, const char *key, double otherwise);

/** json_count() - the same, rounded down; @otherwise also if it is below 0 or above @most. */
uint64_t json_count(const json_t *o, const char *key, uint64_t otherwise, uint64_t most);
#define JSON_BYTES_MAX ((uint64_t)1 << 62) /* limit for one call */

/** json_str() - text @key of @o; "": missing. */
const char *json_str(const json_t *o, const char *key);
