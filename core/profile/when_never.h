/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct capo_when;

/** capo_when_never() - can no communicator be as @w says? @why: set when it cannot, the first
 * contradiction between two conditions. */
bool capo_when_never(const struct capo_when *w, char *why, size_t room);
