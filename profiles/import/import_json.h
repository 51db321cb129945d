/* SPDX-License-Identifier: Apache-2.0 */
/* Between import_json.c, which takes a file apart into documents and reads those of nccl-tests, and
 * inspector.c. */
#ifndef CAPO_IMPORT_JSON_H
#define CAPO_IMPORT_JSON_H

#include <jansson.h>

#include "profiles/import/import_private.h"

/** json_num() - number @key of @o, also where it is written as text; @otherwise where there is
 * none, or no finite one. */
double json_num(const json_t *o, const char *key, double otherwise);

/** json_count() - the same, rounded down; @otherwise also where it is below 0 or above @most. */
uint64_t json_count(const json_t *o, const char *key, uint64_t otherwise, uint64_t most);
#define JSON_BYTES_MAX ((uint64_t)1 << 62) /* of a call */

/** json_str() - text @key of @o; "" where there is none. */
const char *json_str(const json_t *o, const char *key);

/** json_foreign() - what @o is, which is of neither: its kind where that is known, else its first
 * keys. Return: @text, a sentence without a stop. */
char *json_foreign(const json_t *o, char *text, size_t room);

/* Records, until all ranks of a call are there. */
struct inspector {
        struct inspector_call *v;
        size_t n;
        struct inspector_names {
                char **v;
                size_t n, last; /* last: asked for */
        } files, hosts;         /* that calls have by number */
};

/** inspector_add() - keep record @o of @line. Return: 0; -EINVAL, said: it is none; -ENOMEM. */
int inspector_add(struct capo_input *in, struct inspector *all, const json_t *o, unsigned line);

/** inspector_samples() - what was kept, as samples: one per call. Return: 0; -EINVAL, said;
 * -ENOMEM. */
int inspector_samples(struct capo_input *in, struct inspector *all);
void inspector_finish(struct inspector *all);

#endif
