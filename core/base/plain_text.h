/* SPDX-License-Identifier: Apache-2.0 */
/* Text of others - names out of a log, a description, a file - on its way to a person. A terminal
 * obeys some bytes: it can be made to show something else than what is there, to report back, to
 * rename itself. None of those get out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** capo_plain() - in place, with '?' for every byte of: controls but newline and tab (C0, DEL; C1
 * also as UTF-8), of letters that turn the direction of writing (U+202E, U+2066, ...), and whatever
 * is not UTF-8 (RFC 3629: no surrogates, nothing overlong)
 * @styles: the three sequences that capo's own pages use for bold, yellow and normal
 * (CAPO_STYLE_...) stay
 * @last:   nothing follows @text; else what may be the beginning of a letter at its end is left for
 *          the next time
 *
 * Return: bytes that are decided, n when @last. */
size_t capo_plain(char *text, size_t n, bool styles, bool last);

/** capo_plain_line() - the same of text for one line: without newline, tab and styles. */
void capo_plain_line(char *text, size_t n);

/** capo_utf8_put() - the letter @c, up to 10FFFF, to @text. Return: bytes, 1 to 4. */
unsigned capo_utf8_put(uint32_t c, char *text);

/** capo_utf8_size() - bytes of the letter at @p, which is no ASCII (RFC 3629: shortest form, no
 * surrogates, up to 10FFFF); 0: it is none. CAPO_UTF8_CUT: its @n bytes are the beginning of one. */
size_t capo_utf8_size(const unsigned char *p, size_t n);
#define CAPO_UTF8_CUT 9

#define CAPO_STYLE_BOLD   "\033[1m"
#define CAPO_STYLE_YELLOW "\033[33m"
#define CAPO_STYLE_NORMAL "\033[0m"
