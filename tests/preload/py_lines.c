/* SPDX-License-Identifier: Apache-2.0 */
/* capo_py_line() as a library that a Python program loads: py_lines.py. */
#include <dlfcn.h>

#include "shim/find/symbol.h"
#include "shim/site/pyobject.h"

int py_line(const void *code, int at);

void *capo_real_dlsym(void *handle, const char *name)
{
        return dlsym(handle, name);
}

int py_line(const void *code, int at)
{
        struct capo_py_code c;

        if (!capo_py_find())
                return -1;
        return code && capo_py_code(&capo_py.it, (uintptr_t)code, &c) ? capo_py_line(&capo_py.it, &c, at) : 0;
}
