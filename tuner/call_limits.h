/* SPDX-License-Identifier: Apache-2.0 */
/* Which communicators have calls that the recorder turns (capo/seam.h, capo_tuner_steers()). */
#ifndef CAPO_STEER_H
#define CAPO_STEER_H

#include "tuner/choose.h"

/**
 * capo_steer_open() - @tuner, whose tables are settled, is a communicator's of an NCCL that has the
 * calls
 *
 * With CAPO_STEER=1 every rank turns the calls that its rows name, so one that cannot must not go
 * on.
 *
 * Return: NULL; why this process cannot turn calls, a sentence.
 */
const char *capo_steer_open(struct capo_tuner *tuner);
void capo_steer_close(struct capo_tuner *tuner);

#endif
