/* SPDX-License-Identifier: Apache-2.0 */
/* The ways a page is printed: cli/report/report_formats.def. They print what profiles/job has
 * judged and judge nothing. */
#ifndef CAPO_CLI_REPORT_FACES_H
#define CAPO_CLI_REPORT_FACES_H

#include <stdio.h>

#include "analysis/report/job_page.h"

enum report_face {
#define REPORT_FACE(name, where, rows, help) REPORT_FACE_##name,
#include "cli/report/report_formats.def"
        REPORT_FACES,
};

/** report_text() and so on - write the page. Return: 0; negative errno, not said (the caller looks
 * at @out's own). */
#define REPORT_FACE(name, where, rows, help) \
        int report_##name(const struct capo_page *page, FILE *out);
#include "cli/report/report_formats.def"

#endif
