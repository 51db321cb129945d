/* SPDX-License-Identifier: Apache-2.0 */
/* Which communicators have calls that the recorder turns (capo/seam.h, capo_tuner_overrides()). */
#pragma once

#include "tuner/choose.h"

/** capo_override_open() - @tuner, whose tables are settled, is a communicator's of an NCCL that has
 * the calls
 *
 * With CAPO_STEER=1 every rank turns the calls that its rows name, so one that cannot must not go
 * on.
 *
 * Return: NULL; why this process cannot turn calls, a sentence. */
const char *capo_override_open(struct capo_tuner *tuner);
void capo_override_close(struct capo_tuner *tuner);
