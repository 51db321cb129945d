/* SPDX-License-Identifier: Apache-2.0 */
/*
 * app_moe WAY: few calls of NCCL EP or NCCL M2N in one of the ways in which programs make them.
 * moe_ways.py knows how many there are. Tokens that come back are checked. With BY_DLOPEN the
 * libraries are opened at run time, and each function is asked for by dlsym.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <nccl_ep.h>
#include <nccl_m2n.h>
#include "../jobs/perf_job.h"

enum { TOKENS = 6, WIDTH = 8, EXPERTS = 8, TOPK = 2, LAYERS = 5, SHARE = 4 };
#define HEAD(type) .size = sizeof(type), .magic = NCCL_EP_MAGIC

#ifdef BY_DLOPEN
#define EP(F)                 \
        F(ncclEpCreateGroup)  \
        F(ncclEpGroupDestroy) \
        F(ncclEpInitHandle)   \
        F(ncclEpUpdateHandle) \
        F(ncclEpDispatch) F(ncclEpCombine) F(ncclEpHandleDestroy) F(ncclEpGetAsyncError)
#define M2N(F) \
        F(ncclM2nInit) F(ncclM2nFinalize) F(ncclM2nGroupStart) F(ncclM2nGroupEnd) F(ncclReshard)
#define POINTER(name) static __typeof__(name) *p_##name;
EP(POINTER) M2N(POINTER) static void *library;
#define ASK(name) p_##name = (__typeof__(p_##name))dlsym(library, #name);
static void open_libraries(void)
{
        library = dlopen("libnccl_ep.so.0", RTLD_NOW | RTLD_LOCAL);
        EP(ASK)
        library = dlopen("libnccl_m2n.so", RTLD_NOW | RTLD_LOCAL);
        M2N(ASK)
        if (!p_ncclEpCombine || !p_ncclReshard)
                exit(2);
}
#define ncclEpCreateGroup   p_ncclEpCreateGroup
#define ncclEpGroupDestroy  p_ncclEpGroupDestroy
#define ncclEpInitHandle    p_ncclEpInitHandle
#define ncclEpUpdateHandle  p_ncclEpUpdateHandle
#define ncclEpDispatch      p_ncclEpDispatch
#define ncclEpCombine       p_ncclEpCombine
#define ncclEpHandleDestroy p_ncclEpHandleDestroy
#define ncclEpGetAsyncError p_ncclEpGetAsyncError
#define ncclM2nInit         p_ncclM2nInit
#define ncclM2nFinalize     p_ncclM2nFinalize
#define ncclM2nGroupStart   p_ncclM2nGroupStart
#define ncclM2nGroupEnd     p_ncclM2nGroupEnd
#define ncclReshard         p_ncclReshard
#else
static void open_libraries(void) {}
#endif

static struct job job;

/* A group with a handle, its tokens and where they go. The stand-in's device memory is the host's. */
struct lane {
        ncclComm_t comm;
        CUstream stream;
        ncclEpGroup_t group;
        ncclEpHandle_t handle;
        float in[TOKENS][WIDTH], rows[TOKENS * 8][WIDTH], back[TOKENS][WIDTH], weight[TOKENS][TOPK],
                got_weight[TOKENS * 8][TOPK];
        int64_t idx[TOKENS][TOPK], got_idx[TOKENS * 8][TOPK];
        int32_t per_rank[8];
};

static void open_lane(struct lane *l, ncclComm_t comm, bool mask)
{
        ncclEpGroupConfig_t config = {HEAD(ncclEpGroupConfig_t),
                                      .version = NCCL_EP_API_VERSION,
                                      .algorithm = NCCL_EP_ALGO_LOW_LATENCY,
                                      .num_experts = EXPERTS,
                                      .max_dispatch_tokens_per_rank = TOKENS,
                                      .max_token_bytes = WIDTH * 4,
                                      .enable_mask = mask,
                                      .timeout_ns = mask ? 5000000000u : 0};

        l->comm = comm;
        CU_CHECK(cuStreamCreate(&l->stream, CU_STREAM_NON_BLOCKING));
        NCCL_CHECK(ncclEpCreateGroup(&l->group, comm, &config));
        NCCL_CHECK(ncclEpInitHandle(&l->handle, l->group, NCCL_EP_LAYOUT_RANK_MAJOR, NULL, TOPK,
                                    NULL));
}

static void close_lane(struct lane *l)
{
        NCCL_CHECK(ncclEpHandleDestroy(l->handle));
        NCCL_CHECK(ncclEpGroupDestroy(l->group));
}

#define TENSOR(name, n, type_, what, ...)                     \
        size_t name##_sizes[] = {__VA_ARGS__};                \
        ncclEpTensor_t name = {.size = 48,                    \
                               .magic = NCCL_EP_TENSOR_MAGIC, \
                               .ndim = n,                     \
                               .datatype = type_,             \
                               .data = what,                  \
                               .sizes = name##_sizes}

/* Each token goes to two ranks, which send it back as it came. @tokens: that this rank gives. */
static void run_layer(struct lane *l, size_t tokens)
{
        size_t n = (size_t)job.n;
        TENSOR(in, 2, ncclFloat32, l->in, tokens, WIDTH);
        TENSOR(rows, 2, ncclFloat32, l->rows, TOKENS * n, WIDTH);
        TENSOR(back, 2, ncclFloat32, l->back, tokens, WIDTH);
        TENSOR(weight, 2, ncclFloat32, l->weight, tokens, TOPK);
        TENSOR(got_weight, 2, ncclFloat32, l->got_weight, TOKENS * n, TOPK);
        TENSOR(idx, 2, ncclInt64, l->idx, tokens, TOPK);
        TENSOR(got_idx, 2, ncclInt64, l->got_idx, TOKENS * n, TOPK);
        TENSOR(per_rank, 1, ncclInt32, l->per_rank, n);
        ncclEpDispatchInputs_t from = {HEAD(ncclEpDispatchInputs_t), .tokens = &in,
                                       .topk_weights = &weight};
        ncclEpDispatchOutputs_t to = {HEAD(ncclEpDispatchOutputs_t), .tokens = &rows,
                                      .topk_weights = &got_weight, .topk_idx = &got_idx};
        ncclEpCombineInputs_t results = {HEAD(ncclEpCombineInputs_t), .tokens = &rows};
        ncclEpCombineOutputs_t home = {HEAD(ncclEpCombineOutputs_t), .tokens = &back};
        ncclEpLayoutInfo_t info = {HEAD(ncclEpLayoutInfo_t), .src_rank_counters = &per_rank};

        for (int t = 0; t < TOKENS; t++) {
                for (int k = 0; k < TOPK; k++) {
                        l->idx[t][k] = (job.rank + t + k * EXPERTS / TOPK) % EXPERTS;
                        l->weight[t][k] = 0.5f;
                }
                for (int j = 0; j < WIDTH; j++)
                        l->in[t][j] = (float)(100 * job.rank + t + 1);
        }
        NCCL_CHECK(ncclEpUpdateHandle(l->handle, &idx, NULL, l->stream));
        NCCL_CHECK(ncclEpDispatch(l->handle, &from, &to, &info, NULL, l->stream));
        NCCL_CHECK(ncclEpCombine(l->handle, &results, &home, NULL, l->stream));
}

static void check_layer(struct lane *l, size_t tokens)
{
        CU_CHECK(cuStreamSynchronize(l->stream));
        for (size_t t = 0; t < tokens; t++) {
                if (l->back[t][0] == 2 * l->in[t][0])
                        continue;
                fprintf(stderr, "app_moe: rank %d token %zu: %g, not %g\n", job.rank, t,
                        (double)l->back[t][0], (double)(2 * l->in[t][0]));
                exit(1);
        }
}

static struct lane lanes[3];

/* Half of the ranks give more tokens in the second half of the job. */
static void run_layers(bool drift)
{
        open_lane(&lanes[0], job.comm, false);
        for (int i = 0; i < (drift ? 8 : 1) * LAYERS; i++) {
                size_t tokens =
                        drift && (job.rank < job.n / 2 || i < 4 * LAYERS) ? TOKENS / 2 : TOKENS;

                run_layer(&lanes[0], tokens);
                check_layer(&lanes[0], tokens);
        }
        close_lane(&lanes[0]);
}

static void *run_lane(void *arg)
{
        CU_CHECK(cuCtxSetCurrent(job.ctx));
        for (int i = 0; i < LAYERS; i++) {
                run_layer(arg, TOKENS);
                check_layer(arg, TOKENS);
        }
        return NULL;
}

static void run_threads(void)
{
        pthread_t ids[3];

        for (int i = 0; i < 3; i++) {
                ncclComm_t comm;

                NCCL_CHECK(ncclCommSplit(job.comm, 0, job.rank, &comm, NULL));
                open_lane(&lanes[i], comm, false);
        }
        for (int i = 0; i < 3; i++)
                if (pthread_create(&ids[i], NULL, run_lane, &lanes[i]))
                        exit(2);
        for (int i = 0; i < 3; i++)
                pthread_join(ids[i], NULL);
        for (int i = 0; i < 3; i++) {
                close_lane(&lanes[i]);
                NCCL_CHECK(ncclCommDestroy(lanes[i].comm));
        }
}

static void run_graph(void)
{
        CUgraphExec exec;
        CUgraph g;

        open_lane(&lanes[0], job.comm, false);
        CU_CHECK(cuStreamBeginCapture(lanes[0].stream, 2));
        run_layer(&lanes[0], TOKENS);
        CU_CHECK(cuStreamEndCapture(lanes[0].stream, &g));
        CU_CHECK(cuGraphInstantiateWithFlags(&exec, g, 0));
        for (int i = 0; i < LAYERS; i++) {
                memset(lanes[0].back, 0, sizeof lanes[0].back);
                CU_CHECK(cuGraphLaunch(exec, lanes[0].stream));
                check_layer(&lanes[0], TOKENS);
        }
        CU_CHECK(cuGraphExecDestroy(exec));
        CU_CHECK(cuGraphDestroy(g));
        close_lane(&lanes[0]);
}

static void wait_for_ranks(void)
{
        static float one;

        NCCL_CHECK(ncclAllReduce(&one, &one, 1, ncclFloat32, ncclSum, job.comm, job.stream));
        CU_CHECK(cuStreamSynchronize(job.stream));
}

/* The last rank leaves out the second layer, and the others go on. */
static void masked(void)
{
        int error = 0;

        open_lane(&lanes[0], job.comm, true);
        run_layer(&lanes[0], TOKENS);
        check_layer(&lanes[0], TOKENS);
        wait_for_ranks();
        if (job.rank != job.n - 1) {
                run_layer(&lanes[0], TOKENS);
                CU_CHECK(cuStreamSynchronize(lanes[0].stream));
                NCCL_CHECK(ncclEpGetAsyncError(lanes[0].group, &error));
                if (!error)
                        exit(3);
        }
        wait_for_ranks();
        close_lane(&lanes[0]);
}

/* The last rank does not come to the third layer: the kernels of the others end their processes. */
static void trap(void)
{
        open_lane(&lanes[0], job.comm, false);
        for (int i = 0; i < 3; i++) {
                if (i == 2 && job.rank == job.n - 1)
                        for (;;)
                                pause();
                run_layer(&lanes[0], TOKENS);
                check_layer(&lanes[0], TOKENS);
        }
}

/* Layers until the file `end` in the folder SHARED is there. */
static void live(void)
{
        static float over;
        char end[500];

        snprintf(end, sizeof end, "%s/end", getenv("SHARED"));
        open_lane(&lanes[0], job.comm, false);
        while (!over) {
                run_layer(&lanes[0], TOKENS);
                check_layer(&lanes[0], TOKENS);
                over = job.rank == 0 && !access(end, F_OK);
                NCCL_CHECK(
                        ncclAllReduce(&over, &over, 1, ncclFloat32, ncclSum, job.comm, job.stream));
                CU_CHECK(cuStreamSynchronize(job.stream));
                usleep(10000);
        }
        close_lane(&lanes[0]);
}

/* Nothing that is refused becomes a group or a reshard. */
static void failing(void)
{
        ncclEpGroupConfig_t config = {HEAD(ncclEpGroupConfig_t), .version = NCCL_EP_API_VERSION,
                                      .num_experts = EXPERTS + 1,
                                      .max_dispatch_tokens_per_rank = TOKENS,
                                      .max_token_bytes = WIDTH * 4};
        ncclM2nConfig_t m = {
                .size = sizeof m, .magic = NCCL_M2N_API_MAGIC, .version = NCCL_M2N_API_VERSION + 1};
        ncclEpGroup_t group = NULL;
        ncclM2nHandle_t handle = NULL;

        for (int i = 0; i < LAYERS; i++) {
                if (!ncclEpCreateGroup(&group, job.comm, &config) || !ncclM2nInit(&handle, &m))
                        exit(3);
        }
        run_layers(false);
}

/* The first half of the ranks has rows of a table, the second gets them. */
static void reshard(void)
{
        int half[] = {job.n / 2}, by_row[] = {0};
        size_t shape[] = {SHARE, WIDTH};
        float tile[3][SHARE * WIDTH] = {0};
        ncclMesh_t from = {sizeof from, NCCL_M2N_API_VERSION, 1, half, 0},
                   to = {sizeof to, NCCL_M2N_API_VERSION, 1, half, half[0]};
        bool gets = job.rank >= half[0];
        ncclM2nHandle_t handle;

        NCCL_CHECK(ncclM2nInit(&handle, NULL));
        for (int i = 0; i < 2 + 3; i++) { /* two alone, and three in a group */
                float *t = tile[i % 3];
                ncclDistTensor_t src = {sizeof src, NCCL_M2N_API_VERSION, gets ? NULL : t, shape,
                                        2,          ncclFloat32,          &from,           by_row},
                                 dst = {sizeof dst,
                                        NCCL_M2N_API_VERSION,
                                        gets ? t : NULL,
                                        shape,
                                        2,
                                        ncclFloat32,
                                        &to,
                                        by_row};

                for (int k = 0; k < SHARE * WIDTH; k++)
                        t[k] = gets ? 0 : (float)(job.rank * SHARE * WIDTH + k + 1);
                if (i == 2)
                        NCCL_CHECK(ncclM2nGroupStart());
                NCCL_CHECK(ncclReshard(handle, job.comm, &src, &dst, job.stream));
        }
        NCCL_CHECK(ncclM2nGroupEnd());
        CU_CHECK(cuStreamSynchronize(job.stream));
        for (int i = 0; gets && i < 3; i++)
                for (int k = 0; k < SHARE * WIDTH; k++)
                        if (tile[i][k] != (float)((job.rank - half[0]) * SHARE * WIDTH + k + 1))
                                exit(1);
        wait_for_ranks();
        NCCL_CHECK(ncclM2nFinalize(handle));
}

int main(int argc, char **argv)
{
        const char *way = argc > 1 ? argv[1] : "";

        open_libraries();
        job_open(&job, "world");
        if (!strcmp(way, "plain"))
                run_layers(false);
        else if (!strcmp(way, "drift"))
                run_layers(true);
        else if (!strcmp(way, "threads"))
                run_threads();
        else if (!strcmp(way, "graph"))
                run_graph();
        else if (!strcmp(way, "masked"))
                masked();
        else if (!strcmp(way, "trap"))
                trap();
        else if (!strcmp(way, "live"))
                live();
        else if (!strcmp(way, "failing"))
                failing();
        else if (!strcmp(way, "reshard"))
                reshard();
        else
                return 2;
        job_close(&job);
        return 0;
}
