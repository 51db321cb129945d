/* SPDX-License-Identifier: Apache-2.0 */
/* The CPython in this process. Its memory is read through process_vm_readv(), which fails where
 * there is none (core/base/cpython.h); nothing is called that takes a reference, makes an object,
 * waits for a lock or raises. */
#pragma once

#include "core/base/cpython.h"

/* What is found of it, by capo_py_find(). */
extern struct capo_py_here {
        const char *(*Py_GetVersion)(void);
        int (*Py_IsInitialized)(void);
        void *(*PyGILState_GetThisThreadState)(void); /* reads a thread-local */
        void *(*PyInterpreterState_Main)(void);       /* reads a variable */
        void *(*PyInterpreterState_ThreadHead)(void *interpreter);
        struct capo_py it;
} capo_py;

/** capo_py_find() - is there a CPython that can be read? Looked up once (dlsym()). */
bool capo_py_find(void);
