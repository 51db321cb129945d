/* SPDX-License-Identifier: Apache-2.0 */
/* Does the process that a segment belongs to live? The life sign is a POSIX record lock: the kernel
 * drops it with the process whatever kills it, a fork does not inherit it, and it works across pid
 * namespaces that share a /dev/shm. Programs that close all descriptors drop it too, so within one
 * pid namespace /proc is asked as well. */
#pragma once

#include "core/base/util.h"

/** capo_alive_text() - a short text file, whole. Return: its length without the newline; -errno. */
int capo_alive_text(const char *path, char *text, size_t room);

/** capo_alive_since() - field 22 of /proc/@pid/stat. Return: 0: no process, or one that only waits
 * for its parent to notice its end. One whose first thread has ended, and others not, lives. */
uint64_t capo_alive_since(int pid);

/** capo_alive_last() - has the process's first thread ended, and every other but the calling one?
 * Then the process waits for this one. */
bool capo_alive_last(long own);

/** capo_alive_namespace() - the inode of our pid namespace; 0 not known. */
uint64_t capo_alive_namespace(void);

/** capo_alive_lock() - lock the whole file while it is open. Return: 0; -errno: another has it. */
int capo_alive_lock(int fd);

/** capo_alive_locked() - has another process the lock? It is not taken for that, not even for a
 * moment in which somebody else would find it taken. */
bool capo_alive_locked(int fd);
