/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/** report_timeline_chart() - the ranks over time, as a picture that can be zoomed with mouse, touch
 * or keys. @about: struct report_view. */
void report_timeline_chart(const void *about, FILE *out);

/** report_timeline_script() - its script. */
void report_timeline_script(FILE *out);
