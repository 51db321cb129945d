/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of capo expect: expect_inputs.c reads measurements, cmd_expect.c finds what
 * is normal for them, expect_page.c prints. */
#pragma once

#include <jansson.h>

#include "cli/base/cli_inputs.h"
#include "cli/base/cli_page.h"
#include "profiles/fragment/expected.h"

/* A text that may prove a cause: an input file, or recorded settings. */
struct expect_evidence {
        char *name, *text;
};

struct expect_page {
        const char *what;     /* the inputs, or the numbers of the command line */
        const char *machine;  /* from the topology; NULL not known */
        char allocation[256]; /* "{0,1,2}"; "" not known */
        char gpu[48];         /* from the input; "" not known */
        uint32_t nccl, asked; /* nccl: used for the measurement; asked: the release that predicts; 0
                                 not known */
        struct capo_expected_shape shape;
        char layout[CAPO_LAYOUT_TEXT];
        struct capo_expected_row *rows; /* sorted by call, then size */
        char (*ran)[40];                /* by row: the choice that NCCL predicts; "" not known */
        size_t n_rows;
        size_t n_other; /* samples of other layouts, which are left out */
        struct expect_evidence *evidence;
        size_t n_evidence;
        char not_known[4][512];
        unsigned n_not_known;
        struct capo_job *job; /* from capo logs; else NULL */
};

/** expect_measured() - read rows, layout, NCCL and evidence from the inputs. Return: 0; negative
 * errno, printed. */
int expect_measured(struct expect_page *page, const struct cli_inputs *inputs);

/** expect_evidence() - keep a text that may prove a cause. */
void expect_evidence(struct expect_page *page, const char *path);

/** expect_missing() - note something that is not known. */
void expect_missing(struct expect_page *page, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/** expect_has() - does the evidence of @page (a struct expect_page) contain @text? */
bool expect_has(const char *text, void *page);

/** expect_found_in() - "tests.log:12", "recorded settings". @text: 600 bytes. */
char *expect_found_in(const struct expect_page *page, const char *proof, char *text);

/** expect_main() - the row for the verdict: the worst among the largest messages of each call.
 * NULL: no rows. */
const struct capo_expected_row *expect_main(const struct expect_page *page);

/** expect_sheet(), expect_json() - the page as text and as JSON. */
struct cli_page *expect_sheet(struct expect_page *page);
json_t *expect_json(struct expect_page *page);
