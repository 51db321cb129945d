/* SPDX-License-Identifier: Apache-2.0 */
/* The text of RULES frames: what the rule numbers of a recording stand for. A process that was
 * tuned or swept says so once, a line per row. include/capo/log_rules.def lists the words;
 * rules_write.c puts lines together (in the job), rules_read.c takes them apart (afterwards). */
#pragma once

#include "core/base/util.h"

/* CAPO_RULES_DIGEST is "digest", and so on. */
#define RULES_KEY(id, word, fields) \
        static const char CAPO_RULES_##id[] __attribute__((unused)) = word;
#include "capo/log_rules.def"

#define CAPO_RULES_WHEN 400 /* bytes of a condition; longer ones are cut */

struct capo_rules_row {
        unsigned rule;  /* capo_record.rule */
        bool candidate; /* of a sweep: only rule, algorithm, protocol, channels and chunk are set */
        char file[256]; /* of the profile, without its folder; the reader's own */
        unsigned line;  /* in it */
        char when[CAPO_RULES_WHEN]; /* condition of the rule, or "always" */
        char coll[32];
        uint64_t from, upto; /* bytes; UINT64_MAX is max */
        char algo[32], proto[16];
        unsigned channels; /* 0: NCCL's */
        unsigned chunk;    /* bytes; 0: NCCL's */
        char turned[128];  /* what calls are turned for (capo_row_turned_text()); "" */
};

/** capo_rules_put() - DIGEST, MODELLED, FILE, NAME, TURNS, MORE, SWEEP: a line of @key and text. */
void capo_rules_put(FILE *out, const char *key, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/** capo_rules_put_row() - a line for a row or a candidate. */
void capo_rules_put_row(FILE *out, const struct capo_rules_row *row);
