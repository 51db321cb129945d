/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text of RULES frames (core/log/rules.h describes the lines). @rules is the text of the
 * frame; NULL: none. */
#pragma once

#include "core/log/rules.h"

/** capo_rules_value() - the value of DIGEST, MODELLED, FILE, NAME, TURNS or SWEEP. False: missing,
 * and @out is "". */
bool capo_rules_value(const char *rules, const char *key, char *out, size_t room);

/** capo_rules_row() - parse @line (up to a newline or zero) as a row or a candidate; its file is
 * not set. */
bool capo_rules_row(const char *line, struct capo_rules_row *out);

/** capo_rules_next() - parse the next row or candidate at or after *@at, and move *@at behind it.
 * False: no more. */
bool capo_rules_next(const char **at, struct capo_rules_row *out);

/** capo_rules_find() - the row that number @rule (capo_record.rule) stands for. False: not in
 * @rules. */
bool capo_rules_find(const char *rules, unsigned rule, struct capo_rules_row *out);

/** capo_rules_place() - "p.json:12"; "sweep candidate"; "rule 12" if it is not in @rules. Returns
 * @text. */
const char *capo_rules_place(const char *rules, unsigned rule, char *text, size_t room);
