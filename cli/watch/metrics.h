/* SPDX-License-Identifier: Apache-2.0 */
/* Figures as text. A family of metrics is written once, with the points of all jobs. */
#pragma once

#include "cli/watch/metrics_text.h"

/** metrics_print() - in the style of the options. */
void metrics_print(const struct watch *w, const struct watch_job *only, enum metrics_format format,
                   FILE *out);
