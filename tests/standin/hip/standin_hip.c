/* SPDX-License-Identifier: Apache-2.0 */
/* HIP's names for what the stand-in driver does: those that capo asks for, and no others. */
#include <cuda.h>

#define EXPORT __attribute__((visibility("default")))
#define HIP(name, params, call)      \
        EXPORT int hip##name params; \
        EXPORT int hip##name params { return (int)(call); }

HIP(StreamIsCapturing, (void *stream, int *status),
    cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status))
HIP(EventCreateWithFlags, (void **event, unsigned flags), cuEventCreate((CUevent *)event, flags))
HIP(EventRecord, (void *event, void *stream), cuEventRecord(event, stream))
HIP(StreamQuery, (void *stream), cuStreamQuery(stream))
HIP(EventQuery, (void *event), cuEventQuery(event))
HIP(EventElapsedTime, (float *ms, void *begin, void *end), cuEventElapsedTime(ms, begin, end))
HIP(ThreadExchangeStreamCaptureMode, (int *mode),
    cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))
HIP(DeviceGetPCIBusId, (char *text, int room, int device), cuDeviceGetPCIBusId(text, room, device))
HIP(GetDevice, (int *device), cuCtxGetDevice(device))

EXPORT int hipDriverGetVersion(int *version);
EXPORT int hipDriverGetVersion(int *version)
{
        *version = 60342134; /* 6.3 */
        return 0;
}

EXPORT int hipSetDevice(int device);
EXPORT int hipSetDevice(int device)
{
        CUcontext context;
        CUresult r = cuDevicePrimaryCtxRetain(&context, device);

        return (int)(r ? r : cuCtxSetCurrent(context));
}

EXPORT int hipStreamGetDevice(void *stream, int *device);
EXPORT int hipStreamGetDevice(void *stream, int *device)
{
        CUcontext context;
        CUresult r = cuStreamGetCtx(stream, &context);

        if (!r)
                r = cuCtxPushCurrent(context);
        if (!r) {
                r = cuCtxGetDevice(device);
                cuCtxPopCurrent(&context);
        }
        return (int)r;
}
