/* SPDX-License-Identifier: Apache-2.0 */
/* The text of INFO frames: lines of a key, a tab, a value. include/capo/log_keys.def lists the
 * keys; info.c makes the lines, in the job, and info_read.c parses them afterwards. */
#pragma once

#include "core/base/util.h"

/* CAPO_INFO_HOST is "host", and so on: a key that is misspelt does not compile. */
#define INFO_KEY(id, key, meaning) static const char CAPO_INFO_##id[] __attribute__((unused)) = key;
#include "capo/log_keys.def"

#define CAPO_INFO_FROM \
        ".from" /* behind the key of what a launcher reported: the key of the variable's name */

/** capo_info_print() - one line, its newline included and no zero behind it
 * @room: of @line; a value that does not fit is cut
 *
 * Control characters of the value become spaces: one line is one line. Allocates nothing.
 *
 * Return: bytes; 0 when @format cannot be printed or not even the key fits. */
size_t capo_info_print(char *line, size_t room, const char *key, const char *format, va_list args)
        __attribute__((format(printf, 4, 0)));

/** capo_info_put() - the same line of at most CAPO_INFO_LINE bytes, as a whole or not at all.
 * Return: bytes; 0: @room is not enough. */
enum { CAPO_INFO_LINE = 240 };
size_t capo_info_put(char *text, size_t room, const char *key, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
