/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA runtime over the driver of the stand-in, for unmodified programs that bring no runtime of
 * their own inside them (tests/frameworks): libcudart.so.12 or .13, whichever header it is built
 * with. Memory, copies, streams, events and graphs are the driver's, and real. Kernels are dropped:
 * what one would have computed is not there, so a result means something only where it came by
 * copies and by NCCL. Whatever else a program asks for by name returns cudaErrorNotSupported
 * (stubs.py).
 *
 * Not linked into anything of capo's; built by tests/frameworks with CUDA's own headers, which
 * check the prototypes.
 */
#include <cuda_runtime_api.h>
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)

#define MAX_DEVICES 64
#define SM_COUNT    132 /* as an H100 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MAX_DEVICES];
static __thread int device; /* what cudaSetDevice said, until there is a context */
static __thread cudaError_t last;

static cudaError_t done(CUresult r)
{
        if (r)
                last = (cudaError_t)r;
        return (cudaError_t)r;
}

static CUresult use(int which)
{
        CUresult r = cuInit(0);
        int n = 0;

        if (!r)
                r = cuDeviceGetCount(&n);
        if (!r && (which < 0 || which >= n || which >= MAX_DEVICES))
                r = CUDA_ERROR_INVALID_DEVICE;
        if (r)
                return r;
        pthread_mutex_lock(&lock);
        if (!primary[which])
                r = cuDevicePrimaryCtxRetain(&primary[which], which);
        pthread_mutex_unlock(&lock);
        return r ? r : cuCtxSetCurrent(primary[which]);
}

/* A thread without a context gets its device's, as in CUDA. */
static CUresult bind(void)
{
        CUcontext now = NULL;

        return cuCtxGetCurrent(&now) == CUDA_SUCCESS && now ? CUDA_SUCCESS : use(device);
}

#define RT(name, params, driver, args)            \
        cudaError_t name params                   \
        {                                         \
                CUresult r = bind();              \
                                                  \
                return done(r ? r : driver args); \
        }
#include "forward.def"

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *n)
{
        CUresult r = cuInit(0);

        return done(r ? r : cuDeviceGetCount(n));
}

cudaError_t cudaGetDevice(int *which)
{
        if (cuCtxGetDevice(which))
                *which = device;
        return cudaSuccess;
}

cudaError_t cudaSetDevice(int which)
{
        CUresult r = use(which);

        if (!r)
                device = which;
        return done(r);
}

cudaError_t cudaDriverGetVersion(int *version) { return done(cuDriverGetVersion(version)); }

cudaError_t cudaRuntimeGetVersion(int *version)
{
        *version = CUDART_VERSION;
        return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int of)
{
        struct cudaDeviceProp p;
        CUresult r = (CUresult)cudaGetDeviceProperties(&p, of);

        if (r)
                return done(r);
        switch (which) {
        case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
        case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
        case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
        case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
        case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
        case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
        case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)p.sharedMemPerBlock; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)p.sharedMemPerBlockOptin; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
                *value = (int)p.sharedMemPerMultiprocessor;
                break;
        case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
        case cudaDevAttrMaxRegistersPerMultiprocessor: *value = p.regsPerMultiprocessor; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
        case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
        case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
        case cudaDevAttrWarpSize: *value = p.warpSize; break;
        case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
        case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
        case cudaDevAttrPciBusId: *value = p.pciBusID; break;
        case cudaDevAttrUnifiedAddressing: *value = p.unifiedAddressing; break;
        default: *value = 0; /* a thing the device cannot do */
        }
        return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int of)
{
        CUresult r = cuInit(0);
        CUuuid uuid;

        *p = (struct cudaDeviceProp){
                .major = 9,
                .warpSize = 32,
                .multiProcessorCount = SM_COUNT,
                .maxThreadsPerBlock = 1024,
                .maxThreadsPerMultiProcessor = 2048,
                .maxBlocksPerMultiProcessor = 32,
                .maxThreadsDim = {1024, 1024, 64},
                .maxGridSize = {INT32_MAX, 65535, 65535},
                .sharedMemPerBlock = 48 << 10,
                .sharedMemPerBlockOptin = 227 << 10,
                .sharedMemPerMultiprocessor = 228 << 10,
                .regsPerBlock = 65536,
                .regsPerMultiprocessor = 65536,
                .l2CacheSize = 50 << 20,
                .memoryBusWidth = 5120,
                .textureAlignment = 512,
                .unifiedAddressing = 1,
                .concurrentKernels = 1,
                .asyncEngineCount = 3,
                .pciBusID = of + 1,
        };
        if (!r)
                r = cuDeviceGetName(p->name, sizeof p->name, of);
        if (!r)
                r = cuDeviceTotalMem_v2(&p->totalGlobalMem, of);
        if (!r)
                r = cuDeviceGetUuid_v2(&uuid, of);
        if (!r)
                memcpy(&p->uuid, &uuid, sizeof p->uuid);
        return done(r);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int a, int b)
{
        *can = a != b;
        return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) { return cudaSuccess; }

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
        if (least)
                *least = 0;
        if (greatest)
                *greatest = -5;
        return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
        *priority = 0;
        return cudaSuccess;
}

/* ---- errors ---- */

cudaError_t cudaGetLastError(void)
{
        cudaError_t e = last;

        last = cudaSuccess;
        return e;
}

cudaError_t cudaPeekAtLastError(void) { return last; }

const char *cudaGetErrorString(cudaError_t e)
{
        const char *text;

        return cuGetErrorString((CUresult)e, &text) ? "an error the stand-in has no words for"
                                                    : text;
}

const char *cudaGetErrorName(cudaError_t e)
{
        const char *text;

        return cuGetErrorName((CUresult)e, &text) ? "cudaErrorUnknown" : text;
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **ptr, size_t bytes)
{
        CUresult r = bind();
        CUdeviceptr p = 0;

        if (!r && bytes)
                r = cuMemAlloc_v2(&p, bytes);
        *ptr = (void *)(uintptr_t)p;
        return done(r);
}

cudaError_t cudaMallocAsync(void **ptr, size_t bytes, cudaStream_t stream)
{
        return cudaMalloc(ptr, bytes);
}

cudaError_t cudaMallocManaged(void **ptr, size_t bytes, unsigned flags)
{
        return cudaMalloc(ptr, bytes);
}

cudaError_t cudaHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
        CUresult r = bind();

        return done(r ? r : cuMemHostAlloc(ptr, bytes ? bytes : 1, flags));
}

cudaError_t cudaMallocHost(void **ptr, size_t bytes) { return cudaHostAlloc(ptr, bytes, 0); }

cudaError_t cudaHostRegister(void *ptr, size_t bytes, unsigned flags) { return cudaSuccess; }

cudaError_t cudaHostUnregister(void *ptr) { return cudaSuccess; }

cudaError_t cudaHostGetDevicePointer(void **there, void *here, unsigned flags)
{
        *there = here;
        return cudaSuccess;
}

/* The driver knows what it gave out, by page; anything else is the program's own and may change
 * after the call. */
static bool pageable(const void *ptr)
{
        unsigned type;

        return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     (CUdeviceptr)(uintptr_t)ptr);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
        CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
        CUresult r = bind();

        if (!r && bytes)
                r = cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes,
                                  stream);
        if (!r && bytes && (pageable(from) || pageable(to)) &&
            !cuStreamIsCapturing(stream, &capture) && !capture)
                r = cuStreamSynchronize(stream);
        return done(r);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
        cudaError_t e = cudaMemcpyAsync(to, from, bytes, kind, NULL);

        return e ? e : cudaStreamSynchronize(NULL);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int a, const void *from, int b, size_t bytes,
                                cudaStream_t stream)
{
        return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
        cudaError_t e = cudaSuccess;

        for (size_t i = 0; i < height && !e; i++)
                e = cudaMemcpyAsync((char *)to + i * to_pitch, (const char *)from + i * from_pitch,
                                    width, kind, stream);
        return e;
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t at,
                               enum cudaMemcpyKind kind)
{
        return cudaSuccess; /* a kernel's variable, and there are no kernels */
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *ptr)
{
        CUdeviceptr p = (CUdeviceptr)(uintptr_t)ptr;
        unsigned type = 0;
        int of = -2;

        bind();
        memset(a, 0, sizeof *a);
        if (!cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p)) {
                cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
                a->type = type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
                a->devicePointer = (void *)(uintptr_t)ptr;
                a->hostPointer = type == CU_MEMORYTYPE_HOST ? a->devicePointer : NULL;
        }
        a->device = of;
        return cudaSuccess;
}

/* One pool, which keeps nothing. */
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int of)
{
        *pool = (cudaMemPool_t)primary;
        return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value)
{
        return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value)
{
        *(uint64_t *)value = 0;
        return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) { return cudaSuccess; }

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t n)
{
        return cudaSuccess;
}

/* ---- capture: the one question whose prototype changed ---- */

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, size_t *n)
{
        cuuint64_t number = 0;
        CUresult r = bind();

        if (!r)
                r = cuStreamGetCaptureInfo_v3(stream, (CUstreamCaptureStatus *)status, &number,
                                              graph, dependencies, (const CUgraphEdgeData **)edges,
                                              n);
#else
#undef cudaStreamGetCaptureInfo
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                        unsigned long long *id, cudaGraph_t *graph,
                                        const cudaGraphNode_t **dependencies, size_t *n)
{
        cuuint64_t number = 0;
        CUresult r = bind();

        if (!r)
                r = cuStreamGetCaptureInfo_v2(stream, (CUstreamCaptureStatus *)status, &number,
                                              graph, dependencies, n);
#endif
        if (!r && id)
                *id = number;
        return done(r);
}

/* What a graph keeps alive: torch gives its generators' states; they live as long as the process.
 */
cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *ptr, cudaHostFn_t destroy,
                                 unsigned refs, unsigned flags)
{
        *object = (cudaUserObject_t)primary;
        return cudaSuccess;
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned n) { return cudaSuccess; }

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned n,
                                      unsigned flags)
{
        return cudaSuccess;
}

/* ---- the driver's functions by name ---- */

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **fn, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status)
{
        CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;

        *fn = NULL;
        if (cuGetProcAddress_v2(symbol, fn, (int)version, flags, &found))
                *fn = dlsym(RTLD_DEFAULT, symbol); /* a stub, perhaps */
        if (*fn)
                found = CU_GET_PROC_ADDRESS_SUCCESS;
        if (status)
                *status = (enum cudaDriverEntryPointQueryResult)found;
        return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **fn, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status)
{
        return cudaGetDriverEntryPointByVersion(symbol, fn, CUDART_VERSION, flags, status);
}

/* ---- kernels ---- */

cudaError_t cudaLaunchKernel(const void *fn, dim3 grid, dim3 block, void **args, size_t shared,
                             cudaStream_t stream)
{
        return cudaSuccess;
}

cudaError_t cudaLaunchCooperativeKernel(const void *fn, dim3 grid, dim3 block, void **args,
                                        size_t shared, cudaStream_t stream)
{
        return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *fn, void **args)
{
        return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream)
{
        return cudaSuccess;
}

cudaError_t __cudaGetKernel(void **kernel, const void *fn)
{
        *kernel = (void *)(uintptr_t)fn;
        return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *fn)
{
        *a = (struct cudaFuncAttributes){.maxThreadsPerBlock = 1024,
                                         .numRegs = 32,
                                         .binaryVersion = 90,
                                         .ptxVersion = 90,
                                         .maxDynamicSharedSizeBytes = 226 << 10};
        return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *fn, enum cudaFuncAttribute which, int value)
{
        return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *fn, int threads,
                                                          size_t shared)
{
        *n = 2;
        return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *fn,
                                                                   int threads, size_t shared,
                                                                   unsigned flags)
{
        *n = 2;
        return cudaSuccess;
}

cudaError_t cudaGetSymbolAddress(void **ptr, const void *symbol)
{
        static char there[1 << 16]; /* of kernels, which never look */

        *ptr = there;
        return cudaSuccess;
}

cudaError_t cudaProfilerStart(void) { return cudaSuccess; }

cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

/* What nvcc puts into a program: it tells of its kernels, and stacks the <<<...>>> of each launch.
 */

void **__cudaRegisterFatBinary(void *binary) { return calloc(1, sizeof(void *)); }

void __cudaRegisterFatBinaryEnd(void **handle) {}

void __cudaUnregisterFatBinary(void **handle) { free(handle); }

void __cudaRegisterFunction(void **handle, const char *host, char *name, const char *device_name,
                            int limit, void *tid, void *bid, void *block, void *grid, int *warp)
{
}

void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int ext,
                       size_t size, int constant, int global)
{
}

void __cudaRegisterManagedVar(void **handle, void **host, char *address, const char *name, int ext,
                              size_t size, int constant, int global)
{
        if (!*host)
                *host = calloc(1, size);
}

char __cudaInitModule(void **handle) { return 1; }

static __thread struct {
        dim3 grid, block;
        size_t shared;
        void *stream;
} launches[64];
static __thread unsigned n_launches;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
        if (n_launches == sizeof launches / sizeof launches[0])
                return 1;
        launches[n_launches].grid = grid;
        launches[n_launches].block = block;
        launches[n_launches].shared = shared;
        launches[n_launches++].stream = stream;
        return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
        if (!n_launches)
                return cudaErrorMissingConfiguration;
        n_launches--;
        *grid = launches[n_launches].grid;
        *block = launches[n_launches].block;
        *shared = launches[n_launches].shared;
        *(void **)stream = launches[n_launches].stream;
        return cudaSuccess;
}
