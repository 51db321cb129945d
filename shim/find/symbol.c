/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. Asked before any constructor has run, and by sanitizers' own start. */
#include <dlfcn.h>
#include <stdatomic.h>

#include "shim/find/object.h"
#include "shim/find/symbol.h"

/* We export dlvsym, too; the one behind us is found without it. */
CAPO_UNSANITIZED void *(*capo_real_dlvsym_address(void))(void *, const char *, const char *)
{
        static void *(*_Atomic real)(void *, const char *, const char *);
        void *(*f)(void *, const char *, const char *) =
                atomic_load_explicit(&real, memory_order_relaxed);

        if (!f) {
                f = (void *(*)(void *, const char *, const char *))capo_object_next_function(
                        "dlvsym");
                if (!f) { /* glibc before 2.34 without libdl: whatever of it is called brings it */
                        dlerror();
                        f = (void *(*)(void *, const char *,
                                       const char *))capo_object_next_function("dlvsym");
                }
                atomic_store_explicit(&real, f, memory_order_relaxed);
        }
        return f;
}

CAPO_UNSANITIZED void *capo_real_dlvsym(void *handle, const char *name, const char *version)
{
        void *(*f)(void *, const char *, const char *) = capo_real_dlvsym_address();

        return f ? f(handle, name, version) : NULL;
}

CAPO_UNSANITIZED void *(*capo_real_dlsym_address(void))(void *, const char *)
{
        /* the versions libc has had: 2.34 merged libdl; before, the base version of the
         * architecture */
        static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
        static void *(*_Atomic real)(void *, const char *);
        void *(*f)(void *, const char *) = atomic_load_explicit(&real, memory_order_relaxed);

        if (!f) {
                for (size_t i = 0; i < N_ELEMENTS(versions) && !f; i++)
                        f = (void *(*)(void *, const char *))capo_real_dlvsym(RTLD_NEXT, "dlsym",
                                                                              versions[i]);
                if (!f) /* brought late, so not in the global scope */
                        f = (void *(*)(void *, const char *))capo_object_next_function("dlsym");
                atomic_store_explicit(&real, f, memory_order_relaxed);
        }
        return f;
}

void *capo_real_dlsym(void *handle, const char *name)
{
        void *(*f)(void *, const char *) = capo_real_dlsym_address();

        return f ? f(handle, name) : NULL;
}

bool capo_dlsym_front(struct capo_object *out)
{
        const void *first = capo_real_dlsym(RTLD_DEFAULT, "dlsym");

        return first && !capo_own(first) &&
               (uintptr_t)first != (uintptr_t)capo_real_dlsym_address() &&
               capo_object_of(first, out);
}
