/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of CUDA's driver: events, streams, which device. Taken as found in the process
 * (RTLD_NOLOAD; never linked, never loaded). */
#pragma once

#include <stddef.h>

typedef int cu_result; /* CUresult */
enum {
        CU_OK = 0,
        CU_DEINITIALIZED = 4,
        CU_INVALID_HANDLE = 400,
        CU_NOT_READY = 600,
        CU_CONTEXT_IS_DESTROYED = 709,
        CU_CAPTURE_IMPLICIT = 906
};
enum { CU_CAPTURE_MODE_RELAXED = 2 };
enum { CU_EVENT_DEFAULT = 0 };

struct capo_gpu_driver {
        cu_result (*DriverGetVersion)(int *version);
        cu_result (*StreamIsCapturing)(void *stream, int *status);
        cu_result (*StreamQuery)(void *stream);
        cu_result (*StreamGetCtx)(void *stream, void **ctx);
        cu_result (*CtxGetCurrent)(void **ctx);
        cu_result (*CtxGetDevice)(int *device);
        cu_result (*CtxPushCurrent)(void *ctx);
        cu_result (*CtxPopCurrent)(void **ctx);
        cu_result (*EventCreate)(void **event, unsigned flags);
        cu_result (*EventRecord)(void *event, void *stream);
        cu_result (*EventQuery)(void *event);
        cu_result (*EventElapsedTime)(float *ms, void *begin, void *end);
        cu_result (*ThreadExchangeStreamCaptureMode)(int *mode);
        /* may be missing, nothing is timed by them: of the second UUID only that it is another one
         * counts, because with MIG the newer function tells the slice's and the older the GPU's
         * (cuda.h, cuDeviceGetUuid) */
        cu_result (*DeviceGetPCIBusId)(char *text, int room, int device);
        cu_result (*DeviceGetUuid)(void *uuid, int device),
                (*DeviceGetUuid_v2)(void *uuid, int device);
};

/** capo_gpu_driver() - that of this process, while calls are timed; NULL: they are not. */
const struct capo_gpu_driver *capo_gpu_driver(void);
