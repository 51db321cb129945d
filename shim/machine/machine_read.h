/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/** capo_machine_read() - read all, and write a frame with what has changed. @busy: hears what is
 * asked now; NULL: nothing. @report: the GPUs' clocks go into INFO too. */
void capo_machine_read(bool report, void (*busy)(const char *what));
void capo_machine_read_fork(void);
