/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that ask, and those that register memory.
 */
#include <stdlib.h>

#include "api.h"

/* --- asking --- */

API ncclResult_t pncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *error)
{
        struct comm *comm = (struct comm *)handle;

        if (!comm || comm->magic != COMM_MAGIC || !error)
                return fail(NULL, ncclInvalidArgument, "CommGetAsyncError: invalid argument");
        *error = comm->state == ncclInProgress ? ncclInProgress : (ncclResult_t)comm->error;
        return ncclSuccess;
}

static ncclResult_t ask(const struct comm *comm, int *out, const int *value, const char *what)
{
        ncclResult_t r = comm_check((struct comm *)(uintptr_t)comm, what);

        if (!r && !out)
                r = fail(NULL, ncclInvalidArgument, "%s: NULL argument", what);
        if (!r)
                *out = *value;
        return r;
}

API ncclResult_t pncclCommCount(const ncclComm_t comm, int *count)
{
        return ask((struct comm *)comm, count, &((struct comm *)comm)->n, "CommCount");
}

API ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *device)
{
        return ask((struct comm *)comm, device, &((struct comm *)comm)->device, "CommCuDevice");
}

API ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank)
{
        return ask((struct comm *)comm, rank, &((struct comm *)comm)->rank, "CommUserRank");
}

API const char *pncclGetErrorString(ncclResult_t result)
{
        switch (result) {
        case ncclSuccess: return "no error";
        case ncclUnhandledCudaError:
                return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
        case ncclSystemError:
                return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
        case ncclInternalError:
                return "internal error - please report this issue to the NCCL developers";
        case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
        case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
        case ncclRemoteError: return "remote process exited or there was a network error";
        case ncclInProgress: return "NCCL operation in progress";
        case ncclTimeout: return "operation timed out";
        default: return "unknown result code";
        }
}

API const char *pncclGetLastError(ncclComm_t comm) { return std_last_error(); }

API void pncclResetDebugInit(void) { std_log_reset(); }

/* --- memory: all of it is host memory, so registering only has to be well-behaved --- */

API ncclResult_t pncclMemAlloc(void **ptr, size_t bytes)
{
        ncclResult_t r = driver_open();
        CUdeviceptr p;
        int device;

        if (!r && !ptr)
                r = fail(NULL, ncclInvalidArgument, "MemAlloc: NULL argument");
        if (!r)
                r = driver_device(&device);
        if (r)
                return r;
        if (cu.p_cuMemAlloc(&p, bytes))
                return fail(NULL, ncclUnhandledCudaError, "MemAlloc: out of memory");
        *ptr = (void *)(uintptr_t)p;
        return ncclSuccess;
}

API ncclResult_t pncclMemFree(void *ptr)
{
        ncclResult_t r = driver_open();

        if (!r && cu.p_cuMemFree((CUdeviceptr)(uintptr_t)ptr))
                r = fail(NULL, ncclUnhandledCudaError, "MemFree: not allocated by ncclMemAlloc");
        return r;
}

static ncclResult_t do_register(ncclComm_t comm, void *buffer, size_t bytes, void **handle,
                                const char *what)
{
        ncclResult_t r = comm_check((struct comm *)comm, what);
        struct registration *reg;

        if (!r && (!buffer || !bytes || !handle))
                r = fail(NULL, ncclInvalidArgument, "%s: invalid argument", what);
        if (r)
                return r;
        reg = malloc(sizeof *reg);
        if (!reg)
                return ncclSystemError;
        *reg = (struct registration){buffer, bytes, -1};
        *handle = reg;
        return ncclSuccess;
}

API ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buffer, size_t bytes, void **handle)
{
        return do_register(comm, buffer, bytes, handle, "CommRegister");
}

API ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle)
{
        ncclResult_t r = comm_check((struct comm *)comm, "CommDeregister");

        if (!r)
                free(handle);
        return r;
}

API ncclResult_t pncclCommWindowRegister(ncclComm_t handle, void *buffer, size_t bytes,
                                         ncclWindow_t *window, int flags)
{
        struct comm *comm = (struct comm *)handle;
        struct registration **more;
        ncclResult_t r = do_register(handle, buffer, bytes, (void **)window, "CommWindowRegister");

        if (r)
                return r;
        more = realloc(comm->windows, (size_t)(comm->n_windows + 1) * sizeof *more);
        if (!more)
                return fail(comm, ncclSystemError, "out of memory");
        comm->windows = more;
        comm->windows[comm->n_windows] = (struct registration *)*window;
        comm->windows[comm->n_windows]->window = comm->n_windows;
        comm->n_windows++;
        return ncclSuccess;
}

API ncclResult_t pncclCommWindowDeregister(ncclComm_t handle, ncclWindow_t window)
{
        struct comm *comm = (struct comm *)handle;
        ncclResult_t r = comm_check(comm, "CommWindowDeregister");

        if (r || !window)
                return r;
        comm->windows[((struct registration *)window)->window] = NULL;
        return pncclCommDeregister(handle, window);
}

API ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **ptr)
{
        ncclResult_t r = comm_check((struct comm *)comm, "WinGetUserPtr");

        if (!r && (!window || !ptr))
                r = fail((struct comm *)comm, ncclInvalidArgument, "WinGetUserPtr: NULL argument");
        if (!r)
                *ptr = ((struct registration *)window)->buffer;
        return r;
}

#define STANDIN_PART STANDIN_ASK
#define NCCL(result, name, since, params)         \
        extern __typeof__(pnccl##name) nccl##name \
                __attribute__((weak, alias("pnccl" #name), visibility("default")));
#include "standin_nccl.def"
