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
        return capo_py_find() ? capo_py_line(code, at) : -1;
}
