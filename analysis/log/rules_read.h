/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text @rules of RULES frames (core/log/rules.h has the lines). NULL: there is none. */
#pragma once

#include "core/log/rules.h"

/** capo_rules_value() - of DIGEST, MODELLED, FILE, NAME, TURNS, SWEEP. False: none, @out is "". */
bool capo_rules_value(const char *rules, const char *key, char *out, size_t room);

/** capo_rules_row() - parse @line (to newline or zero) as a row or candidate, without its file. */
bool capo_rules_row(const char *line, struct capo_rules_row *out);

/** capo_rules_next() - parse the row or candidate from *@at on, moved behind it. False: none. */
bool capo_rules_next(const char **at, struct capo_rules_row *out);

/** capo_rules_find() - the row that @rule (capo_record.rule) stands for. False: not in @rules. */
bool capo_rules_find(const char *rules, unsigned rule, struct capo_rules_row *out);

/** capo_rules_place() - "p.json:12"; "sweep candidate"; "rule 12": not in @rules. Returns @text. */
const char *capo_rules_place(const char *rules, unsigned rule, char *text, size_t room);
