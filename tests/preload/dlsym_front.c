/* SPDX-License-Identifier: Apache-2.0 */
/* Another tool that wraps dlsym, preloaded in front of the recorder: it asks libc by itself, as
 * profilers of CUDA do. */
#include <dlfcn.h>

void *dlsym(void *restrict handle, const char *restrict name)
        __attribute__((visibility("default")));
void *dlsym(void *restrict handle, const char *restrict name)
{
        static void *(*real)(void *, const char *);

        if (!real)
                *(void **)&real = dlvsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "dlsym",
                                         "GLIBC_2." FRONT_GLIBC);
        return real(handle, name);
}
