/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the Python of a living process is in, read from outside (CPython 3.9 to 3.14): whether or
 * not capo is in it. Nobody is stopped or signalled, and nothing is written there.
 */
#ifndef CAPO_HANG_PYTHON_H
#define CAPO_HANG_PYTHON_H

#include <stdio.h>

#include "cli/hang/process_memory.h"
#include "core/base/cpython.h"

enum { HANG_PYTHON_THREADS = 64, HANG_PYTHON_FRAMES = 64 };
/* Stand where frames do: a thread that is not to be caught standing still, so that its lines are
 * not of one moment; more frames than are looked at, or one that is none. */
#define HANG_PYTHON_CHANGING "(changing)"
#define HANG_PYTHON_MORE     "..."

struct hang_python {
        struct hang_memory *m;
        struct capo_py py;
        struct capo_py_layout layout;
        uint64_t runtime; /* _PyRuntime */
        unsigned n;
        struct hang_python_thread {
                uint64_t state;
                uint64_t native_id,
                        thread_id;      /* of its own pid namespace; 0 not known. pthread_self() */
                int tid;                /* here; 0 not known */
        } threads[HANG_PYTHON_THREADS]; /* the oldest first */
};

/**
 * hang_python_find() - the interpreter of the process that @m is of, and its threads
 * @maps: what lies where there, as in /proc/PID/maps
 *
 * Return: 0; -ENOENT there is none; -ENOTSUP one that is not known; -EIO it changes too fast, or is
 * damaged; -errno it cannot be read. With @why, one line, for all but -ENOENT.
 */
int hang_python_find(struct hang_memory *m, const char *maps, struct hang_python *out, char *why,
                     size_t room);

/** hang_python_frames() - "FILE:LINE FUNCTION" of each frame of a thread, innermost first, a line
 * each, @before before it. Return: how many lines; 0: it is in none, or gone. */
unsigned hang_python_frames(const struct hang_python *p, const struct hang_python_thread *t,
                            const char *before, FILE *out);

/** hang_python_open() - the same of process @pid, with threads' numbers here. Return: as above;
 * hang_python_close(). */
int hang_python_open(int pid, struct hang_python *out, char *why, size_t room);
void hang_python_close(struct hang_python *p);

/**
 * hang_python_now() - all of it, within two seconds
 * Return: to be freed; a line "NUMBER TID NAME" of each thread that is in Python, 0 the program's
 * first, "- -" where that is not known, then its frames; nothing in it steers a terminal. NULL:
 * none, with @why, one line, "" where it has no Python.
 */
char *hang_python_now(int pid, char *why, size_t room);

#endif
