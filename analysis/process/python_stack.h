/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the Python stacks of a live process from outside (CPython 3.9 to 3.14), whether or not capo
 * is loaded in it. No thread is stopped or signalled, and nothing is written there. */
#pragma once

#include "analysis/process/process_memory.h"
#include "core/base/cpython.h"

enum { PROCESS_PYTHON_THREADS = 64, PROCESS_PYTHON_FRAMES = 64 };
/* In place of frames: a thread that never stood still, so that its lines are not of one moment;
 * more frames than are read, or an invalid one. */
#define PROCESS_PYTHON_CHANGING "(changing)"
#define PROCESS_PYTHON_MORE     "..."

struct process_python {
        struct process_memory *m;
        struct capo_py py;
        struct capo_py_layout layout;
        uint64_t runtime; /* _PyRuntime */
        unsigned n;
        struct process_python_thread {
                uint64_t state;
                uint64_t native_id, thread_id; /* in its own pid namespace; 0 not known. thread_id:
                                                  pthread_self() */
                int tid;                       /* in our namespace; 0 not known */
        } threads[PROCESS_PYTHON_THREADS];     /* oldest first */
};

/** process_python_find() - find the interpreter and its threads in the process of @m
 * @maps: its mappings, as in /proc/PID/maps
 *
 * Return: 0; -ENOENT: no Python; -ENOTSUP: an unknown version; -EIO: it changes too fast, or is
 * damaged; -errno: it cannot be read. @why: one line, for all but -ENOENT. */
int process_python_find(struct process_memory *m, const char *maps, struct process_python *out,
                        char *why, size_t room);

/** process_python_frames() - print "FILE:LINE FUNCTION" for each frame of a thread, innermost first,
 * each after @before. Return: number of lines; 0: it is in no frame, or has ended. */
unsigned process_python_frames(const struct process_python *p,
                               const struct process_python_thread *t, const char *before,
                               FILE *out);

/** process_python_open() - process_python_find() for process @pid, with thread ids of our namespace.
 * Return: as above. Free out->m. */
int process_python_open(int pid, struct process_python *out, char *why, size_t room);

/** process_python_now() - the stacks of all threads, within two seconds. Return: to be freed; a
 * line "NUMBER TID NAME" per thread that runs Python, 0 the main thread first, "- -" if not known,
 * then its frames; without control bytes. NULL: none, with @why, one line; "": it has no Python. */
char *process_python_now(int pid, char *why, size_t room);
