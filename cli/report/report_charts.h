/* SPDX-License-Identifier: Apache-2.0 */
/* The pictures of the HTML page. @about: the struct report_view (cli_section.about). */
#pragma once

#include <stdio.h>

/** report_time_chart() - total time of each row as bars, and bandwidth by size. */
void report_time_chart(const void *about, FILE *out);

/** report_waiting_chart() - per communicator, the waiting that each rank caused. */
void report_waiting_chart(const void *about, FILE *out);
