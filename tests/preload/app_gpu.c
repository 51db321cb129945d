/* SPDX-License-Identifier: Apache-2.0 */
/*
 * app_gpu [BODY]: one rank with a CUDA stream, on the stand-in driver and NCCL (or on real ones: it uses nothing else).
 *      calls     64 calls, 16 groups, 8 calls on the default stream, 4 captured into a graph that is launched twice
 *      pending   ends while the GPU is still busy
 *      kill      is killed then
 */
#include <signal.h>
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
                MUST(ncclAllReduce((void *)a, (void *)b, COUNT, ncclFloat, ncclSum, comm, (void *)on));
}

static void nap(void *ms)
{
        nanosleep(&(struct timespec){.tv_nsec = (long)(intptr_t)ms * 1000000}, NULL);
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

int main(int argc, char **argv)
{
        const char *what = argc > 1 ? argv[1] : "calls";

        setup();
        if (!strcmp(what, "calls")) {
                calls();
        } else {
                all_reduce(1, stream);
                MUST(cuStreamSynchronize(stream));
                MUST(cuLaunchHostFunc(stream, nap, (void *)400));
                all_reduce(3, stream);
                usleep(50000);
                if (!strcmp(what, "kill"))
                        kill(getpid(), SIGKILL);
        }
        puts("done");
        return 0;
}
