/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "core/base/util.h"
#include "shim/find/symbol.h"
#include "shim/gpu/driver.h"

static const struct {
        size_t at;
        const char *name, *export;
} functions[] = {
#define ROW(name)                                                              \
        {                                                                      \
                offsetof(struct capo_gpu_driver, name), "cu" #name, "cu" #name \
        }
#define ROW_AS(name, as)                                                          \
        {                                                                         \
                offsetof(struct capo_gpu_driver, name), "cu" #name, "cu" #name as \
        }
        ROW(DriverGetVersion),
        ROW(StreamIsCapturing),
        ROW(StreamQuery),
        ROW(StreamGetCtx),
        ROW(CtxGetCurrent),
        ROW(CtxGetDevice),
        ROW_AS(CtxPushCurrent, "_v2"),
        ROW_AS(CtxPopCurrent, "_v2"),
        ROW(EventCreate),
        ROW(EventRecord),
        ROW(EventQuery),
        ROW(EventElapsedTime),
        ROW(ThreadExchangeStreamCaptureMode),
};

void capo_driver_cuda(void *lib, struct capo_gpu_driver *out)
{
        *(void **)&out->DeviceGetPCIBusId = capo_real_dlsym(lib, "cuDeviceGetPCIBusId");
        *(void **)&out->DeviceGetUuid = capo_real_dlsym(lib, "cuDeviceGetUuid");
        *(void **)&out->DeviceGetUuid_v2 = capo_real_dlsym(lib, "cuDeviceGetUuid_v2");
}

const char *capo_driver_cuda_timing(void *lib, struct capo_gpu_driver *out)
{
        cu_result (*get)(const char *, void **, int, uint64_t) = NULL;
        cu_result (*get2)(const char *, void **, int, uint64_t, int *) = NULL;

        *(void **)&get2 = capo_real_dlsym(lib, "cuGetProcAddress_v2");
        *(void **)&get = capo_real_dlsym(lib, "cuGetProcAddress");
        for (size_t i = 0; i < N_ELEMENTS(functions); i++) {
                void *p = NULL;

                /* legacy default stream (flag 1), as NCCL's own runtime has it; the forms of
                 * CUDA 11.3 */
                if (get2)
                        get2(functions[i].name, &p, 11030, 1, NULL);
                else if (get)
                        get(functions[i].name, &p, 11030, 1);
                if (!p)
                        p = capo_real_dlsym(lib, functions[i].export);
                if (!p)
                        return functions[i].export;
                *(void **)((char *)out + functions[i].at) = p;
        }
        return NULL;
}
