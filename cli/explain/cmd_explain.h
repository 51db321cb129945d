/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of `capo explain`. */
#pragma once

#include "cli/base/cli_page.h"
#include "cli/base/cli_question.h"
#include "core/profile/profile_table.h"

struct explain {
        unsigned call;             /* enum capo_call_id */
        int coll;                  /* enum capo_coll; -1: a call that no tuner decides */
        uint64_t bytes, bytes_max; /* different only for a recorded job */
        char size[64];             /* as the user wrote it */
        const char *profile_name, *layout, *log, *comm;
        enum cli_form form;
        struct capo_shape shape; /* as given, or as NCCL reported it */
        struct capo_profile *profile;
        struct cli_question plan;
};

#define EXPLAIN_JSON (JSON_INDENT(2) | JSON_REAL_PRECISION(7))

/* Each prints its page. Return: an exit status. */
int explain_planned(struct explain *e);
int explain_shape(struct explain *e);
int explain_recorded(struct explain *e);
