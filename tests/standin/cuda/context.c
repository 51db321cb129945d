/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, contexts and the way to the functions (cuGetProcAddress) of the stand-in driver.
 *
 * A device is a number; CAPO_STANDIN_GPUS says how many there are (default 8). Contexts matter only
 * because streams and events belong to one, and callers must keep the stack of current contexts as
 * they found it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"

#define MAX_DEVICES 64
#define MAX_DEPTH   32

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int n_devices = -1; /* -1: cuInit has not been called */
static struct CUctx_st primary[MAX_DEVICES];
static __thread CUcontext stack[MAX_DEPTH];
static __thread int depth;

int fake_device_count(void) { return n_devices; }

CUresult fake_current(CUcontext *out)
{
        if (n_devices < 0)
                return CUDA_ERROR_NOT_INITIALIZED;
        if (!depth || !stack[depth - 1])
                return CUDA_ERROR_INVALID_CONTEXT;
        if (stack[depth - 1]->dead)
                return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        *out = stack[depth - 1];
        return CUDA_SUCCESS;
}

EXPORT CUresult cuInit(unsigned int flags)
{
        if (flags)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&lock);
        if (n_devices < 0) {
                const char *text = getenv("CAPO_STANDIN_GPUS");
                int n = text && *text ? atoi(text) : 8;

                n_devices = n < 0 ? 0 : n > MAX_DEVICES ? MAX_DEVICES : n;
                for (int i = 0; i < n_devices; i++) {
                        primary[i] = (struct CUctx_st){.device = i, .primary = true};
                        pthread_mutex_init(&primary[i].lock, NULL);
                }
        }
        pthread_mutex_unlock(&lock);
        return n_devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
        if (!version)
                return CUDA_ERROR_INVALID_VALUE;
        *version = CUDA_VERSION;
        return CUDA_SUCCESS;
}

static CUresult check_device(CUdevice d)
{
        if (n_devices < 0)
                return CUDA_ERROR_NOT_INITIALIZED;
        return d >= 0 && d < n_devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
        CUresult r = check_device(ordinal);

        if (!r)
                *device = ordinal;
        return r;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
        if (n_devices < 0)
                return CUDA_ERROR_NOT_INITIALIZED;
        *count = n_devices;
        return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int room, CUdevice device)
{
        CUresult r = check_device(device);

        if (!r)
                snprintf(name, (size_t)room, "capo stand-in (host memory)");
        return r;
}

/* CAPO_STANDIN_MIG=N: every device is a MIG slice, N of them to a GPU. */
static int slices_per_gpu(void)
{
        const char *text = getenv("CAPO_STANDIN_MIG");

        return text && atoi(text) > 0 ? atoi(text) : 0;
}

static int gpu_of(CUdevice device) { return slices_per_gpu() ? device / slices_per_gpu() : device; }

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int room, CUdevice device)
{
        CUresult r = check_device(device);

        if (!r)
                snprintf(text, (size_t)room, "0000:%02X:00.0", gpu_of(device) + 1);
        return r;
}

/* Since 11.4 a slice has a UUID of its own; the older function tells its GPU's. */
EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
        CUresult r = check_device(device);

        if (!r)
                *uuid = (CUuuid){{'G', 'P', 'U', (char)gpu_of(device)}};
        return r;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
        CUresult r = check_device(device);

        if (!r)
                *uuid = slices_per_gpu() ? (CUuuid){{'M', 'I', 'G', (char)device}}
                                         : (CUuuid){{'G', 'P', 'U', (char)device}};
        return r;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
        CUresult r = check_device(device);

        if (r)
                return r;
        switch ((int)attribute) {
        case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = device + 1; break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: *value = 1; break;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
                *value = (int)sysconf(_SC_NPROCESSORS_ONLN);
                break;
        default: *value = 0;
        }
        return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
        CUresult r = check_device(device);

        if (!r)
                *bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
        return r;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device)
{
        CUresult r = check_device(device);

        if (r)
                return r;
        pthread_mutex_lock(&lock);
        if (!primary[device].refs++)
                primary[device].lost = 0;
        primary[device].dead = false;
        pthread_mutex_unlock(&lock);
        *ctx = &primary[device];
        return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
        CUresult r = check_device(device);
        bool last = false;

        if (r)
                return r;
        pthread_mutex_lock(&lock);
        if (!primary[device].refs)
                r = CUDA_ERROR_INVALID_CONTEXT;
        else
                last = --primary[device].refs == 0;
        if (last) {
                primary[device].dead = true;
                primary[device].life++;
        }
        pthread_mutex_unlock(&lock);
        if (last)
                fake_streams_close(&primary[device]);
        return r;
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
        CUresult r = check_device(device);

        if (!r) {
                *flags = 0;
                *active = primary[device].refs > 0;
        }
        return r;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
        if (n_devices < 0)
                return CUDA_ERROR_NOT_INITIALIZED;
        if (!ctx || depth == MAX_DEPTH)
                return CUDA_ERROR_INVALID_CONTEXT;
        stack[depth++] = ctx;
        return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
        if (!depth)
                return CUDA_ERROR_INVALID_CONTEXT;
        depth--;
        if (ctx)
                *ctx = stack[depth];
        return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext ctx)
{
        if (n_devices < 0)
                return CUDA_ERROR_NOT_INITIALIZED;
        if (!ctx) {
                depth -= depth > 0;
                return CUDA_SUCCESS;
        }
        if (!depth)
                depth = 1;
        stack[depth - 1] = ctx;
        return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *ctx)
{
        if (n_devices < 0)
                return CUDA_ERROR_NOT_INITIALIZED;
        *ctx = depth ? stack[depth - 1] : NULL;
        return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
        CUcontext ctx;
        CUresult r = fake_current(&ctx);

        if (!r)
                *device = ctx->device;
        return r;
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device)
{
        CUresult r = check_device(device);
        CUcontext ctx;

        if (r)
                return r;
        ctx = calloc(1, sizeof *ctx);
        if (!ctx)
                return CUDA_ERROR_OUT_OF_MEMORY;
        ctx->device = device;
        ctx->refs = 1;
        pthread_mutex_init(&ctx->lock, NULL);
        *out = ctx;
        return cuCtxPushCurrent_v2(ctx);
}

/* The struct stays: events and threads may still name it, and then get
 * CUDA_ERROR_CONTEXT_IS_DESTROYED. */
EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
        if (!ctx || ctx->primary || ctx->dead)
                return CUDA_ERROR_INVALID_CONTEXT;
        if (depth && stack[depth - 1] == ctx)
                depth--;
        fake_streams_close(ctx);
        ctx->dead = true;
        return CUDA_SUCCESS;
}

static const struct {
        CUresult code;
        const char *name, *text;
} errors[] = {
        {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
        {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
        {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
        {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
        {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device"},
        {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
        {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
        {CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM",
         "an operating system call failed"},
        {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
        {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE",
         "the call is not permitted in this state"},
        {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
        {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
        {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED",
         "context is destroyed"},
        {CUDA_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT",
         "the launch timed out and was terminated"},
        {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
        {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
         "not permitted when a stream captures"},
        {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
         "the capture was invalidated"},
        {CUDA_ERROR_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
         "two captures would be merged"},
        {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
         "the capture began on another stream"},
        {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
         "a stream was not joined to the capture's origin"},
        {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
         "dependency on uncaptured work"},
        {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
         "the default stream would depend on a capturing one"},
        {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
         "the event was last recorded in a capture"},
        {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
         "the capture began on another thread"},
        {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult describe(CUresult error, const char **name, const char **text)
{
        for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
                if (errors[i].code == error) {
                        if (name)
                                *name = errors[i].name;
                        if (text)
                                *text = errors[i].text;
                        return CUDA_SUCCESS;
                }
        return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **text)
{
        return describe(error, text, NULL);
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
        return describe(error, NULL, text);
}

static const struct {
        const char *name;
        int since;
        void *fn;
} functions[] = {
#define CU(name, suffix, since, params) {#name, since, (void *)name##suffix},
#include "standin_cuda.def"
};

/* The stand-in has one variant of each function: stream 0 is the legacy stream whatever `flags`
 * asks for. */
EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **fn, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status)
{
        CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        int best = -1;

        if (!symbol || !fn)
                return CUDA_ERROR_INVALID_VALUE;
        if (!strcmp(symbol, "cuGraphInstantiate"))
                symbol = "cuGraphInstantiateWithFlags";
        *fn = NULL;
        for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
                if (strcmp(functions[i].name, symbol))
                        continue;
                if (functions[i].since > version) {
                        if (best < 0)
                                found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
                } else if (functions[i].since > best) {
                        best = functions[i].since;
                        *fn = functions[i].fn;
                        found = CU_GET_PROC_ADDRESS_SUCCESS;
                }
        }
        if (status)
                *status = found;
        return *fn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **fn, int version, cuuint64_t flags)
{
        return cuGetProcAddress_v2(symbol, fn, version, flags, NULL);
}
