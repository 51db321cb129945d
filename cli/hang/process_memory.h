/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of another process, which goes on meanwhile and may be gone, or be nobody's friend. What
 * was read is kept, so that it can be asked whether it still stands there: what was put together
 * out of several pieces is believed only when none of them has changed.
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
                      asked yet */
        uint64_t end_ns; /* by capo_clock_mono(): nothing is read any more from then on; 0: no limit
                          */
        uint64_t n_read, most; /* pieces, in all; nothing is read any more when it is so many */
        /* @size bytes at @from; hang_memory_fetch() of the process, or a stand-in's */
        bool (*fetch)(struct hang_memory *m, uint64_t from, void *to, size_t size);
        void *arg; /* the stand-in's */
        uint32_t n, used;
        struct {
                uint64_t from;
                uint32_t size, at;
        } pieces[HANG_MEMORY_PIECES];
        uint8_t bytes[HANG_MEMORY_BYTES], again[HANG_MEMORY_BYTES];
};

/** hang_memory_new() - of process @pid, nothing read yet; free() it. NULL: no memory. */
struct hang_memory *hang_memory_new(int pid);

bool hang_memory_fetch(struct hang_memory *m, uint64_t from, void *to, size_t size);

/** hang_memory_read() - @size bytes at @from, kept. @arg: a struct hang_memory. False: they are not
 * there, or it is enough. */
bool hang_memory_read(void *arg, uint64_t from, void *to, size_t size);

/** hang_memory_forget() - what was kept from piece @n on. */
void hang_memory_forget(struct hang_memory *m, uint32_t n);

/**
 * hang_memory_changed() - are the pieces from @first on as they were?
 * They are read once more at one go, the last ones first, so that what led to the others is looked
 * at behind them. Return: the number of the piece behind the last that is not; @first where all
 * are.
 */
uint32_t hang_memory_changed(struct hang_memory *m, uint32_t first);

/** hang_memory_pause() - a tenth of a millisecond, for something to come to rest. */
void hang_memory_pause(const struct hang_memory *m);

/** hang_memory_refused() - @m->error into @why, one line that says what would allow it. Return: it.
 */
int hang_memory_refused(const struct hang_memory *m, char *why, size_t room);

/** hang_not_allowed() - "pid 12 may not be @done: ..." into @why, with what would allow it. */
void hang_not_allowed(int pid, const char *done, char *why, size_t room);

/** hang_memory_symbol() - where the object whose file is mapped from @start on has the symbol @name
 * that it exports. 0: nowhere. */
uint64_t hang_memory_symbol(struct hang_memory *m, uint64_t start, const char *name);

#endif
