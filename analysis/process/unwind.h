/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

/** process_unwind_open() - load libunwind-ptrace. False: not installed. */
bool process_unwind_open(void);

/**
 * process_unwind() - the functions on the stack of a stopped thread, at most 64
 * @tid: stopped and traced by this process
 * @frame: called for each, innermost first; @name: mangled, "" not known; @into: offset in the
 * function, or the address
 */
void process_unwind(int tid, void (*frame)(const char *name, uint64_t into, void *arg), void *arg);
