/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in NCCL beyond right results: errors, groups, children of communicators, non-blocking
 * ones, abort while a peer is missing, capture. One process; one thread holds all ranks, in groups,
 * as nccl.h allows.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nccl.h>
#include "standin_check.h"

int n_checks, n_failures;

enum { N = 3, ROOM = 1 << 20 };
static ncclComm_t comms[N];
static CUcontext ctx[N];
static CUstream streams[N];
static float *buffer[N]; /* the stand-in's memory is the host's: tests may look */

static void use(int rank) { cuCtxSetCurrent(ctx[rank]); }

static void sync_all(int n)
{
        for (int i = 0; i < n; i++)
                EXPECT_IS(cuStreamSynchronize(streams[i]), CUDA_SUCCESS);
}

static void fill(int n, size_t count)
{
        for (int i = 0; i < n; i++)
                for (size_t k = 0; k < count; k++)
                        buffer[i][k] = (float)(i + 1);
}

static ncclResult_t all_reduce(ncclComm_t *set, int n, size_t count)
{
        ncclGroupStart();
        for (int i = 0; i < n; i++)
                ncclAllReduce(buffer[i], buffer[i], count, ncclFloat, ncclSum, set[i], streams[i]);
        return ncclGroupEnd();
}

static void errors(void)
{
        ncclConfig_t bad = {0};
        ncclComm_t none = NULL, pair[2];
        ncclUniqueId id;
        int twice[2] = {1, 1}, far[2] = {0, 77}, n;

        EXPECT_IS(ncclAllReduce(buffer[0], buffer[0], 1, ncclFloat, ncclSum, NULL, streams[0]),
                  ncclInvalidArgument);
        EXPECT(strstr(ncclGetLastError(NULL), "comm"));
        EXPECT_IS(ncclAllReduce(NULL, buffer[0], 1, ncclFloat, ncclSum, comms[0], streams[0]),
                  ncclInvalidArgument);
        EXPECT_IS(
                ncclAllReduce(buffer[0], buffer[0], 1, ncclNumTypes, ncclSum, comms[0], streams[0]),
                ncclInvalidArgument);
        EXPECT_IS(ncclAllReduce(buffer[0], buffer[0], 1, ncclFloat, (ncclRedOp_t)17, comms[0],
                                streams[0]),
                  ncclInvalidArgument);
        EXPECT_IS(ncclBroadcast(buffer[0], buffer[0], 1, ncclFloat, N, comms[0], streams[0]),
                  ncclInvalidArgument);
        EXPECT_IS(ncclSend(buffer[0], 1, ncclFloat, -1, comms[0], streams[0]), ncclInvalidArgument);
        EXPECT_IS(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, comms[0], streams[0]),
                  ncclSuccess); /* nothing to do */
        EXPECT_IS(ncclGroupEnd(), ncclInvalidUsage);
        ncclGroupStart(); /* an error inside is also the group's, and nothing of it runs */
        EXPECT_IS(ncclReduce(buffer[0], NULL, 1, ncclFloat, ncclSum, 0, comms[0], streams[0]),
                  ncclInvalidArgument);
        EXPECT_IS(ncclGroupEnd(), ncclInvalidArgument);
        EXPECT_IS(ncclGetUniqueId(&id), ncclSuccess);
        EXPECT_IS(ncclCommInitRank(&none, 2, id, 2), ncclInvalidArgument);
        EXPECT_IS(ncclCommInitRankConfig(&none, 1, id, 0, &bad), ncclInvalidArgument);
        EXPECT_IS(ncclCommInitAll(pair, 2, twice), ncclInvalidUsage);
        EXPECT_IS(ncclCommInitAll(pair, 2, far), ncclUnhandledCudaError);
        memset(&id, 1, sizeof id);
        EXPECT_IS(ncclCommInitRank(&none, 1, id, 0), ncclInvalidArgument);
        EXPECT_IS(ncclCommCount(comms[1], &n), ncclSuccess);
        EXPECT(n == N);
        EXPECT_IS(ncclCommUserRank(comms[1], &n), ncclSuccess);
        EXPECT(n == 1);
        EXPECT_IS(ncclCommCuDevice(comms[2], &n), ncclSuccess);
        EXPECT(n == 2);
        EXPECT_IS(ncclGetVersion(&n), ncclSuccess);
        EXPECT(n == 22809);
        EXPECT(!strcmp(ncclGetErrorString(ncclInProgress), "NCCL operation in progress"));
        EXPECT_IS(pncclCommCount(comms[1], &n), ncclSuccess);
}

static void groups(void)
{
        CUstream other;
        ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;

        fill(N, 1000);
        EXPECT_IS(all_reduce(comms, N, 1000), ncclSuccess);
        sync_all(N);
        EXPECT(buffer[0][0] == 6 && buffer[2][999] == 6);

        /* Several of different size and kind at once, some fused, with p2p among them; a second
         * stream on one rank. */
        fill(N, 4000);
        use(0);
        EXPECT_IS(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        ncclGroupStart();
        for (int i = 0; i < N; i++) {
                float *b = buffer[i];

                EXPECT_IS(ncclAllReduce(b, b, 700, ncclFloat, ncclSum, comms[i], streams[i]),
                          ncclSuccess);
                EXPECT_IS(ncclAllReduce(b + 700, b + 700, 10, ncclFloat, ncclSum, comms[i],
                                        i ? streams[i] : other),
                          ncclSuccess);
                EXPECT_IS(ncclAllReduce(b + 710, b + 710, 20, ncclFloat, ncclMax, comms[i],
                                        streams[i]),
                          ncclSuccess);
                EXPECT_IS(ncclBroadcast(b + 1000, b + 1000, 5, ncclFloat, 2, comms[i], streams[i]),
                          ncclSuccess);
                EXPECT_IS(ncclSend(b + 2000, 100, ncclFloat, i, comms[i], streams[i]), ncclSuccess);
                EXPECT_IS(ncclRecv(b + 2100, 100, ncclFloat, i, comms[i], streams[i]), ncclSuccess);
                EXPECT_IS(ncclSend(b + 2000, 100, ncclFloat, (i + 1) % N, comms[i], streams[i]),
                          ncclSuccess);
                EXPECT_IS(ncclRecv(b + 2200, 100, ncclFloat, (i + 2) % N, comms[i], streams[i]),
                          ncclSuccess);
        }
        EXPECT_IS(ncclGroupEnd(), ncclSuccess);
        EXPECT_IS(cuStreamSynchronize(other), CUDA_SUCCESS);
        sync_all(N);
        for (int i = 0; i < N; i++) {
                float *b = buffer[i];

                EXPECT(b[0] == 6 && b[699] == 6 && b[705] == 6 && b[715] == 3 && b[1004] == 3);
                EXPECT(b[2150] == (float)(i + 1) && b[2299] == (float)((i + 2) % N + 1));
        }
        cuStreamDestroy(other);

        ncclGroupStart();
        for (int i = 0; i < N; i++)
                ncclAllReduce(buffer[i], buffer[i], 700, ncclFloat, ncclSum, comms[i], streams[i]);
        EXPECT_IS(ncclGroupSimulateEnd(&sim), ncclSuccess);
        EXPECT(sim.estimatedTime > 0 && buffer[0][0] == 6); /* asked, not run */
}

static void children(void)
{
        ncclComm_t sub[N] = {0}, small[N] = {0}, grown[N + 1] = {0};
        int exclude[1] = {1}, n, rank;
        ncclUniqueId id;

        /* Ranks 0 and 2 in reversed order; rank 1 in none. */
        ncclGroupStart();
        for (int i = 0; i < N; i++)
                EXPECT_IS(
                        ncclCommSplit(comms[i], i == 1 ? NCCL_SPLIT_NOCOLOR : 4, -i, &sub[i], NULL),
                        ncclSuccess);
        EXPECT_IS(ncclGroupEnd(), ncclSuccess);
        EXPECT(sub[0] && !sub[1] && sub[2]);
        ncclCommUserRank(sub[2], &rank);
        ncclCommCount(sub[2], &n);
        EXPECT(rank == 0 && n == 2);
        fill(N, 10);
        ncclGroupStart();
        for (int i = 0; i < N; i += 2)
                ncclAllReduce(buffer[i], buffer[i], 10, ncclFloat, ncclProd, sub[i], streams[i]);
        EXPECT_IS(ncclGroupEnd(), ncclSuccess);
        sync_all(N);
        EXPECT(buffer[0][0] == 3 && buffer[2][9] == 3 && buffer[1][0] == 2);
        ncclCommDestroy(sub[0]);
        ncclCommDestroy(sub[2]);

        ncclGroupStart();
        for (int i = 0; i < N; i += 2)
                EXPECT_IS(
                        ncclCommShrink(comms[i], exclude, 1, &small[i], NULL, NCCL_SHRINK_DEFAULT),
                        ncclSuccess);
        EXPECT_IS(ncclGroupEnd(), ncclSuccess);
        ncclCommUserRank(small[2], &rank);
        EXPECT(rank == 1);
        fill(N, 10);
        ncclGroupStart();
        for (int i = 0; i < N; i += 2)
                ncclReduce(buffer[i], buffer[i], 10, ncclFloat, ncclSum, 1, small[i], streams[i]);
        EXPECT_IS(ncclGroupEnd(), ncclSuccess);
        sync_all(N);
        EXPECT(buffer[2][3] == 4);

        /* Two ranks become three: rank 1 comes back as a new one. */
        EXPECT_IS(ncclCommGetUniqueId(small[0], &id), ncclSuccess);
        ncclGroupStart();
        EXPECT_IS(ncclCommGrow(small[0], 3, &id, -1, &grown[0], NULL), ncclSuccess);
        EXPECT_IS(ncclCommGrow(small[2], 3, NULL, -1, &grown[1], NULL), ncclSuccess);
        use(1);
        EXPECT_IS(ncclCommGrow(NULL, 3, &id, 2, &grown[2], NULL), ncclSuccess);
        EXPECT_IS(ncclGroupEnd(), ncclSuccess);
        fill(N, 10);
        EXPECT_IS(all_reduce(grown, N, 10), ncclSuccess);
        sync_all(N);
        EXPECT(buffer[1][3] == 6);
        for (int i = 0; i < N; i++)
                EXPECT_IS(ncclCommDestroy(grown[i]), ncclSuccess);
        ncclCommDestroy(small[0]);
        ncclCommDestroy(small[2]);
}

static ncclResult_t settle(ncclComm_t comm)
{
        ncclResult_t state = ncclInProgress;

        for (int i = 0; i < 20000 && state == ncclInProgress; i++) {
                EXPECT_IS(ncclCommGetAsyncError(comm, &state), ncclSuccess);
                usleep(500);
        }
        return state;
}

static void non_blocking(void)
{
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        ncclComm_t pair[2], lonely;
        ncclResult_t r;
        ncclUniqueId id;

        config.blocking = 0;
        EXPECT_IS(ncclGetUniqueId(&id), ncclSuccess);
        for (int i = 0; i < 2; i++) { /* no group needed: neither call waits */
                use(i);
                EXPECT_IS(ncclCommInitRankConfig(&pair[i], 2, id, i, &config), ncclInProgress);
        }
        EXPECT_IS(settle(pair[0]), ncclSuccess);
        EXPECT_IS(settle(pair[1]), ncclSuccess);
        fill(2, 50);
        for (int i = 0; i < 2; i++)
                EXPECT_IS(ncclAllReduce(buffer[i], buffer[i], 50, ncclFloat, ncclSum, pair[i],
                                        streams[i]),
                          ncclInProgress);
        for (int i = 0; i < 2; i++)
                EXPECT_IS(settle(pair[i]), ncclSuccess);
        sync_all(2);
        EXPECT(buffer[0][0] == 3 && buffer[1][49] == 3);
        for (int i = 0; i < 2; i++)
                EXPECT_IS(ncclCommFinalize(pair[i]), ncclSuccess + ncclInProgress);
        for (int i = 0; i < 2; i++) {
                EXPECT_IS(settle(pair[i]), ncclSuccess);
                EXPECT_IS(ncclCommDestroy(pair[i]), ncclSuccess);
        }

        /* The second rank never comes: abort ends the wait. */
        use(0);
        EXPECT_IS(ncclGetUniqueId(&id), ncclSuccess);
        EXPECT_IS(ncclCommInitRankConfig(&lonely, 2, id, 0, &config), ncclInProgress);
        EXPECT_IS(ncclAllReduce(buffer[0], buffer[0], 1, ncclFloat, ncclSum, lonely, streams[0]),
                  ncclInvalidArgument);
        EXPECT_IS(ncclCommGetAsyncError(lonely, &r), ncclSuccess);
        EXPECT(r == ncclInProgress);
        EXPECT_IS(ncclCommAbort(lonely), ncclSuccess);
}

static void aborts(void)
{
        ncclComm_t pair[2];
        ncclResult_t r;

        for (int revoke = 0; revoke < 2; revoke++) {
                EXPECT_IS(ncclCommInitAll(pair, 2, NULL), ncclSuccess);
                EXPECT_IS(ncclAllReduce(buffer[0], buffer[0], 1000, ncclFloat, ncclSum, pair[0],
                                        streams[0]),
                          ncclSuccess);
                usleep(20000);
                EXPECT_IS(cuStreamQuery(streams[0]),
                          CUDA_ERROR_NOT_READY); /* rank 1 did not come: rank 0 really waits */
                if (revoke) {
                        EXPECT_IS(ncclCommRevoke(pair[0], 0), ncclSuccess);
                        EXPECT_IS(ncclCommGetAsyncError(pair[0], &r), ncclSuccess);
                        EXPECT(r == ncclSuccess);
                        EXPECT_IS(ncclAllReduce(buffer[0], buffer[0], 1, ncclFloat, ncclSum,
                                                pair[0], streams[0]),
                                  ncclInvalidUsage);
                        EXPECT_IS(ncclCommDestroy(pair[0]), ncclSuccess);
                } else {
                        EXPECT_IS(ncclCommAbort(pair[0]), ncclSuccess);
                }
                EXPECT_IS(cuStreamSynchronize(streams[0]), CUDA_SUCCESS);
                EXPECT_IS(ncclCommAbort(pair[1]), ncclSuccess);
        }
        /* Ranks that disagree on the size get an error instead of mixed-up messages. */
        EXPECT_IS(ncclCommInitAll(pair, 2, NULL), ncclSuccess);
        ncclGroupStart();
        ncclBroadcast(buffer[0], buffer[0], 100, ncclFloat, 0, pair[0], streams[0]);
        ncclBroadcast(buffer[1], buffer[1], 90, ncclFloat, 0, pair[1], streams[1]);
        EXPECT_IS(ncclGroupEnd(), ncclSuccess);
        EXPECT_IS(cuStreamSynchronize(streams[1]), CUDA_SUCCESS);
        EXPECT_IS(ncclCommGetAsyncError(pair[1], &r), ncclSuccess);
        EXPECT(r == ncclInvalidUsage || r == ncclRemoteError);
        for (int i = 0; i < 2; i++)
                EXPECT_IS(ncclCommAbort(pair[i]), ncclSuccess);
        sync_all(2);
}

/*
 * The library's own limit (CAPO_STANDIN_TIMEOUT): who waited gets an error from its stream, and who
 * comes after that an error or the right sums. The limit of this run is so long that no busy
 * machine meets it but here.
 */
static void late(void)
{
        ncclComm_t pair[2];
        ncclResult_t r;
        CUresult second;

        EXPECT_IS(ncclCommInitAll(pair, 2, NULL), ncclSuccess);
        fill(2, 1000);
        EXPECT_IS(
                ncclAllReduce(buffer[0], buffer[0], 1000, ncclFloat, ncclSum, pair[0], streams[0]),
                ncclSuccess);
        EXPECT_IS(cuStreamSynchronize(streams[0]), CUDA_ERROR_LAUNCH_TIMEOUT);
        EXPECT_IS(cuStreamQuery(streams[0]), CUDA_ERROR_LAUNCH_TIMEOUT);
        EXPECT_IS(ncclCommGetAsyncError(pair[0], &r), ncclSuccess);
        EXPECT(r == ncclTimeout || r == ncclRemoteError);
        EXPECT_IS(
                ncclAllReduce(buffer[1], buffer[1], 1000, ncclFloat, ncclSum, pair[1], streams[1]),
                ncclSuccess);
        second = cuStreamSynchronize(streams[1]);
        EXPECT(second == CUDA_SUCCESS || second == CUDA_ERROR_LAUNCH_TIMEOUT);
        for (size_t k = 0; k < 1000 && second == CUDA_SUCCESS; k++)
                EXPECT(buffer[1][k] == 3);
        for (int i = 0; i < 2; i++)
                EXPECT_IS(ncclCommAbort(pair[i]), ncclSuccess);
}

/* Captured collectives run when the graph does, as often as it does. */
static void graphs(void)
{
        CUgraphExec exec[N];
        CUgraph graph;

        fill(N, 64);
        for (int i = 0; i < N; i++)
                EXPECT_IS(cuStreamBeginCapture(streams[i], CU_STREAM_CAPTURE_MODE_RELAXED),
                          CUDA_SUCCESS);
        EXPECT_IS(all_reduce(comms, N, 64), ncclSuccess);
        for (int i = 0; i < N; i++) {
                EXPECT_IS(cuStreamEndCapture(streams[i], &graph), CUDA_SUCCESS);
                EXPECT_IS(cuGraphInstantiate(&exec[i], graph, 0), CUDA_SUCCESS);
                cuGraphDestroy(graph);
        }
        EXPECT(buffer[0][0] == 1);
        for (int turn = 0; turn < 2; turn++)
                for (int i = 0; i < N; i++)
                        EXPECT_IS(cuGraphLaunch(exec[i], streams[i]), CUDA_SUCCESS);
        EXPECT_IS(all_reduce(comms, N, 64),
                  ncclSuccess); /* eager work in between counts its messages rightly */
        sync_all(N);
        EXPECT(buffer[0][0] == 54 && buffer[2][63] == 54); /* 6, 18, 54 */
        for (int i = 0; i < N; i++)
                cuGraphExecDestroy(exec[i]);
}

static void registrations(void)
{
        ncclWindow_t window;
        ncclRedOp_t op;
        float two = 2;
        void *handle, *p;

        use(0);
        EXPECT_IS(ncclMemAlloc(&p, 4096), ncclSuccess);
        EXPECT_IS(ncclCommRegister(comms[0], p, 4096, &handle), ncclSuccess);
        EXPECT_IS(ncclCommDeregister(comms[0], handle), ncclSuccess);
        for (int i = 0; i < N; i++) { /* every rank's call: windows are known by their order */
                EXPECT_IS(ncclCommWindowRegister(comms[i], p, 4096, &window, 0), ncclSuccess);
                EXPECT_IS(ncclCommWindowDeregister(comms[i], window), ncclSuccess);
        }
        EXPECT_IS(ncclMemFree(p), ncclSuccess);
        EXPECT_IS(ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, ncclScalarHostImmediate, comms[0]),
                  ncclSuccess);
        EXPECT(op >= ncclNumOps);
        EXPECT_IS(ncclAllReduce(buffer[0], buffer[0], 1, ncclHalf, op, comms[0], streams[0]),
                  ncclInvalidArgument);
        EXPECT_IS(ncclRedOpDestroy(op, comms[0]), ncclSuccess);
        EXPECT_IS(ncclRedOpDestroy(op, comms[0]), ncclInvalidArgument);
        EXPECT_IS(ncclCommSuspend(comms[0], 1), ncclSuccess);
        EXPECT_IS(ncclAllReduce(buffer[0], buffer[0], 1, ncclFloat, ncclSum, comms[0], streams[0]),
                  ncclInvalidUsage);
        EXPECT_IS(ncclCommResume(comms[0]), ncclSuccess);
        EXPECT_IS(ncclCommResume(comms[0]), ncclInvalidUsage);
}

/* Each rank puts to the next and waits for the one before; nobody has to receive first. */
static void one_sided(void)
{
        ncclWindow_t window[N];
        void *p;

        fill(N, 100000);
        for (int i = 0; i < N; i++)
                EXPECT_IS(ncclCommWindowRegister(comms[i], buffer[i], ROOM, &window[i], 0),
                          ncclSuccess);
        EXPECT_IS(ncclWinGetUserPtr(comms[1], window[1], &p), ncclSuccess);
        EXPECT(p == buffer[1]);
        for (int i = 0; i < N; i++) {
                ncclWaitSignalDesc_t waits[2] = {{1, (i + N - 1) % N, 0, 0},
                                                 {2, (i + N - 1) % N, 3, 0}};
                int next = (i + 1) % N;

                EXPECT_IS(ncclPutSignal(buffer[i], 50000, ncclFloat, next, window[i],
                                        100000 * sizeof(float), 0, 0, 0, comms[i], streams[i]),
                          ncclSuccess);
                EXPECT_IS(ncclSignal(next, 3, 0, 0, comms[i], streams[i]), ncclSuccess);
                EXPECT_IS(ncclSignal(next, 3, 0, 0, comms[i], streams[i]), ncclSuccess);
                EXPECT_IS(ncclWaitSignal(2, waits, comms[i], streams[i]), ncclSuccess);
        }
        sync_all(N);
        for (int i = 0; i < N; i++)
                EXPECT(buffer[i][100000] == (float)((i + N - 1) % N + 1) &&
                       buffer[i][149999] == buffer[i][100000]);
        EXPECT_IS(all_reduce(comms, N, 100), ncclSuccess);
        sync_all(N);
        for (int i = 0; i < N; i++)
                EXPECT_IS(ncclCommWindowDeregister(comms[i], window[i]), ncclSuccess);
}

int main(int argc, char **argv)
{
        ncclUniqueId ids[2];
        ncclComm_t alone;

        EXPECT_IS(cuInit(0), CUDA_SUCCESS);
        for (int i = 0; i < N; i++) {
                CUdeviceptr p;

                cuDevicePrimaryCtxRetain(&ctx[i], i);
                use(i);
                cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING);
                cuMemAlloc(&p, ROOM);
                buffer[i] = (float *)(uintptr_t)p;
        }
        use(0);
        if (argc > 1 && !strcmp(argv[1], "late")) {
                late();
                return DONE("check_api late");
        }
        EXPECT_IS(ncclCommInitAll(comms, N, NULL), ncclSuccess);
        errors();
        groups();
        children();
        registrations();
        one_sided();
        graphs();
        non_blocking();
        aborts();
        for (int i = 0; i < N; i++)
                EXPECT_IS(ncclCommDestroy(comms[i]), ncclSuccess);
        use(0);
        ncclGetUniqueId(&ids[0]);
        EXPECT_IS(ncclCommInitRankScalable(&alone, 1, 0, 1, ids, NULL), ncclSuccess);
        EXPECT_IS(ncclAllGather(buffer[0], buffer[0] + 10, 10, ncclFloat, alone, streams[0]),
                  ncclSuccess);
        sync_all(1);
        EXPECT(buffer[0][10] == buffer[0][0]);
        EXPECT_IS(ncclCommFinalize(alone), ncclSuccess);
        EXPECT_IS(ncclCommDestroy(alone), ncclSuccess);
        return DONE("check_api");
}
