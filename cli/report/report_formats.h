/* SPDX-License-Identifier: Apache-2.0 */
/* The output formats of a page (cli/report/report_formats.def). They print what analysis/report has
 * judged. */
#pragma once

#include "analysis/report/job_page.h"

enum report_format {
#define REPORT_FORMAT(name, where, rows, help) REPORT_FORMAT_##name,
#include "cli/report/report_formats.def"
        REPORT_FORMATS,
};

/** report_text() and so on - write the page; the caller checks @out. */
#define REPORT_FORMAT(name, where, rows, help) \
        void report_##name(const struct capo_page *r, FILE *out);
#include "cli/report/report_formats.def"
