/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_MARKUP_H
#define CAPO_MARKUP_H

#include <stdio.h>

/** capo_markup_text() - @text as content or as a double-quoted attribute of XML, HTML, SVG: < > & " as entities. */
void capo_markup_text(FILE *out, const char *text);

#endif
