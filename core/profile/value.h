/* SPDX-License-Identifier: Apache-2.0 */
/* Values of JSON by themselves, whatever the locale. */
#pragma once

#include "core/base/util.h"

/** capo_number_read() - the number at @p. Return: one past it; NULL: none, or it is too large. */
const char *capo_number_read(const char *p, const char *end, double *out);

/** capo_number_parse() - decimal of @size bytes in any locale. false: not one, or too large. */
bool capo_number_parse(const char *text, size_t size, double *out);

/** capo_number_print() - shortest decimal that reads back equal, whatever the locale;
 * capo_float_print() - that is the same float. Both return @text, at least 40 bytes. */
char *capo_number_print(double value, char *text, size_t room);
char *capo_float_print(float value, char *text, size_t room);

/** capo_text_put() - write @text in quotes, escaped where JSON wants it. */
void capo_text_put(FILE *out, const char *text);
