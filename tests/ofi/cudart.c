/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What aws-ofi-nccl asks of libcudart.so, which it opens by that name: the way to the driver. That
 * is the stand-in's; what it has not is there and refuses.
 */
#include <dlfcn.h>
#include <stddef.h>

enum { RUNTIME = 12080, NOT_SUPPORTED = 801 };

int cudaRuntimeGetVersion(int *version);
int cudaGetDriverEntryPoint(const char *name, void **out, unsigned long long flags, int *status);

static int refuse(void) { return NOT_SUPPORTED; }

int cudaRuntimeGetVersion(int *version)
{
        *version = RUNTIME;
        return 0;
}

int cudaGetDriverEntryPoint(const char *name, void **out, unsigned long long flags, int *status)
{
        static void *driver;

        if (!driver)
                driver = dlopen("libcuda.so.1", RTLD_NOW);
        *out = driver ? dlsym(driver, name) : NULL;
        if (!*out)
                *out = (void *)refuse;
        if (status)
                *status = 0;
        return 0;
}
