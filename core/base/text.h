/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are put together piece by piece. */
#ifndef CAPO_TEXT_H
#define CAPO_TEXT_H

#include <stddef.h>

/**
 * capo_append() - printf() behind what a text has already
 * @text: ends within its @room bytes, and does so afterwards: what does not fit is cut off
 *
 * Return: @text.
 */
__attribute__((format(printf, 3, 4))) char *capo_append(char *text, size_t room, const char *format, ...);

#endif
