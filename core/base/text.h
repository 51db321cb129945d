/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are put together piece by piece. */
#pragma once

#include "core/base/util.h"

/** capo_append() - printf() behind what a text has already
 * @text: ends within its @room bytes, and does so afterwards: what does not fit is cut off
 *
 * Return: @text. */
__attribute__((format(printf, 3, 4))) char *capo_append(char *text, size_t room, const char *format,
                                                        ...);

/** capo_print() - printf() into memory that the caller frees. NULL: no memory. */
__attribute__((format(printf, 1, 0))) char *capo_print(const char *format, va_list args);

/** capo_text_when() - local time as strftime() says it; "": not known. Return: @text. */
__attribute__((format(strftime, 2, 0))) char *capo_text_when(uint64_t real_ns, const char *format,
                                                             char text[32]);
