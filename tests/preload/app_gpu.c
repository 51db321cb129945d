/* SPDX-License-Identifier: Apache-2.0 */
/*
 * app_gpu [BODY]: one rank with a CUDA stream, on the stand-in driver and NCCL (or on real ones: it
 * uses nothing else). calls     64 calls, 16 groups, 8 calls on the default stream, 4 captured into
 * a graph that is launched twice ranks     64 calls on each of two ranks, a thread each how the
 * same, half of the calls with a config that says how devices   64 groups of one call on each of
 * two ranks, by one thread cancel    a thread that has made 20 calls is cancelled where it waits
 *      reset     20 calls, then the context goes as with cudaDeviceReset(), and 20 calls in the one
 *                that comes after it
 *      pending   ends while the GPU is still busy
 *      kill MS   is killed then, so many milliseconds later
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>
#include <nccl.h>

#define MUST(x)                                                                \
        do {                                                                   \
                int r_ = (int)(x);                                             \
                if (r_) {                                                      \
                        printf("%s:%d: %s: %d\n", __FILE__, __LINE__, #x, r_); \
                        exit(1);                                               \
                }                                                              \
        } while (0)

#define COUNT (256 << 10)
static CUdeviceptr a, b;
static CUcontext context;
static CUstream stream;
static ncclComm_t comm;

static void all_reduce(int times, CUstream on)
{
        for (int i = 0; i < times; i++)
                MUST(ncclAllReduce((void *)a, (void *)b, COUNT, ncclFloat, ncclSum, comm,
                                   (void *)on));
}

static void nap(void *ms)
{
        nanosleep(&(struct timespec){.tv_sec = (intptr_t)ms / 1000,
                                     .tv_nsec = (intptr_t)ms % 1000 * 1000000},
                  NULL);
}

static _Atomic bool waits; /* the thread has done what it does */

static void *calls_and_waits(void *unused)
{
        ncclComm_t other;

        MUST(cuCtxSetCurrent(context));
        all_reduce(20, stream);
        MUST(ncclCommSplit(comm, 0, 0, &other, NULL)); /* under a lock of the recorder's */
        MUST(cuStreamSynchronize(stream));
        waits = true;
        for (;;)
                pause();
        return NULL;
}

static void setup(void)
{
        ncclUniqueId id;

        MUST(cuInit(0));
        MUST(cuDevicePrimaryCtxRetain(&context, 0));
        MUST(cuCtxSetCurrent(context));
        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&a, COUNT * 4));
        MUST(cuMemAlloc(&b, COUNT * 4));
        MUST(ncclGetUniqueId(&id));
        MUST(ncclCommInitRank(&comm, 1, id, 0));
}

static void calls(void)
{
        CUgraphExec exec;
        CUgraph graph;

        all_reduce(64, stream);
        MUST(cuStreamSynchronize(stream));
        for (int i = 0; i < 16; i++) {
                MUST(ncclGroupStart());
                all_reduce(2, stream);
                MUST(ncclGroupEnd());
        }
        MUST(cuStreamSynchronize(stream));
        all_reduce(8, NULL);
        MUST(cuCtxSynchronize());
        /* calls are still in flight, and polled, while the strictest kind of capture goes on */
        MUST(cuLaunchHostFunc(stream, nap, (void *)60));
        all_reduce(8, stream);
        CUstream other;
        MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        MUST(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_GLOBAL));
        all_reduce(4, other);
        usleep(150000);
        MUST(cuStreamEndCapture(other, &graph));
        MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
        MUST(cuGraphLaunch(exec, other));
        MUST(cuGraphLaunch(exec, other));
        MUST(cuStreamSynchronize(other));
        MUST(cuStreamSynchronize(stream));
}

static ncclUniqueId shared_id;
static int gpu_is_late_ms; /* what the GPUs do first */

static void *one_rank(void *rank)
{
        CUdeviceptr from, to;
        CUcontext mine;
        CUstream s;
        ncclComm_t c;

        MUST(cuDevicePrimaryCtxRetain(&mine, (int)(intptr_t)rank));
        MUST(cuCtxSetCurrent(mine));
        MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&from, COUNT * 4));
        MUST(cuMemAlloc(&to, COUNT * 4));
        MUST(ncclCommInitRank(&c, 2, shared_id, (int)(intptr_t)rank));
        if (gpu_is_late_ms)
                MUST(cuLaunchHostFunc(s, nap, (void *)(intptr_t)gpu_is_late_ms));
        for (int i = 0; i < 64; i++)
                MUST(ncclAllReduce((void *)from, (void *)to, 1024, ncclFloat, ncclSum, c,
                                   (void *)s));
        MUST(cuStreamSynchronize(s));
        MUST(ncclCommDestroy(c));
        return NULL;
}

static void ranks(void)
{
        pthread_t t[2];

        MUST(cuInit(0));
        MUST(ncclGetUniqueId(&shared_id));
        for (int i = 0; i < 2; i++)
                MUST(pthread_create(&t[i], NULL, one_rank, (void *)(intptr_t)i));
        for (int i = 0; i < 2; i++)
                pthread_join(t[i], NULL);
}

static void devices(bool how)
{
        static const char *const asked[4] = {NULL, "ring_simple", "TREE", "Ring_LL,PAT"};
        ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;

        const int gpus[2] = {0, 1};
        CUcontext of[2];
        CUdeviceptr data[2];
        CUstream s[2];
        ncclComm_t c[2];

        MUST(cuInit(0));
        for (int i = 0; i < 2; i++) {
                MUST(cuDevicePrimaryCtxRetain(&of[i], i));
                MUST(cuCtxSetCurrent(of[i]));
                MUST(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
                MUST(cuMemAlloc(&data[i], COUNT * 4));
        }
        MUST(ncclCommInitAll(c, 2, gpus));
        for (int k = 0; k < 64; k++) {
                MUST(ncclGroupStart());
                for (int i = 0; i < 2; i++) {
                        MUST(cuCtxSetCurrent(of[i]));
                        config.algSelection = asked[k % 4];
                        config.maxCTAs = k % 4 ? 1 : INT_MIN;
                        MUST(ncclAllReduceConfig((void *)data[i], (void *)data[i], 1024, ncclFloat,
                                                 ncclSum, c[i], (void *)s[i],
                                                 how ? &config : NULL));
                }
                MUST(ncclGroupEnd());
        }
        config.algSelection = "SYMK_LL";
        MUST(how && ncclAllReduceConfig((void *)data[0], (void *)data[0], 1024, ncclFloat, ncclSum,
                                        c[0], (void *)s[0], &config) != ncclInvalidArgument);
        for (int i = 0; i < 2; i++)
                MUST(cuStreamSynchronize(s[i]));
        for (int i = 0; i < 2; i++)
                MUST(ncclCommDestroy(c[i]));
}

int main(int argc, char **argv)
{
        const char *what = argc > 1 ? argv[1] : "calls";

        if (!strcmp(what, "ranks")) {
                gpu_is_late_ms = argc > 2 ? atoi(argv[2]) : 0;
                ranks();
                puts("done");
                return 0;
        }
        if (!strcmp(what, "devices") || !strcmp(what, "how")) {
                devices(!strcmp(what, "how"));
                puts("done");
                return 0;
        }
        setup();
        if (!strcmp(what, "calls")) {
                calls();
        } else if (!strcmp(what, "cancel")) {
                pthread_t thread;
                void *end;

                MUST(pthread_create(&thread, NULL, calls_and_waits, NULL));
                while (!waits)
                        usleep(1000);
                MUST(pthread_cancel(thread));
                MUST(pthread_join(thread, &end));
                MUST(end != PTHREAD_CANCELED);
        } else if (!strcmp(what, "reset")) {
                for (int i = 0; i < 2; i++) {
                        all_reduce(20, stream);
                        MUST(cuStreamSynchronize(stream));
                        usleep(i ? 0
                                 : 200000); /* so that slots are free again, with their events */
                        MUST(ncclCommDestroy(comm));
                        if (i)
                                break;
                        MUST(cuDevicePrimaryCtxRelease(0));
                        setup();
                }
        } else {
                all_reduce(1, stream);
                MUST(cuStreamSynchronize(stream));
                MUST(cuLaunchHostFunc(stream, nap, (void *)10000));
                all_reduce(3, stream);
                usleep(1000 * (argc > 2 ? (useconds_t)atoi(argv[2]) : 50));
                if (!strcmp(what, "kill"))
                        kill(getpid(), SIGKILL);
        }
        puts("done");
        return 0;
}
