/* SPDX-License-Identifier: Apache-2.0 */
/* The driver is loaded at run time and asked for its functions, as NCCL does; libcuda is no
 * dependency of this library.
 */
#include <dlfcn.h>
#include <string.h>

#include "std.h"

#ifndef STANDIN_DRIVER_FILE
#define STANDIN_DRIVER_FILE "libcuda.so.1"
#endif

struct driver cu;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *missing;

static void load(void)
{
        CUresult (*address)(const char *, void **, int, cuuint64_t,
                            CUdriverProcAddressQueryResult *);
        void *lib = dlopen(STANDIN_DRIVER_FILE, RTLD_LAZY | RTLD_LOCAL);

        missing = STANDIN_DRIVER_FILE;
        if (!lib)
                return;
        address = (__typeof__(address))dlsym(lib, "cuGetProcAddress_v2");
        missing = "cuGetProcAddress_v2";
        if (!address)
                return;
#define X(name)                                                                             \
        if (address(#name, (void **)&cu.p_##name, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, \
                    NULL) ||                                                                \
            !cu.p_##name) {                                                                 \
                missing = #name;                                                            \
                return;                                                                     \
        }
        DRIVER_CALLS(X)
#undef X
        missing = NULL;
        cu.lost = (__typeof__(cu.lost))dlsym(lib, "standin_lost");
        cu.p_cuInit(0);
}

ncclResult_t driver_open(void)
{
        pthread_once(&once, load);
        if (missing)
                return fail(NULL, ncclUnhandledCudaError,
                            "cannot use the CUDA driver: %s not found", missing);
        return ncclSuccess;
}

ncclResult_t driver_device(int *device)
{
        CUcontext ctx;

        if (!cu.p_cuCtxGetDevice(device))
                return ncclSuccess;
        *device = 0;
        if (cu.p_cuDevicePrimaryCtxRetain(&ctx, 0) || cu.p_cuCtxSetCurrent(ctx))
                return fail(NULL, ncclUnhandledCudaError, "no CUDA device");
        return ncclSuccess;
}
