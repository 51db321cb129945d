/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel of this machine reports about a stuck process. Nothing is stopped or traced. */
#ifndef CAPO_HANG_NODE_H
#define CAPO_HANG_NODE_H

#include <stdbool.h>
#include <stddef.h>

/** capo_hang_node_parent() - the process that started @pid; 0: not known. */
int capo_hang_node_parent(int pid);

/** capo_hang_node_state() - the letter of /proc/PID/stat; 0: no such process. */
char capo_hang_node_state(int pid);

/** capo_hang_node_stopped() - is it stopped by a signal or a tracer? */
bool capo_hang_node_stopped(int pid);

/** capo_hang_node_waits() - "main thread asleep in futex_wait_queue, 11 threads, 1 running".
 * Return:
 * @text; "": not known. */
char *capo_hang_node_waits(int pid, char *text, size_t room);

/** capo_hang_node_name() - its name in the kernel. Return: @text; "": not known. */
char *capo_hang_node_name(int pid, char *text, size_t room);

/**
 * capo_hang_node_library() - path of the first mapped library whose name begins with @name
 *
 * Return: 0, with @path "" if there is none; -errno: its mappings cannot be read.
 */
int capo_hang_node_library(int pid, const char *name, char *path, size_t room);

/** capo_hang_node_oom() - does the kernel log say that @pid was killed for lack of memory? False:
 * also if the log cannot be read. */
bool capo_hang_node_oom(int pid);

#endif
