/* SPDX-License-Identifier: Apache-2.0 */
/* The ways a page is printed: cli/report/report_formats.def. They print what analysis/report has
 * judged and judge nothing. */
#ifndef CAPO_CLI_REPORT_FORMATS_H
#define CAPO_CLI_REPORT_FORMATS_H

#include <stdio.h>

#include "analysis/report/job_page.h"

/* What is printed, and how. */
struct report_view {
        const struct capo_page *page;
        bool bytes; /* sizes in bytes */
        bool notes; /* also how the numbers were obtained */
};

enum report_format {
#define REPORT_FORMAT(name, where, rows, help) REPORT_FORMAT_##name,
#include "cli/report/report_formats.def"
        REPORT_FORMATS,
};

/** report_text() and so on - write the page. Return: 0; negative errno, not said (the caller looks
 * at @out's own). */
#define REPORT_FORMAT(name, where, rows, help) \
        int report_##name(const struct report_view *view, FILE *out);
#include "cli/report/report_formats.def"

#endif
