/* SPDX-License-Identifier: Apache-2.0 */
/* The tuner's schedule of turns, for programs that also know profiles/import/import.h: both have a
 * struct capo_trial. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** planted_turn() - has question @nth of the communicator @comm its turn, where one in @period has? */
bool planted_turn(uint64_t comm, uint64_t nth, uint32_t period);
