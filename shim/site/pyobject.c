/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdatomic.h>

#include "core/base/lock.h"
#include "shim/find/maps.h"
#include "shim/find/symbol.h"
#include "shim/site/pyobject.h"

struct capo_py_here capo_py;

static bool read_here(void *nothing, uint64_t from, void *to, size_t size)
{
        return capo_read_self((uintptr_t)from, to, size);
}

static bool find_python(struct capo_py_here *py)
{
        const char *const types[] = {"PyCode_Type", "PyUnicode_Type", "PyBytes_Type",
                                     "PyTuple_Type"};
        uint64_t *const addresses[] = {&py->it.code_type, &py->it.text_type, &py->it.bytes_type,
                                       &py->it.tuple_type};
        int minor;

#define FIND(name)                                                          \
        do {                                                                \
                *(void **)&py->name = capo_real_dlsym(RTLD_DEFAULT, #name); \
                if (!py->name)                                              \
                        return false;                                       \
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
        if (sscanf(py->Py_GetVersion(), "3.%d", &minor) != 1 ||
            strstr(py->Py_GetVersion(), "free-threading"))
                return false;
        py->it.read = read_here;
        py->it.layout = capo_py_layout_of(minor);
        return py->it.layout;
}

bool capo_py_find(void)
{
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static _Atomic int found; /* 0 not looked, 1 yes, -1 no */
        int is = atomic_load_explicit(&found, memory_order_acquire);

        if (!is) { /* the loader has a lock of its own: looked up before ours is taken */
                struct capo_py_here py = {0};

                is = find_python(&py) ? 1 : -1;
                capo_lock(&lock);
                if (!found)
                        capo_py = py;
                atomic_store_explicit(&found, is, memory_order_release);
                capo_unlock(&lock);
        }
        return is > 0;
}
