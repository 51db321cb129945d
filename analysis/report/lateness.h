/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "analysis/job/job.h"

/** capo_few_text() - the calls that hold most of the waiting: "call #31", "calls #1 to #4", "4 calls
 * from #80 to #320". Return: @text. */
char *capo_few_text(const struct capo_skew *k, char text[96]);
