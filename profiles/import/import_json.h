/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by import_json.c, which splits a file into documents and reads those of nccl-tests, and
 * inspector.c. */
#pragma once

#include "profiles/import/import_private.h"
#include "profiles/import/json_values.h"

/* Records, kept until all ranks of a call are read. */
struct inspector {
        struct inspector_call *v;
        size_t n;
        struct inspector_names {
                char **v;
                size_t n, last; /* last: the most recent look-up */
        } files, hosts;         /* referred to by index */
};

/** inspector_add() - keep record @o of @line. Return: 0; -EINVAL: not a record, with the error set. */
int inspector_add(struct capo_input *in, struct inspector *all, const json_t *o, unsigned line);

/** inspector_samples() - convert the kept records to samples, one per call. Return: 0; -EINVAL with
 * the error set. */
int inspector_samples(struct capo_input *in, struct inspector *all);
void inspector_finish(struct inspector *all);
