/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the memory of another process, which keeps running, may end, or may be hostile. Everything
 * read is kept, so that it can be compared again: a result from several pieces is valid only if
 * none of them has changed. */
#pragma once

#include "core/base/util.h"

enum { PROCESS_MEMORY_PIECES = 4096, PROCESS_MEMORY_BYTES = 512 << 10 };

struct process_memory {
        int pid;
        int error; /* why the process cannot be read: -EPERM, -ESRCH, ...; 0: it can, or was not
                      tried */
        uint64_t end_ns;       /* by capo_clock_mono(): no reads after that; 0: no limit */
        uint64_t n_read, most; /* pieces read, and their limit */
        /* read @size bytes at @from: process_memory_fetch(), or a test's function */
        bool (*fetch)(struct process_memory *m, uint64_t from, void *to, size_t size);
        void *arg; /* for the test's function */
        uint32_t n, used;
        struct {
                uint64_t from;
                uint32_t size, at;
        } pieces[PROCESS_MEMORY_PIECES];
        uint8_t bytes[PROCESS_MEMORY_BYTES], again[PROCESS_MEMORY_BYTES];
};

/** process_memory_new() - for process @pid; free() it. */
struct process_memory *process_memory_new(int pid);

bool process_memory_fetch(struct process_memory *m, uint64_t from, void *to, size_t size);

/** process_memory_read() - read and keep @size bytes at @from. @arg: a struct process_memory. False: not
 * readable, or a limit was reached. */
bool process_memory_read(void *arg, uint64_t from, void *to, size_t size);

/** process_memory_forget() - drop the pieces from number @n on. */
void process_memory_forget(struct process_memory *m, uint32_t n);

/** process_memory_changed() - have the pieces from @first on changed? They are read again in one
 * go, the last ones first, so that a pointer is checked after what it points to. Return: the number
 * after the last changed piece; @first: none changed. */
uint32_t process_memory_changed(struct process_memory *m, uint32_t first);

/** process_memory_pause() - wait a tenth of a millisecond. */
void process_memory_pause(const struct process_memory *m);

/** process_memory_refused() - describe @m->error in @why, with what would allow the access. Return:
 * the error. */
int process_memory_refused(const struct process_memory *m, char *why, size_t room);

/** process_not_allowed() - write "pid 12 may not be @done: ..." to @why, with what would allow it. */
void process_not_allowed(int pid, const char *done, char *why, size_t room);

/** process_memory_symbol() - address of the exported symbol @name of the object mapped at @start. 0:
 * none. */
uint64_t process_memory_symbol(struct process_memory *m, uint64_t start, const char *name);
