/* SPDX-License-Identifier: Apache-2.0 */
/* Figures as text. A family of metrics is written once, with the points of all jobs. */
#pragma once

#include "cli/watch/watch_jobs.h"

enum metrics_format {
        METRICS_TEXT,  /* Prometheus' text format 0.0.4, also read by the node exporter */
        METRICS_OPEN,  /* OpenMetrics 1.0 */
        METRICS_LINES, /* JSON, one object per line */
        METRICS_FORMATS,
};

/** metrics_print() - in the style of the options. */
void metrics_print(const struct watch *w, const struct watch_job *only, enum metrics_format format,
                   FILE *out);
