/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of failures, by tables of whole lines and of words. */
#pragma once

#include "analysis/diagnose/evidence.h"

void capo_errors_read(struct capo_evidence *e); /* the tables of whole lines */

/** capo_lines_read() - the words of line_words.def: call it where no reader has a verdict. @weak: one
 * is undecided, and only a cause from before it counts. */
void capo_lines_read(struct capo_evidence *e, bool weak);

/** capo_last_errors_read() - what only says that something failed: call it when nothing else was
 * found. */
void capo_last_errors_read(struct capo_evidence *e);
void capo_words_read(struct capo_evidence *e); /* lines that nobody knows; call it last */
