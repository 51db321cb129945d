/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/** capo_between_sample() - what the process does between its calls of NCCL, now (between.c).
 * capo_between_print(): lines of what was seen since it was asked last. Return: bytes. */
void capo_between_sample(void);
size_t capo_between_print(char *text, size_t room);
void capo_between_fork(void);
