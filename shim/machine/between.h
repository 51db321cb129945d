/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** capo_between_sample() - what the process does between its calls of NCCL, now (between.c).
 * @reading_ns: for so long this thread has read the machine since the last sample.
 * capo_between_print(): lines of what was seen since it was asked last. Return: bytes. */
void capo_between_sample(uint64_t reading_ns);
size_t capo_between_print(char *text, size_t room);
void capo_between_fork(void);
