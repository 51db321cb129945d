/* SPDX-License-Identifier: Apache-2.0 */
/* The output formats of a page (cli/report/report_formats.def). They print what analysis/report has
 * judged. */
#pragma once

#include "analysis/report/job_page.h"

/* The page, and how to print it. */
struct report_view {
        const struct capo_page *page;
        bool bytes; /* sizes in bytes */
        bool notes; /* also how numbers were obtained */
};

enum report_format {
#define REPORT_FORMAT(name, where, rows, help) REPORT_FORMAT_##name,
#include "cli/report/report_formats.def"
        REPORT_FORMATS,
};

/** report_text() and so on - write the page. Return: 0; negative errno, not printed (the caller
 * checks @out). */
#define REPORT_FORMAT(name, where, rows, help) \
        int report_##name(const struct report_view *view, FILE *out);
#include "cli/report/report_formats.def"
