/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of `capo report`. analysis/report judges the page; the formats print it
 * (report_formats.def). */
#pragma once

#include "cli/report/report_formats.h"
#include "cli/report/report_recover.h"

struct report_options {
        struct capo_page page; /* what is asked of it */
        enum report_format format;
        const char *topo, *platform;
        const char *beside[REPORT_FORMATS]; /* files written besides the page; NULL: none */
        enum report_recover recover;
};

/** report_ceilings() - set the ceilings of communicators and the distance of NICs, on the machine
 * of --topo or --platform. Return: 0; negative errno, printed. */
int report_ceilings(struct capo_page *page, const struct report_options *o);
