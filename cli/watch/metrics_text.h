/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a family of metrics, in each of the formats. */
#pragma once

#include <jansson.h>

#include "cli/watch/watch_jobs.h"

enum metrics_format {
        METRICS_TEXT,  /* Prometheus' text format 0.0.4, also read by the node exporter */
        METRICS_OPEN,  /* OpenMetrics 1.0 */
        METRICS_LINES, /* JSON, one object per line */
        METRICS_FORMATS,
};

struct metrics_put {
        FILE *out;
        enum metrics_format format;
        const struct watch *watch;
        const struct watch_job *job; /* current job */
        const char *name, *type;     /* current family */
        bool counter, headed;        /* headed: its heading was written */
        const char *help;
        json_t *series; /* of the current family: a user can make a job that has one twice, and that
                           makes the node exporter fail for all of them */
};

/** metrics_point() - write one value. @suffix: appended to the family's name; then names and values
 * of labels, NULL-terminated. NAN, infinity and a series that was written before are skipped. */
void metrics_point(struct metrics_put *p, const char *suffix, double value, ...)
        __attribute__((sentinel));

/** metrics_family() - begin a family; json_decref(p->series) after the last one. */
void metrics_family(struct metrics_put *p, const char *name, const char *type, const char *help);
