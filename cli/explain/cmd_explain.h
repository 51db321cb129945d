/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `capo explain` share. */
#ifndef CAPO_EXPLAIN_H
#define CAPO_EXPLAIN_H

#include "cli/base/cli_page.h"
#include "cli/base/cli_question.h"
#include "core/profile/profile_table.h"

struct explain {
        unsigned call;             /* enum capo_call_id */
        int coll;                  /* enum capo_coll; -1 for calls no tuner is asked about */
        uint64_t bytes, bytes_max; /* equal but in a recorded job */
        char size[64];             /* as it was written */
        const char *profile_name, *layout, *log, *comm;
        enum cli_form form;
        struct capo_shape shape; /* as given, or as NCCL told */
        struct capo_profile *profile;
        struct cli_question plan;
};

#define EXPLAIN_JSON (JSON_INDENT(2) | JSON_REAL_PRECISION(7))

/* Each prints its page. Return: an exit status. */
int explain_planned(struct explain *e);
int explain_shape(struct explain *e);
int explain_recorded(struct explain *e);

#endif
