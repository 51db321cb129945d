/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_HANG_UNWIND_H
#define CAPO_HANG_UNWIND_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

/** hang_unwind_open() - libunwind-ptrace, where this machine has it. False: it has not. */
bool hang_unwind_open(void);

/**
 * hang_unwind() - the functions that a stopped thread is in
 * @tid:   stopped by this process, which traces it
 * @frame: called for each, innermost first; @name: mangled, "" not known; @into: bytes from its
 * beginning, or the address
 *
 * At most 64.
 */
void hang_unwind(int tid, void (*frame)(const char *name, uint64_t into, void *arg), void *arg);

#endif
