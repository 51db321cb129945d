/* SPDX-License-Identifier: Apache-2.0 */
/* A library that Python programs load: capo_py_line() for py_lines.py, and a thread's long call
 * into C for daemon.py. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/find/symbol.h"
#include "shim/site/pyobject.h"

int py_line(const void *code, int at);
extern volatile int going;
volatile int going;
typedef int (*all_reduce_fn)(const void *from, void *to, size_t count, int type, int op, void *comm,
                             void *stream);
void calls_until_the_end(all_reduce_fn all_reduce, void *comm);
void ends_late(void);

void *capo_real_dlsym(void *handle, const char *name) { return dlsym(handle, name); }

int py_line(const void *code, int at)
{
        struct capo_py_code c;

        if (!capo_py_find())
                return -1;
        return code && capo_py_code(&capo_py.it, (uintptr_t)code, &c)
                       ? capo_py_line(&capo_py.it, &c, at)
                       : 0;
}

void calls_until_the_end(all_reduce_fn all_reduce, void *comm)
{
        for (;; going++)
                all_reduce(NULL, NULL, 10, 7, 0, comm, NULL);
}

static void wait_a_bit(void) { usleep(200000); }

/* exit() takes a while: the interpreter has ended by then. */
void ends_late(void) { atexit(wait_a_bit); }
