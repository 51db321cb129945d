/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine's kernel says of a process that capo hang is about. Nothing is stopped or
 * attached to. */
#ifndef CAPO_HANG_NODE_H
#define CAPO_HANG_NODE_H

#include <stdbool.h>
#include <stddef.h>

/** capo_hang_node_parent() - the process that started @pid; 0: not known. */
int capo_hang_node_parent(int pid);

/** capo_hang_node_state() - the letter of /proc/PID/stat; 0: no such process. */
char capo_hang_node_state(int pid);

/** capo_hang_node_stopped() - by a signal or a tracer. */
bool capo_hang_node_stopped(int pid);

/** capo_hang_node_waits() - "main thread asleep in futex_wait_queue, 11 threads, 1 running".
 * Return: @text; "" not known. */
char *capo_hang_node_waits(int pid, char *text, size_t room);

/** capo_hang_node_name() - what the kernel calls it. Return: @text; "" not known. */
char *capo_hang_node_name(int pid, char *text, size_t room);

/**
 * capo_hang_node_library() - the file of a library that @pid has mapped: the first one whose name
 * begins with @name Return: 0, with @path "" where there is none; -errno: the list of what it has
 * mapped may not be read.
 */
int capo_hang_node_library(int pid, const char *name, char *path, size_t room);

/** capo_hang_node_oom() - the kernel's log says that it killed @pid for want of memory; false also
 * where it may not be read. */
bool capo_hang_node_oom(int pid);

#endif
