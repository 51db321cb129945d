/* SPDX-License-Identifier: Apache-2.0 */
/* One line that tells how far long work is. On stderr, and only when that is a terminal; gone when
 * the work is done. */
#ifndef CAPO_CLI_PROGRESS_H
#define CAPO_CLI_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

/**
 * cli_progress() - "WHAT 12 of 40", rewritten in place
 * @what: "reading a.capo"; at most 80 bytes of it are shown
 * @of:   the whole; 0 when it is not known: then only @done is shown
 *
 * May be called as often as one likes: it writes at most ten times a second, and nothing in the
 * first second.
 */
void cli_progress(const char *what, uint64_t done, uint64_t of);

/** cli_progress_percent() - the same as a share, for wholes that nobody counts (bytes): "WHAT 31
 * %". */
void cli_progress_percent(const char *what, uint64_t done, uint64_t of);

/** cli_progress_end() - take the line away. Call it before anything else is printed. */
void cli_progress_end(void);

#endif
