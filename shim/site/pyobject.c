/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util.h"
#include "shim/find/maps.h"
#include "shim/find/symbol.h"
#include "shim/site/pyobject.h"

struct capo_py_here capo_py;

static bool read_here(void *nothing, uint64_t from, void *to, size_t size)
{
        return capo_read_self((uintptr_t)from, to, size);
}

static bool find(void)
{
        const char *const types[] = {"PyCode_Type", "PyUnicode_Type", "PyBytes_Type", "PyTuple_Type"};
        uint64_t *const addresses[] = {&capo_py.it.code_type, &capo_py.it.text_type, &capo_py.it.bytes_type,
                                       &capo_py.it.tuple_type};
        int minor;

#define FIND(name)                                                              \
        do {                                                                    \
                *(void **)&capo_py.name = capo_real_dlsym(RTLD_DEFAULT, #name); \
                if (!capo_py.name)                                              \
                        return false;                                           \
        } while (0)
        FIND(Py_GetVersion);
        FIND(Py_IsInitialized);
        FIND(PyGILState_GetThisThreadState);
        FIND(PyInterpreterState_Main);
        FIND(PyInterpreterState_ThreadHead);
#undef FIND
        for (size_t i = 0; i < N_ELEMENTS(types); i++) {
                *addresses[i] = (uintptr_t)capo_real_dlsym(RTLD_DEFAULT, types[i]);
                if (!*addresses[i])
                        return false;
        }
        /* A build without the lock has other objects. */
        if (sscanf(capo_py.Py_GetVersion(), "3.%d", &minor) != 1 || strstr(capo_py.Py_GetVersion(), "free-threading"))
                return false;
        capo_py.it.read = read_here;
        capo_py.it.layout = capo_py_layout_of(minor);
        return capo_py.it.layout;
}

bool capo_py_find(void)
{
        static int found; /* 0 not looked, 1 yes, -1 no */

        if (!found)
                found = find() ? 1 : -1;
        return found > 0;
}
