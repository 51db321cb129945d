/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in driver: order of work, events that tell real time, the current context, and what a
 * capture forbids. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>
#include "standin_check.h"

int n_checks, n_failures;

static void nap(void *ms)
{
        nanosleep(&(struct timespec){.tv_nsec = (long)(intptr_t)ms * 1000000}, NULL);
}

static int order[16], n_order;

static void note(void *what)
{
        order[__atomic_fetch_add(&n_order, 1, __ATOMIC_SEQ_CST)] = (int)(intptr_t)what;
}

static CUstream stream(unsigned flags)
{
        CUstream s = NULL;

        EXPECT_IS(cuStreamCreate(&s, flags), CUDA_SUCCESS);
        return s;
}

static CUevent event(unsigned flags)
{
        CUevent e = NULL;

        EXPECT_IS(cuEventCreate(&e, flags), CUDA_SUCCESS);
        return e;
}

static void streams_and_events(void)
{
        CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
        CUevent begin = event(0), end = event(0), silent = event(CU_EVENT_DISABLE_TIMING);
        float ms = -1;

        EXPECT_IS(cuEventQuery(begin), CUDA_SUCCESS); /* never recorded: complete */
        EXPECT_IS(cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_INVALID_HANDLE);
        EXPECT_IS(cuEventRecord(begin, a), CUDA_SUCCESS);
        EXPECT_IS(cuLaunchHostFunc(a, nap, (void *)30), CUDA_SUCCESS);
        EXPECT_IS(cuEventRecord(end, a), CUDA_SUCCESS);
        EXPECT_IS(cuEventQuery(end), CUDA_ERROR_NOT_READY);
        EXPECT_IS(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
        EXPECT_IS(cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_NOT_READY);
        EXPECT_IS(cuStreamWaitEvent(b, end, 0), CUDA_SUCCESS);
        EXPECT_IS(cuLaunchHostFunc(b, note, (void *)1), CUDA_SUCCESS);
        EXPECT(n_order == 0); /* b waits for a */
        EXPECT_IS(cuStreamSynchronize(b), CUDA_SUCCESS);
        EXPECT(n_order == 1);
        EXPECT_IS(cuEventSynchronize(end), CUDA_SUCCESS);
        EXPECT_IS(cuEventElapsedTime(&ms, begin, end), CUDA_SUCCESS);
        EXPECT(ms >= 30 && ms < 3000);
        EXPECT_IS(cuEventRecord(silent, a), CUDA_SUCCESS);
        EXPECT_IS(cuStreamSynchronize(a), CUDA_SUCCESS);
        EXPECT_IS(cuStreamQuery(a), CUDA_SUCCESS);
        EXPECT_IS(cuEventElapsedTime(&ms, begin, silent), CUDA_ERROR_INVALID_HANDLE);
        EXPECT_IS(cuEventDestroy(begin), CUDA_SUCCESS);
        EXPECT_IS(cuEventDestroy(end), CUDA_SUCCESS);
        EXPECT_IS(cuEventDestroy(silent), CUDA_SUCCESS);
        EXPECT_IS(cuStreamDestroy(a), CUDA_SUCCESS);
        EXPECT_IS(cuStreamDestroy(b), CUDA_SUCCESS);
}

static void held(void *until)
{
        while (!__atomic_load_n((bool *)until, __ATOMIC_ACQUIRE))
                nap((void *)1);
}

/* An event recorded on a stream that stands still, and again on another: it is the second record,
 * and who waited for the first still does. */
static void recorded_again(void)
{
        CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING),
                 c = stream(CU_STREAM_NON_BLOCKING);
        CUevent begin = event(0), e = event(0);
        float first = -1, later = -1;
        bool go = false;

        n_order = 0;
        cuLaunchHostFunc(a, held, &go);
        EXPECT_IS(cuEventRecord(begin, b), CUDA_SUCCESS);
        EXPECT_IS(cuEventRecord(e, a), CUDA_SUCCESS);
        EXPECT_IS(cuStreamWaitEvent(c, e, 0), CUDA_SUCCESS);
        cuLaunchHostFunc(c, note, (void *)1);
        EXPECT_IS(cuEventQuery(e), CUDA_ERROR_NOT_READY);
        EXPECT_IS(cuEventRecord(e, b), CUDA_SUCCESS);
        EXPECT_IS(cuEventSynchronize(e), CUDA_SUCCESS);
        EXPECT_IS(cuEventQuery(e), CUDA_SUCCESS);
        EXPECT_IS(cuEventElapsedTime(&first, begin, e), CUDA_SUCCESS);
        nap((void *)20);
        EXPECT_IS(cuStreamQuery(c), CUDA_ERROR_NOT_READY);
        EXPECT(n_order == 0);
        __atomic_store_n(&go, true, __ATOMIC_RELEASE);
        EXPECT_IS(cuStreamSynchronize(c), CUDA_SUCCESS);
        EXPECT(n_order == 1);
        EXPECT_IS(cuStreamSynchronize(a), CUDA_SUCCESS);
        EXPECT_IS(cuStreamDestroy(a), CUDA_SUCCESS);
        EXPECT_IS(cuEventQuery(e), CUDA_SUCCESS);
        EXPECT_IS(cuEventElapsedTime(&later, begin, e), CUDA_SUCCESS);
        EXPECT(first >= 0 && !(first < later) && !(later < first));
        EXPECT_IS(cuEventDestroy(begin), CUDA_SUCCESS);
        EXPECT_IS(cuEventDestroy(e), CUDA_SUCCESS);
        EXPECT_IS(cuStreamDestroy(b), CUDA_SUCCESS);
        EXPECT_IS(cuStreamDestroy(c), CUDA_SUCCESS);
}

/* The default stream waits for blocking streams and they for it; non-blocking ones go their own
 * way. */
static void default_stream(void)
{
        CUstream a = stream(CU_STREAM_DEFAULT);

        n_order = 0;
        cuLaunchHostFunc(a, nap, (void *)10);
        cuLaunchHostFunc(a, note, (void *)1);
        cuLaunchHostFunc(NULL, nap, (void *)5);
        cuLaunchHostFunc(NULL, note, (void *)2);
        cuLaunchHostFunc(a, note, (void *)3);
        EXPECT_IS(cuCtxSynchronize(), CUDA_SUCCESS);
        EXPECT(n_order == 3 && order[0] == 1 && order[1] == 2 && order[2] == 3);
        EXPECT_IS(cuStreamDestroy(a), CUDA_SUCCESS);
}

static void contexts(void)
{
        CUcontext one, two, now;
        CUstream s;
        CUevent e;
        int device = -1;

        EXPECT_IS(cuDevicePrimaryCtxRetain(&two, 1), CUDA_SUCCESS);
        EXPECT_IS(cuCtxGetCurrent(&one), CUDA_SUCCESS);
        EXPECT_IS(cuCtxPushCurrent(two), CUDA_SUCCESS);
        EXPECT_IS(cuCtxGetDevice(&device), CUDA_SUCCESS);
        EXPECT(device == 1);
        s = stream(0);
        EXPECT_IS(cuCtxPopCurrent(&now), CUDA_SUCCESS);
        EXPECT(now == two);
        EXPECT_IS(cuStreamGetCtx(s, &now), CUDA_SUCCESS);
        EXPECT(now == two);
        EXPECT_IS(cuStreamGetCtx(NULL, &now), CUDA_SUCCESS);
        EXPECT(now == one);
        e = event(0); /* of the first context: not for a stream of the second */
        EXPECT_IS(cuEventRecord(e, s), CUDA_ERROR_INVALID_HANDLE);
        EXPECT_IS(cuEventDestroy(e), CUDA_SUCCESS);
        EXPECT_IS(cuStreamDestroy(s), CUDA_SUCCESS);
        EXPECT_IS(cuDevicePrimaryCtxRetain(&now, 99), CUDA_ERROR_INVALID_DEVICE);
        EXPECT_IS(cuCtxCreate_v2(&now, 0, 0), CUDA_SUCCESS);
        EXPECT_IS(cuCtxDestroy(now), CUDA_SUCCESS);
        EXPECT_IS(cuCtxGetCurrent(&now), CUDA_SUCCESS);
        EXPECT(now == one);
}

static void memory(void)
{
        CUdeviceptr p = 0, base = 0;
        unsigned type = 0;
        int device = -1;
        char host[16];
        size_t n = 0;

        EXPECT_IS(cuMemAlloc(&p, 1000), CUDA_SUCCESS);
        EXPECT_IS(cuMemsetD8(p, 7, 1000), CUDA_SUCCESS);
        EXPECT_IS(cuMemcpyDtoH(host, p + 984, 16), CUDA_SUCCESS);
        EXPECT(host[0] == 7 && host[15] == 7);
        EXPECT_IS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 10),
                  CUDA_SUCCESS);
        EXPECT(type == CU_MEMORYTYPE_DEVICE);
        EXPECT_IS(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p + 10),
                  CUDA_SUCCESS);
        EXPECT(device == 0);
        EXPECT_IS(cuMemGetAddressRange(&base, &n, p + 999), CUDA_SUCCESS);
        EXPECT(base == p && n >= 1000);
        EXPECT_IS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        (CUdeviceptr)(uintptr_t)host),
                  CUDA_ERROR_INVALID_VALUE);
        EXPECT_IS(cuMemFree(p), CUDA_SUCCESS);
        EXPECT_IS(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
}

/* One allocation at two places is the same bytes, also for who got it as a file; nothing is there
 * before access was given or after. */
static void virtual_memory(void)
{
        CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .requestedHandleTypes =
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}},
                            got, odd = prop;
        CUmemAccessDesc one = {{CU_MEM_LOCATION_TYPE_DEVICE, 1},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                        zero = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READ};
        CUmemGenericAllocationHandle h = 0, again = 0, imported = 0;
        CUdeviceptr a = 0, b = 0, base = 0;
        unsigned long long flags = 9;
        int fd = -1, device = -1;
        unsigned seen = 0;
        CUstream s = stream(CU_STREAM_NON_BLOCKING);
        size_t g = 0, n = 0;

        EXPECT_IS(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                  CUDA_SUCCESS);
        EXPECT(g >= 4096 && !(g & (g - 1)));
        odd.location.id = 99;
        EXPECT_IS(cuMemCreate(&h, g, &odd, 0), CUDA_ERROR_INVALID_DEVICE);
        odd.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0};
        EXPECT_IS(cuMemCreate(&h, g, &odd, 0), CUDA_ERROR_NOT_SUPPORTED);
        odd = prop;
        odd.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
        EXPECT_IS(cuMemCreate(&h, g, &odd, 0), CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_IS(cuMemCreate(&h, g + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
        EXPECT_IS(cuMemCreate(&h, 2 * g, &prop, 0), CUDA_SUCCESS);
        EXPECT_IS(cuMemAddressReserve(&a, 4 * g, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
        EXPECT_IS(cuMemAddressReserve(&a, 4 * g, 8 * g, 0, 0), CUDA_SUCCESS);
        EXPECT(a && a % (8 * g) == 0);
        EXPECT_IS(cuMemAddressReserve(&b, 2 * g, 0, 0, 0), CUDA_SUCCESS);
        EXPECT_IS(cuMemMap(a, 4 * g, 0, h, 0), CUDA_ERROR_INVALID_VALUE); /* more than there is */
        EXPECT_IS(cuMemMap(a + g, 2 * g, 0, h, 0), CUDA_SUCCESS);
        EXPECT_IS(cuMemMap(a, 2 * g, 0, h, 0),
                  CUDA_ERROR_INVALID_VALUE); /* there is something already */
        EXPECT_IS(cuMemMap(b + g, 2 * g, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
        EXPECT_IS(cuMemSetAccess(a, 3 * g, &one, 1),
                  CUDA_ERROR_INVALID_VALUE); /* not all of it is mapped */
        EXPECT_IS(cuMemSetAccess(a + g, g, &one, 1), CUDA_ERROR_INVALID_VALUE);
        EXPECT_IS(cuMemSetAccess(a + g, 2 * g, &one, 1), CUDA_SUCCESS);
        EXPECT_IS(cuMemGetAccess(&flags, &one.location, a + g), CUDA_SUCCESS);
        EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        EXPECT_IS(cuMemGetAccess(&flags, &zero.location, a + g), CUDA_SUCCESS);
        EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
        EXPECT_IS(cuMemGetAddressRange(&base, &n, a + g + 5), CUDA_SUCCESS);
        EXPECT(base == a + g && n == 2 * g);
        EXPECT_IS(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a + 2 * g),
                  CUDA_SUCCESS);
        EXPECT(device == 1);
        EXPECT_IS(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a),
                  CUDA_ERROR_INVALID_VALUE);
        EXPECT_IS(cuMemFree(a + g), CUDA_ERROR_INVALID_VALUE); /* not what cuMemAlloc() gave */

        EXPECT_IS(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_FABRIC, 0),
                  CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_IS(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                  CUDA_SUCCESS);
        EXPECT_IS(cuMemImportFromShareableHandle(&imported, NULL,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                  CUDA_ERROR_INVALID_VALUE); /* standard input is no memory of a device's */
        EXPECT_IS(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                  CUDA_SUCCESS);
        EXPECT_IS(close(fd), 0);
        memset(&got, 0, sizeof got);
        EXPECT_IS(cuMemGetAllocationPropertiesFromHandle(&got, imported), CUDA_SUCCESS);
        EXPECT(got.location.id == 1 && got.type == CU_MEM_ALLOCATION_TYPE_PINNED);
        EXPECT_IS(cuMemMap(b, 2 * g, 0, imported, 0), CUDA_SUCCESS);
        EXPECT_IS(cuMemRelease(imported), CUDA_SUCCESS); /* its mapping keeps it */
        EXPECT_IS(cuMemSetAccess(b, 2 * g, &zero, 1), CUDA_SUCCESS);
        EXPECT_IS(cuStreamWriteValue32(s, a + 2 * g + 2, 7, 0), CUDA_ERROR_INVALID_VALUE);
        EXPECT_IS(cuLaunchHostFunc(s, nap, (void *)20), CUDA_SUCCESS);
        EXPECT_IS(cuStreamWriteValue32(s, a + 2 * g, 77, 0), CUDA_SUCCESS);
        EXPECT(*(volatile unsigned *)(uintptr_t)(b + g) == 0); /* in the stream's order */
        EXPECT_IS(cuStreamSynchronize(s), CUDA_SUCCESS);
        EXPECT_IS(cuMemcpyDtoH(&seen, b + g, sizeof seen), CUDA_SUCCESS);
        EXPECT(seen == 77);

        EXPECT_IS(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(a + g + 8)),
                  CUDA_SUCCESS);
        EXPECT(again == h);
        EXPECT_IS(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)a),
                  CUDA_ERROR_INVALID_VALUE);
        EXPECT_IS(cuMemRelease(h), CUDA_SUCCESS);
        EXPECT_IS(cuMemRelease(h), CUDA_SUCCESS);
        EXPECT_IS(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE);
        EXPECT_IS(cuMemAddressFree(a, 4 * g),
                  CUDA_ERROR_INVALID_VALUE); /* something is mapped there */
        EXPECT_IS(cuMemUnmap(a + g, g), CUDA_ERROR_INVALID_VALUE);
        EXPECT_IS(cuMemUnmap(a + g, 2 * g), CUDA_SUCCESS);
        EXPECT_IS(cuMemUnmap(a + g, 2 * g), CUDA_ERROR_INVALID_VALUE);
        EXPECT_IS(cuMemGetAddressRange(&base, &n, a + g + 5), CUDA_ERROR_NOT_FOUND);
        EXPECT_IS(cuMemcpyDtoH(&seen, b + g, sizeof seen),
                  CUDA_SUCCESS); /* the other mapping has it still */
        EXPECT(seen == 77);
        EXPECT_IS(cuMemAddressFree(a, 2 * g), CUDA_ERROR_INVALID_VALUE);
        EXPECT_IS(cuMemAddressFree(a, 4 * g), CUDA_SUCCESS);
        EXPECT_IS(cuMemUnmap(b, 2 * g), CUDA_SUCCESS);
        EXPECT_IS(cuMemAddressFree(b, 2 * g), CUDA_SUCCESS);
        EXPECT_IS(cuStreamDestroy(s), CUDA_SUCCESS);
}

static void addresses(void)
{
        void *fn = NULL, *v2 = NULL, *v3 = NULL;
        CUdriverProcAddressQueryResult status;

        EXPECT_IS(cuGetProcAddress("cuMemAlloc", &fn, 12000, 0, &status), CUDA_SUCCESS);
        EXPECT(fn == dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
        EXPECT_IS(cuGetProcAddress("cuStreamGetCaptureInfo", &v2, 12000, 0, NULL), CUDA_SUCCESS);
        EXPECT_IS(cuGetProcAddress("cuStreamGetCaptureInfo", &v3, 13000, 0, NULL), CUDA_SUCCESS);
        EXPECT(v2 == dlsym(RTLD_DEFAULT, "cuStreamGetCaptureInfo_v2") && v3 != v2);
        EXPECT_IS(cuGetProcAddress("cuNoSuchThing", &fn, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
        EXPECT(!fn && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
        EXPECT_IS(cuGetProcAddress("cuStreamGetId", &fn, 11000, 0, &status), CUDA_ERROR_NOT_FOUND);
        EXPECT(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

static CUstreamCaptureStatus capturing(CUstream s)
{
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

        EXPECT_IS(cuStreamIsCapturing(s, &status), CUDA_SUCCESS);
        return status;
}

static void *query_elsewhere(void *e)
{
        CUcontext ctx;

        cuDevicePrimaryCtxRetain(&ctx, 0);
        cuCtxSetCurrent(ctx);
        return (void *)(intptr_t)cuEventQuery(e);
}

static void *query_relaxed(void *e)
{
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        CUcontext ctx;
        CUresult r;

        cuDevicePrimaryCtxRetain(&ctx, 0);
        cuCtxSetCurrent(ctx);
        cuThreadExchangeStreamCaptureMode(&mode);
        r = cuEventQuery(e);
        cuThreadExchangeStreamCaptureMode(&mode);
        return (void *)(intptr_t)r;
}

static void capture(void)
{
        CUstream a = stream(CU_STREAM_DEFAULT), b = stream(CU_STREAM_NON_BLOCKING);
        CUevent plain = event(0), inside = event(0), back = event(0), timed = event(0);
        CUstreamCaptureStatus status;
        CUgraphExec exec;
        CUgraph graph;
        pthread_t t;
        size_t nodes = 0;
        void *r;

        /* A graph of two streams; replayed, not run at capture. */
        n_order = 0;
        EXPECT_IS(cuEventRecord(plain, b), CUDA_SUCCESS);
        EXPECT_IS(cuStreamSynchronize(b), CUDA_SUCCESS);
        EXPECT_IS(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
        EXPECT_IS(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
        EXPECT(capturing(a) == CU_STREAM_CAPTURE_STATUS_ACTIVE &&
               capturing(b) == CU_STREAM_CAPTURE_STATUS_NONE);
        EXPECT_IS(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        EXPECT(capturing(a) == CU_STREAM_CAPTURE_STATUS_ACTIVE); /* asking does no harm */
        cuLaunchHostFunc(a, note, (void *)1);
        EXPECT_IS(cuEventRecord(inside, a), CUDA_SUCCESS);
        EXPECT_IS(cuStreamWaitEvent(b, inside, 0), CUDA_SUCCESS);
        EXPECT(capturing(b) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
        cuLaunchHostFunc(b, note, (void *)2);
        EXPECT_IS(cuEventRecord(back, b), CUDA_SUCCESS);
        EXPECT_IS(cuStreamWaitEvent(a, back, 0), CUDA_SUCCESS);
        EXPECT_IS(cuEventRecordWithFlags(timed, a, CU_EVENT_RECORD_EXTERNAL), CUDA_SUCCESS);
        EXPECT_IS(cuStreamEndCapture(a, &graph), CUDA_SUCCESS);
        EXPECT(n_order == 0 && capturing(b) == CU_STREAM_CAPTURE_STATUS_NONE);
        EXPECT_IS(cuEventQuery(inside), CUDA_ERROR_CAPTURED_EVENT);
        EXPECT_IS(cuGraphGetNodes(graph, NULL, &nodes), CUDA_SUCCESS);
        EXPECT(nodes == 3);
        EXPECT_IS(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
        EXPECT_IS(cuGraphDestroy(graph), CUDA_SUCCESS);
        EXPECT_IS(cuGraphLaunch(exec, b), CUDA_SUCCESS);
        EXPECT_IS(cuGraphLaunch(exec, b), CUDA_SUCCESS);
        EXPECT_IS(cuGraphExecDestroy(exec), CUDA_SUCCESS);
        EXPECT_IS(cuStreamSynchronize(b), CUDA_SUCCESS);
        EXPECT(n_order == 4 && order[0] == 1 && order[3] == 2);
        EXPECT_IS(cuEventQuery(timed), CUDA_SUCCESS);
        EXPECT_IS(cuEventRecord(inside, b),
                  CUDA_SUCCESS); /* recorded outside: an ordinary event again */
        EXPECT_IS(cuStreamSynchronize(b), CUDA_SUCCESS);
        EXPECT_IS(cuEventQuery(inside), CUDA_SUCCESS);

        /* What breaks a capture: an unsafe call on this thread, */
        EXPECT_IS(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
        EXPECT_IS(cuEventQuery(plain), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        EXPECT(capturing(a) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        EXPECT_IS(cuLaunchHostFunc(a, note, NULL), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        EXPECT_IS(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        EXPECT(!graph);
        /* on any thread in global mode, unless that thread relaxed, */
        EXPECT_IS(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
        pthread_create(&t, NULL, query_relaxed, plain);
        pthread_join(t, &r);
        EXPECT_IS((intptr_t)r, CUDA_SUCCESS);
        EXPECT(capturing(a) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
        pthread_create(&t, NULL, query_elsewhere, plain);
        pthread_join(t, &r);
        EXPECT_IS((intptr_t)r, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        EXPECT(capturing(a) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        EXPECT_IS(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        /* but not of another thread's local one; */
        EXPECT_IS(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
        pthread_create(&t, NULL, query_elsewhere, plain);
        pthread_join(t, &r);
        EXPECT_IS((intptr_t)r, CUDA_SUCCESS);
        EXPECT_IS(cuStreamEndCapture(a, &graph), CUDA_SUCCESS);
        EXPECT_IS(cuGraphDestroy(graph), CUDA_SUCCESS);
        /* synchronising the capturing stream, */
        EXPECT_IS(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
        EXPECT_IS(cuEventQuery(plain), CUDA_SUCCESS); /* relaxed allows this */
        EXPECT_IS(cuStreamSynchronize(a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        EXPECT_IS(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        /* work on the default stream beside a blocking one, */
        EXPECT_IS(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
        EXPECT_IS(cuEventRecord(plain, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        EXPECT_IS(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        /* a dependency from outside, and a stream that never came back. */
        EXPECT_IS(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
        EXPECT_IS(cuStreamWaitEvent(a, plain, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        EXPECT_IS(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        EXPECT_IS(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
        EXPECT_IS(cuEventRecord(inside, a), CUDA_SUCCESS);
        EXPECT_IS(cuStreamWaitEvent(b, inside, 0), CUDA_SUCCESS);
        EXPECT_IS(cuStreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        EXPECT_IS(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        EXPECT_IS(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
        EXPECT_IS(cuEventRecord(inside, a), CUDA_SUCCESS);
        EXPECT_IS(cuStreamWaitEvent(b, inside, 0), CUDA_SUCCESS);
        EXPECT_IS(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        EXPECT_IS(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
                  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        EXPECT_IS(cuStreamEndCapture(a, &graph), CUDA_ERROR_ILLEGAL_STATE);
        cuStreamDestroy(a);
        cuStreamDestroy(b);
        cuEventDestroy(plain);
        cuEventDestroy(inside);
        cuEventDestroy(back);
        cuEventDestroy(timed);
}

int main(void)
{
        const char *text = NULL;
        CUcontext ctx;
        int n = 0;

        EXPECT_IS(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
        EXPECT_IS(cuInit(0), CUDA_SUCCESS);
        EXPECT_IS(cuDeviceGetCount(&n), CUDA_SUCCESS);
        EXPECT(n == 8);
        EXPECT_IS(cuCtxGetCurrent(&ctx), CUDA_SUCCESS);
        EXPECT(!ctx);
        EXPECT_IS(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
        EXPECT_IS(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
        EXPECT_IS(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
        EXPECT_IS(cuGetErrorName(CUDA_ERROR_CAPTURED_EVENT, &text), CUDA_SUCCESS);
        EXPECT(!strcmp(text, "CUDA_ERROR_CAPTURED_EVENT"));
        streams_and_events();
        recorded_again();
        default_stream();
        contexts();
        memory();
        virtual_memory();
        addresses();
        capture();
        return DONE("check_driver");
}
