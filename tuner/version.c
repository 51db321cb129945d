/* SPDX-License-Identifier: Apache-2.0 */
/* Which NCCL this is. No plugin is told, but its logger is a function of the calling library. */
#include <dlfcn.h>
#include <stdatomic.h>

#include "tuner/version.h"

int capo_nccl_version(capo_nccl_log log)
{
        static _Atomic uintptr_t first_log = UINTPTR_MAX; /* the first NCCL's; set once, */
        static _Atomic int first_version;                 /* after this */
        static atomic_flag has_first = ATOMIC_FLAG_INIT;
        int (*get_version)(int *) = NULL;
        int version = 0;
        Dl_info info;
        void *library = NULL;

        if (first_log == (uintptr_t)log)
                return first_version;
        if (!log)
                library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
        else if (dladdr((void *)(uintptr_t)log, &info) && info.dli_fname)
                library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (library) {
                *(void **)&get_version = dlsym(library, "ncclGetVersion");
                if (!get_version || get_version(&version))
                        version = 0;
                dlclose(library);
        }
        if (!atomic_flag_test_and_set(&has_first)) {
                first_version = version;
                first_log = (uintptr_t)log;
        }
        return version;
}
