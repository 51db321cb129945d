/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the text page, each with its heading; nothing when there is nothing to say. */
#ifndef CAPO_CLI_REPORT_TEXT_H
#define CAPO_CLI_REPORT_TEXT_H

#include <stdio.h>

#include "analysis/report/job_page.h"

/* Words that differ between a terminal and a pipe. */
struct report_style {
        const char *bold, *warn, *plain;
};

/** report_text_styled() - the whole page with these words. */
void report_text_styled(const struct capo_page *page, FILE *out, const struct report_style *style);

/** report_text_rows() - WHERE THE TIME WENT, CEILINGS, OTHER CALLS. */
void report_text_rows(const struct capo_page *page, FILE *out, const struct report_style *style);
/** report_text_comms() - COMMUNICATORS, WHO WAITS FOR WHOM. */
void report_text_comms(const struct capo_page *page, FILE *out, const struct report_style *style);
/** report_text_fabric() - NETWORK, WHAT THE NETWORK CARRIED. */
void report_text_fabric(const struct capo_page *page, FILE *out, const struct report_style *style);

#endif
