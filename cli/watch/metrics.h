/* SPDX-License-Identifier: Apache-2.0 */
/* Figures as text. A family of metrics is written once, with the points of all jobs. */
#ifndef CAPO_METRICS_H
#define CAPO_METRICS_H

#include "cli/watch/watch_jobs.h"

enum metrics_format {
        METRICS_TEXT,  /* Prometheus' text format 0.0.4, which the node exporter reads */
        METRICS_OPEN,  /* OpenMetrics 1.0 */
        METRICS_LINES, /* JSON, an object a line */
        METRICS_FORMATS,
};

struct metrics_put {
        FILE *out;
        enum metrics_format format;
        const struct watch *watch;
        const struct watch_job *job; /* of the points */
        const char *name, *type;     /* of the family */
        bool counter, headed;        /* headed: its heading is written */
        const char *help;
};

/** metrics_point() - one value. @suffix: behind the family's name; then names and values of its
 * labels, NULL behind the last. A value that is no number is left out. */
void metrics_point(struct metrics_put *p, const char *suffix, double value, ...)
        __attribute__((sentinel));

/** metrics_family() - the points that come are of this family. */
void metrics_family(struct metrics_put *p, const char *name, const char *type, const char *help);

/** metrics_write() - all families of the jobs of @w, or of @only (NULL: all). */
void metrics_write(const struct watch *w, const struct watch_job *only, enum metrics_format format,
                   FILE *out);

/** inspector_write() - the same in the names of NVIDIA's Inspector; METRICS_TEXT or METRICS_OPEN.
 */
void inspector_write(const struct watch *w, const struct watch_job *only,
                     enum metrics_format format, FILE *out);

/** metrics_print() - in the style that is asked for. */
void metrics_print(const struct watch *w, const struct watch_job *only, enum metrics_format format,
                   FILE *out);

#endif
