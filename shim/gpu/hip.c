/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of AMD's GPUs, for RCCL. HIP's runtime has the functions asked for under names of its
 * own, with CUDA's arguments and error numbers (hip_runtime_api.h of ROCm 5 to 7:
 * hipErrorDeinitialized 4, hipErrorNotReady 600, hipErrorStreamCaptureImplicit 906,
 * hipStreamCaptureModeRelaxed 2), but no contexts that a library needs to know: a device is made
 * current by hipSetDevice(), and an event belongs to the one that was current. So a context is the
 * device's number and one. Tried on the stand-in only. */
#include <dlfcn.h>

#include "core/base/util.h"
#include "shim/find/symbol.h"
#include "shim/gpu/driver.h"

static struct {
        cu_result (*GetDevice)(int *device);
        cu_result (*SetDevice)(int device);
        cu_result (*StreamGetDevice)(void *stream, int *device);
} hip;
static __thread int pushed
        __attribute__((tls_model("initial-exec"))); /* the device to come back to */

static void *context_of(int device) { return (void *)(uintptr_t)(device + 1); }

static cu_result stream_get_ctx(void *stream, void **ctx)
{
        int device = -1;
        cu_result r = hip.StreamGetDevice(stream, &device);

        *ctx = r == CU_OK && device >= 0 ? context_of(device) : NULL;
        return r;
}

static cu_result ctx_get_current(void **ctx)
{
        int device = -1;
        cu_result r = hip.GetDevice(&device);

        *ctx = r == CU_OK && device >= 0 ? context_of(device) : NULL;
        return r;
}

static cu_result ctx_push_current(void *ctx)
{
        cu_result r = hip.GetDevice(&pushed);

        return r == CU_OK ? hip.SetDevice((int)(uintptr_t)ctx - 1) : r;
}

static cu_result ctx_pop_current(void **ctx)
{
        *ctx = NULL; /* nobody asks for it */
        return hip.SetDevice(pushed);
}

void *capo_hip_open(void)
{
        void *lib = dlopen("libamdhip64.so", RTLD_NOW | RTLD_NOLOAD);

        for (int release = 7; !lib && release >= 4; release--) {
                char name[32];

                snprintf(name, sizeof name, "libamdhip64.so.%d", release);
                lib = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
        }
        return lib;
}

void capo_driver_hip(void *lib, struct capo_gpu_driver *out)
{
        *(void **)&out->DeviceGetPCIBusId = capo_real_dlsym(lib, "hipDeviceGetPCIBusId");
}

const char *capo_driver_hip_timing(void *lib, struct capo_gpu_driver *out)
{
        const struct {
                void *where;
                const char *name;
        } functions[] = {
                {&out->DriverGetVersion, "hipDriverGetVersion"},
                {&out->StreamIsCapturing, "hipStreamIsCapturing"},
                {&out->StreamQuery, "hipStreamQuery"},
                {&out->CtxGetDevice, "hipGetDevice"},
                {&out->EventCreate, "hipEventCreateWithFlags"},
                {&out->EventRecord, "hipEventRecord"},
                {&out->EventQuery, "hipEventQuery"},
                {&out->EventElapsedTime, "hipEventElapsedTime"},
                {&out->ThreadExchangeStreamCaptureMode, "hipThreadExchangeStreamCaptureMode"},
                {&hip.GetDevice, "hipGetDevice"},
                {&hip.SetDevice, "hipSetDevice"},
                {&hip.StreamGetDevice, "hipStreamGetDevice"},
        };

        for (size_t i = 0; i < N_ELEMENTS(functions); i++) {
                void *p = capo_real_dlsym(lib, functions[i].name);

                if (!p)
                        return functions[i].name;
                *(void **)functions[i].where = p;
        }
        out->StreamGetCtx = stream_get_ctx;
        out->CtxGetCurrent = ctx_get_current;
        out->CtxPushCurrent = ctx_push_current;
        out->CtxPopCurrent = ctx_pop_current;
        return NULL;
}
