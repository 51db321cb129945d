/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel of this machine reports about a stuck process. Nothing is stopped or traced. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** capo_pid_parent() - the process that started @pid; 0: not known. */
int capo_pid_parent(int pid);

/** capo_pid_state() - the letter of /proc/PID/stat; 0: no such process. */
char capo_pid_state(int pid);

/** capo_pid_stopped() - is it stopped by a signal or a tracer? */
bool capo_pid_stopped(int pid);

/** capo_pid_waits() - "main thread asleep in futex_wait_queue, 11 threads, 1 running".
 * Return:
 * @text; "": not known. */
char *capo_pid_waits(int pid, char *text, size_t room);

/** capo_pid_name() - the name of a thread in the kernel. Return: @text; "": not known. */
char *capo_pid_name(int pid, int tid, char *text, size_t room);

/** capo_pid_library() - path of the first mapped library whose name begins with @name. Return: 0,
 * with @path "" if there is none; -errno: its mappings cannot be read. */
int capo_pid_library(int pid, const char *name, char *path, size_t room);

/** capo_pid_oom() - does the kernel log say that @pid was killed for lack of memory? False:
 * also if the log cannot be read. */
bool capo_pid_oom(int pid);
