/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text of RULES frames. core/log/rules.h describes the lines. @rules is the text of the
 * frame, NULL for none. */
#ifndef CAPO_RULES_READ_H
#define CAPO_RULES_READ_H

#include "core/log/rules.h"

/** capo_rules_value() - value of DIGEST, MODELLED, FILE, NAME, TURNS or SWEEP. False: not there,
 * and @out is "". */
bool capo_rules_value(const char *rules, const char *key, char *out, size_t room);

/** capo_rules_row() - the line at @line (up to a newline or zero) as a row or a candidate, but for
 * its file. */
bool capo_rules_row(const char *line, struct capo_rules_row *out);

/** capo_rules_find() - what capo_record.rule = @rule stands for; false when @rules does not tell.
 */
bool capo_rules_find(const char *rules, unsigned rule, struct capo_rules_row *out);

/** capo_rules_place() - "p.json:12", "sweep candidate", or "rule 12" when @rules does not tell.
 * Returns @text. */
const char *capo_rules_place(const char *rules, unsigned rule, char *text, size_t room);

#endif
