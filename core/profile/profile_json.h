/* SPDX-License-Identifier: Apache-2.0 */
/* A pull reader for JSON whose failures are "file:line:column: expected ..., found ...". */
#pragma once

#include "core/profile/value.h"

struct capo_fault;

/* Part of the text, or of the reader's scratch when it had escapes; not 0-terminated. */
struct capo_slice {
        const char *at;
        size_t size;
};

struct capo_json {
        const char *at, *end; /* next byte, one past the last */
        const char *begin;
        const char *key; /* opening quote of the last key */
        const char *file;
        uint32_t line; /* of `at`, from 1 */
        bool fresh;    /* directly after '{' or '[' */
        bool failed;
        struct capo_fault *fault;
        char *scratch; /* one decoded string, malloc */
        size_t scratch_room;
};

/** capo_json_init() - read @text of @file. capo_json_finish() releases the scratch. */
void capo_json_init(struct capo_json *r, const char *text, size_t size, const char *file,
                    struct capo_fault *fault);
void capo_json_finish(struct capo_json *r);

/** capo_json_fail() - the first failure, at @where: "expected @expected..., found ..."; false. */
bool capo_json_fail(struct capo_json *r, const char *where, const char *expected, ...)
        __attribute__((format(printf, 3, 4)));

/** capo_json_peek() - next byte that is not blank, 0 at the end; `at` is moved onto it. */
char capo_json_skip_blanks(struct capo_json *r);
static inline char capo_json_peek(struct capo_json *r)
{
        return r->at<r->end && * r->at> ' ' ? *r->at : capo_json_skip_blanks(r);
}

/** capo_json_here() - where that is, for faults. */
static inline const char *capo_json_here(struct capo_json *r)
{
        capo_json_peek(r);
        return r->at;
}

/** capo_json_open() - take '{' or '['; @what says what was expected in a fault. */
bool capo_json_open(struct capo_json *r, char bracket, const char *what);

/** capo_json_key() - in an object: the next key, with its colon; false at '}' (taken) or failure.
 */
bool capo_json_key(struct capo_json *r, struct capo_slice *key);

/** capo_json_item() - in a list: true when another value follows; false at ']' (taken) or failure.
 */
bool capo_json_item(struct capo_json *r);

/* Take one value of that kind. @what as above. */
bool capo_json_string(struct capo_json *r, struct capo_slice *out, const char *what);
bool capo_json_number(struct capo_json *r, double *out, const char *what);
bool capo_json_bool(struct capo_json *r, bool *out, const char *what);
/** capo_json_any() - take any value; @out is its text. */
bool capo_json_any(struct capo_json *r, struct capo_slice *out);

/** capo_json_fail_one_of() - the failure "one of a, b, c". */
bool capo_json_fail_one_of(struct capo_json *r, const char *where, const struct capo_slice *words,
                           size_t n);
/** capo_json_next() - the next key of an object, as its index in @words (up to 32; each is
 * 0-terminated), with its colon; each at most once, kept in *@seen, which begins as 0. -1 at '}'
 * (taken) or failure. */
int capo_json_next(struct capo_json *r, const struct capo_slice *words, size_t n, uint32_t *seen);
/** capo_json_text() - a text as a C string in @out; too long or with a zero, it fails as @what. */
bool capo_json_text(struct capo_json *r, char *out, size_t room, const char *what);

/** capo_json_end() - nothing but blanks follows. */
bool capo_json_end(struct capo_json *r);

/* A literal as a slice; capo_slice_same() - equal to it. */
#define CAPO_SLICE(literal)                 \
        {                                   \
                literal, sizeof literal - 1 \
        }
static inline bool capo_slice_same(struct capo_slice a, struct capo_slice b)
{
        return a.size == b.size && !memcmp(a.at, b.at, a.size);
}
