/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of `capo report`. analysis/report judges the page; the formats print it
 * (report_formats.def). */
#pragma once

#include "cli/report/report_formats.h"
#include "cli/report/report_recover.h"

struct report_options {
        enum report_format format;
        enum capo_page_sort sort;
        const char *comm, *topo, *platform;
        const char *beside[REPORT_FORMATS]; /* files written besides the page; NULL: none */
        unsigned call;                      /* enum capo_call_id; 0: all */
        bool all, bytes, notes;
        enum report_recover recover;
        char **args;
        int n_args;
};

struct capo_plan_gpu;

/** report_ceilings() - set the ceilings of communicators and the distance of NICs, on the machine
 * of
 * --topo or --platform. Return: 0; negative errno, printed. */
int report_ceilings(struct capo_page *page, const struct report_options *o);
