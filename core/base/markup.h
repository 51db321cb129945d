/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/** capo_markup_text() - @text in XML or HTML, in double quotes or not: < > & " as entities. */
void capo_markup_text(FILE *out, const char *text);

/** capo_markup_csv() - @text as a cell of CSV: quoted where RFC 4180 wants it A text that a
 * spreadsheet would run as a formula (it begins with = + - @ or a tab) gets a ' in front, because
 * these texts come from outside. Not for numbers. */
void capo_markup_csv(FILE *out, const char *text);
