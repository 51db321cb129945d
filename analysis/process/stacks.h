/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/** process_stacks() - the stacks of the threads of a process
 *
 * A helper process stops one thread after the other while it reads its stack, then continues it
 * (PTRACE_SEIZE, PTRACE_INTERRUPT). No signal is sent or lost, and if the helper is killed the
 * kernel continues the thread. After 2 s the helper is killed, and its output so far is used. Needs
 * a debugger's permissions, and libunwind.
 *
 * Return: lines, to be freed: "TID NAME" per thread, then " FUNCTION+0xOFFSET" per frame, innermost
 * first, then "  FILE:LINE FUNCTION" per Python frame; the main thread first; at most 256 KiB,
 * without control bytes. NULL: none, with @why, one line. */
char *process_stacks(int pid, char *why, size_t room);
