/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the memory of another process, which keeps running, may end, or may be hostile. Everything
 * read is kept, so that it can be compared again: a result from several pieces is valid only if
 * none of them has changed.
 */
#ifndef CAPO_HANG_MEMORY_H
#define CAPO_HANG_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HANG_MEMORY_PIECES = 4096, HANG_MEMORY_BYTES = 512 << 10 };

struct hang_memory {
        int pid;
        int error; /* why the process cannot be read: -EPERM, -ESRCH, ...; 0: it can, or was not
                      tried */
        uint64_t end_ns;       /* by capo_clock_mono(): no reads after that; 0: no limit */
        uint64_t n_read, most; /* pieces read, and their limit */
        /* read @size bytes at @from: hang_memory_fetch(), or a test's function */
        bool (*fetch)(struct hang_memory *m, uint64_t from, void *to, size_t size);
        void *arg; /* for the test's function */
        uint32_t n, used;
        struct {
                uint64_t from;
                uint32_t size, at;
        } pieces[HANG_MEMORY_PIECES];
        uint8_t bytes[HANG_MEMORY_BYTES], again[HANG_MEMORY_BYTES];
};

/** hang_memory_new() - for process @pid; free() it. NULL: no memory. */
struct hang_memory *hang_memory_new(int pid);

bool hang_memory_fetch(struct hang_memory *m, uint64_t from, void *to, size_t size);

/** hang_memory_read() - read and keep @size bytes at @from. @arg: a struct hang_memory. False: not
 * readable, or a limit was reached. */
bool hang_memory_read(void *arg, uint64_t from, void *to, size_t size);

/** hang_memory_forget() - drop the pieces from number @n on. */
void hang_memory_forget(struct hang_memory *m, uint32_t n);

/**
 * hang_memory_changed() - have the pieces from @first on changed? They are read again in one go,
 * the last ones first, so that a pointer is checked after what it points to.
 *
 * Return: the number after the last changed piece; @first: none changed.
 */
uint32_t hang_memory_changed(struct hang_memory *m, uint32_t first);

/** hang_memory_pause() - wait a tenth of a millisecond. */
void hang_memory_pause(const struct hang_memory *m);

/** hang_memory_refused() - describe @m->error in @why, with what would allow the access. Return:
 * the error. */
int hang_memory_refused(const struct hang_memory *m, char *why, size_t room);

/** hang_not_allowed() - write "pid 12 may not be @done: ..." to @why, with what would allow it. */
void hang_not_allowed(int pid, const char *done, char *why, size_t room);

/** hang_memory_symbol() - address of the exported symbol @name of the object mapped at @start. 0:
 * none. */
uint64_t hang_memory_symbol(struct hang_memory *m, uint64_t start, const char *name);

#endif
