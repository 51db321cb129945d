/* SPDX-License-Identifier: Apache-2.0 */
/* A progress line on stderr, only if that is a terminal; removed at the end. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** cli_progress() - "WHAT 12 of 40", rewritten in place
 * @what: "reading a.capo"; at most 80 bytes are shown
 * @of: the total; 0: not known, only @done is shown
 *
 * May be called at any rate: it writes at most ten times a second, and nothing in the first second.
 */
void cli_progress(const char *what, uint64_t done, uint64_t of);

/** cli_progress_end() - remove the line. Call it before anything else is printed. */
void cli_progress_end(void);
