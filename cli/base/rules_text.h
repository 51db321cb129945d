/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rule numbers of a recording stand for. A process that was tuned or swept says so once, in a RULES frame:
 * lines of fields with tabs between (written by tuner/choose.c and tuner/sweep_plan.c, told in docs/log-format.md).
 */
#ifndef CAPO_CLI_RULES_TEXT_H
#define CAPO_CLI_RULES_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rules_row {
        bool candidate; /* of a sweep: only algorithm, protocol and channels are set */
        char file[256]; /* of the profile, without its folder */
        unsigned line;  /* in it */
        char when[400]; /* conditions of the rule, or "always" */
        char coll[32];
        uint64_t from, upto; /* bytes; UINT64_MAX is max */
        char algo[32], proto[16];
        unsigned channels; /* 0: NCCL's */
};

/** rules_value() - value of "digest", "modelled", "file", "name" or "sweep" in @rules (NULL is fine). False: not there,
 * and @out is "". */
bool rules_value(const char *rules, const char *key, char *out, size_t room);

/** rules_find() - what capo_record.rule = @rule stands for; false when @rules (NULL is fine) does not tell. */
bool rules_find(const char *rules, unsigned rule, struct rules_row *out);

/** rules_place() - "p.json:12", "sweep candidate", or "rule 12" when @rules does not tell. Returns @text. */
const char *rules_place(const char *rules, unsigned rule, char *text, size_t room);

#endif
