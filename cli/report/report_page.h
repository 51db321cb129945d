/* SPDX-License-Identifier: Apache-2.0 */
/* The report as sections, for all formats for people. */
#pragma once

#include "cli/base/cli_page.h"
#include "cli/report/report_formats.h"

/** report_page() - the whole page. */
struct cli_page *report_page(const struct capo_page *r);

/* Its sections; each is empty if there is nothing to report. */
struct cli_section *report_rows(const struct capo_page *r,
                                struct cli_page *page);                     /* TIME BY CALL */
void report_ceiling_rows(const struct capo_page *r, struct cli_page *page); /* CEILINGS */
void report_waits(const struct capo_page *r, struct cli_page *page);        /* WAITING */
void report_steps(const struct capo_page *r, struct cli_page *page);        /* STEPS */
void report_comms(const struct capo_page *r, struct cli_page *page);        /* COMMUNICATORS */
void report_network(const struct capo_page *r,
                    struct cli_page *page);                           /* NETWORK, NETWORK BY CALL */
void report_trials(const struct capo_page *r, struct cli_page *page); /* TRIALS */

/** report_size() - the size of a row; exact if requested, or if another row of its call would print
 * the same. */
char *report_size(const struct capo_page *r, const struct capo_page_row *row, char *text,
                  size_t room);
