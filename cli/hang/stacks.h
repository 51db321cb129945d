/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_HANG_STACKS_H
#define CAPO_HANG_STACKS_H

#include <stddef.h>

/**
 * hang_stacks() - what the threads of a process are in
 *
 * A helper process stops one thread after the other, for as long as its own stack is read, and lets
 * it go (PTRACE_SEIZE, PTRACE_INTERRUPT): no signal is sent, none is lost, and when the helper is
 * killed the kernel lets the thread go. After 2 s it is killed, and what it has read by then
 * stands. Needs what a debugger needs, and libunwind.
 *
 * Return: lines, to be freed: "TID NAME" of a thread, then " FUNCTION+0xOFFSET" of each frame,
 * innermost first, then "  FILE:LINE FUNCTION" of each of its frames of Python; the main thread
 * first; at most 256 KiB, nothing in it steers a terminal. NULL with @why, one line, where there is
 * none.
 */
char *hang_stacks(int pid, char *why, size_t room);

#endif
