/* SPDX-License-Identifier: Apache-2.0 */
/* core/log/fabric_frame.def as tables, for fabric_write.c and fabric_read.c. */
#pragma once

#include "core/log/fabric_kinds.h"

/* How a field is written. Left out: 0, "", what is said here. */
enum capo_fabric_value {
        FABRIC_COUNT,   /* unsigned number, always written */
        FABRIC_NUMBER,  /* unsigned number */
        FABRIC_NODE,    /* int; a negative one is left out */
        FABRIC_FLAG,    /* bool: 1 */
        FABRIC_NAME,    /* char []: from outside */
        FABRIC_VERSION, /* major << 16 | minor: "major.minor", always written */
        FABRIC_PAIR,    /* two uint64_t: "a,b"; left out by the first */
        FABRIC_TIMES,   /* struct capo_fabric_hist: "count,sum,max;bucket:n,bucket:n" */
        FABRIC_KINDS,   /* of each kind of operation that was posted,
                           KIND=operations,bytes;class:n,class:n */
        FABRIC_ERRORS,  /* rows of errors, a pair each: "code,count,text" */
};

#define FABRIC_LINE(id, word, type) typedef struct type fabric_line_##id;
#include "core/log/fabric_frame.def"

static const struct fabric_key {
        const char *key;
        uint8_t line; /* enum capo_fabric_line; rows of a line stand together */
        uint8_t value;
        uint16_t size;
        uint32_t at; /* of the field in the line's struct */
} fabric_keys[] = {
#define FABRIC_KEY(line_, key_, value_, field_, meaning)               \
        {.key = key_,                                                  \
         .line = CAPO_FABRIC_##line_,                                  \
         .value = FABRIC_##value_,                                     \
         .size = (uint16_t)sizeof(((fabric_line_##line_ *)0)->field_), \
         .at = (uint32_t)offsetof(fabric_line_##line_, field_)},
#include "core/log/fabric_frame.def"
        {.line = CAPO_FABRIC_LINES},
};

static const char *const fabric_words[CAPO_FABRIC_LINES] = {
#define FABRIC_LINE(id, word, type) word,
#include "core/log/fabric_frame.def"
};

static const char *const fabric_kinds[CAPO_FI_KINDS] = {
#define FABRIC_KIND(id, key, transmits) key,
#include "core/log/fabric_frame.def"
};

#define FABRIC_SNAPSHOT "snapshot" /* first line of a piece, with the snapshot's number */
#define FABRIC_COMPLETE "complete" /* last line of a snapshot, with its number */

/** fabric_keys_of() - the first row of @line; they end with another line's. */
static inline const struct fabric_key *fabric_keys_of(enum capo_fabric_line line)
{
        const struct fabric_key *k = fabric_keys;

        while (k->line < line)
                k++;
        return k;
}
