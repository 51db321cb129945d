/* SPDX-License-Identifier: Apache-2.0 */
/* capo expect: what its files share. expect_inputs.c reads what was measured, cmd_expect.c finds
 * what is normal for it, expect_page.c prints. */
#ifndef CAPO_CLI_EXPECT_H
#define CAPO_CLI_EXPECT_H

#include <jansson.h>

#include "cli/base/cli_inputs.h"
#include "cli/base/cli_page.h"
#include "profiles/fragment/expected.h"

/* A text that may prove a cause: a file that was read, or recorded settings. */
struct expect_evidence {
        char *name, *text;
};

struct expect_page {
        const char *what;     /* the inputs, or the numbers of the command line */
        const char *machine;  /* of the topology; NULL not known */
        char allocation[256]; /* "{0,1,2}"; "" not known */
        char gpu[48];         /* as the input names it; "" not known */
        uint32_t nccl, asked; /* measured with; the one that was asked; 0 not known */
        struct capo_expected_shape shape;
        char layout[CAPO_LAYOUT_TEXT];
        struct capo_expected_row *rows; /* by call, then size */
        char (*ran)[40];                /* by row: what NCCL predicts to choose; "" not known */
        size_t n_rows;
        size_t n_other; /* samples of other layouts, left out */
        struct expect_evidence *evidence;
        size_t n_evidence;
        char not_known[4][512];
        unsigned n_not_known;
        struct capo_job *job; /* of capo logs; NULL */
};

/** expect_measured() - rows, layout, NCCL and evidence of the inputs. Return: 0; negative errno,
 * said. */
int expect_measured(struct expect_page *page, const struct cli_inputs *inputs);

/** expect_missing() - one more thing that is not known. */
void expect_missing(struct expect_page *page, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/** expect_has() - is @text in the evidence of @page (an expect_page)? */
bool expect_has(const char *text, void *page);

/** expect_found_in() - "tests.log:12", "recorded settings". @text: 600 bytes. */
char *expect_found_in(const struct expect_page *page, const char *proof, char *text);

/** expect_main() - the row that answers: of the largest message of each call the worst. NULL: there
 * is no row. */
const struct capo_expected_row *expect_main(const struct expect_page *page);

/** expect_sheet(), expect_json() - for people and for programs. Return: NULL: no memory. */
struct cli_page *expect_sheet(struct expect_page *page);
json_t *expect_json(struct expect_page *page);

void expect_finish(struct expect_page *page);

#endif
