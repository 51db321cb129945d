/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_REPORT_TIMELINE_H
#define CAPO_REPORT_TIMELINE_H

#include <stdio.h>

/** report_timeline_chart() - ranks over time, as a picture that is zoomed and read with the mouse,
 * a finger or keys. @about: struct report_view. */
void report_timeline_chart(const void *about, FILE *out);

/** report_timeline_script() - what moves it. */
void report_timeline_script(FILE *out);

#endif
