/* SPDX-License-Identifier: Apache-2.0 */
/* What a person wrote around the lines of programs. */
#pragma once

#include "analysis/diagnose/evidence.h"

/* What the text is about, by the person's sentences. */
enum capo_topic { CAPO_TOPIC_NONE, CAPO_TOPIC_HANG, CAPO_TOPIC_SLOW, CAPO_TOPIC_ERROR };
enum capo_topic capo_prose_topic(const struct capo_evidence *e);

/** capo_line_is_prose() - is it a person's sentence, not a line of a program? */
bool capo_line_is_prose(const char *line);

/** capo_prose_read() - add the person's words to an undecided verdict @v; NULL: there is none. */
void capo_prose_read(struct capo_evidence *e, const struct capo_diagnose_finding *v);

/** capo_prose_ask() - print to @next what to collect for a text without a verdict. @topic: NONE: that of
 * the text. Return: @next. */
const char *capo_prose_ask(struct capo_evidence *e, enum capo_topic topic, char *next, size_t room);
