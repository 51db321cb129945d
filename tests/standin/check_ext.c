/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-ins of NCCL EP and NCCL M2N: structs by size and magic, the order of calls, each layout,
 * graphs, masks, reshards; what comes is compared with what was sent. Run by launch, 4 ranks.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nccl_ep.h>
#include <nccl_m2n.h>
#include "../jobs/perf_job.h"
#include "standin_check.h"

int n_checks, n_failures;

enum {
        RANKS = 4,
        TOKENS = 6,
        WIDTH = 8,
        EXPERTS = 8,
        LOCAL = EXPERTS / RANKS,
        TOPK = 2,
        ROWS = TOKENS * RANKS * LOCAL
};
#define HEAD(type) .size = sizeof(type), .magic = NCCL_EP_MAGIC

static struct job job;

/* The stand-in's memory is the host's: tests may look. */
static size_t token_sizes[] = {TOKENS, WIDTH}, row_sizes[] = {ROWS, WIDTH},
              topk_sizes[] = {TOKENS, TOPK}, slot_sizes[] = {ROWS, TOPK}, local_sizes[] = {LOCAL},
              one_size[] = {1}, rank_sizes[] = {RANKS};
static float in[TOKENS][WIDTH], rows[ROWS][WIDTH], back[TOKENS][WIDTH], weight[TOKENS][TOPK],
        got_weight[ROWS][TOPK];
static int64_t idx[TOKENS][TOPK], got_idx[ROWS][TOPK];
static int32_t per_expert[LOCAL], offsets[LOCAL], total, per_rank[RANKS];
#define TENSOR(n, t, p, s)                                                                      \
        {                                                                                       \
                .size = 48, .magic = NCCL_EP_TENSOR_MAGIC, .ndim = n, .datatype = t, .data = p, \
                .sizes = s                                                                      \
        }
static ncclEpTensor_t in_t = TENSOR(2, ncclFloat32, in, token_sizes),
                      rows_t = TENSOR(2, ncclFloat32, rows, row_sizes),
                      back_t = TENSOR(2, ncclFloat32, back, token_sizes),
                      weight_t = TENSOR(2, ncclFloat32, weight, topk_sizes),
                      got_weight_t = TENSOR(2, ncclFloat32, got_weight, slot_sizes),
                      idx_t = TENSOR(2, ncclInt64, idx, topk_sizes),
                      got_idx_t = TENSOR(2, ncclInt64, got_idx, slot_sizes),
                      per_expert_t = TENSOR(1, ncclInt32, per_expert, local_sizes),
                      offsets_t = TENSOR(1, ncclInt32, offsets, local_sizes),
                      total_t = TENSOR(1, ncclInt32, &total, one_size),
                      per_rank_t = TENSOR(1, ncclInt32, per_rank, rank_sizes);

static ncclEpDispatchInputs_t from = {HEAD(ncclEpDispatchInputs_t), .tokens = &in_t,
                                      .topk_weights = &weight_t};
static ncclEpDispatchOutputs_t to = {HEAD(ncclEpDispatchOutputs_t), .tokens = &rows_t,
                                     .topk_weights = &got_weight_t, .topk_idx = &got_idx_t};
static ncclEpCombineInputs_t results = {HEAD(ncclEpCombineInputs_t), .tokens = &rows_t};
static ncclEpCombineOutputs_t home = {HEAD(ncclEpCombineOutputs_t), .tokens = &back_t};
static ncclEpLayoutInfo_t info = {HEAD(ncclEpLayoutInfo_t), .expert_counters = &per_expert_t,
                                  .src_rank_counters = &per_rank_t};

static ncclEpGroupConfig_t config_of(ncclEpAlgorithm_t algorithm)
{
        return (ncclEpGroupConfig_t){HEAD(ncclEpGroupConfig_t),
                                     .version = NCCL_EP_API_VERSION,
                                     .algorithm = algorithm,
                                     .num_experts = EXPERTS,
                                     .max_dispatch_tokens_per_rank = TOKENS,
                                     .max_recv_tokens_per_rank = ROWS,
                                     .max_token_bytes = WIDTH * 4};
}

static void wait_stream(void) { EXPECT_IS(cuStreamSynchronize(job.stream), CUDA_SUCCESS); }

static void barrier(void)
{
        static float one;

        NCCL_CHECK(ncclAllReduce(&one, &one, 1, ncclFloat32, ncclSum, job.comm, job.stream));
        wait_stream();
}

/* Token t of rank r is 100 r + t + 1 everywhere; its experts are (r + t) and half of all further. */
static void fill(void)
{
        for (int t = 0; t < TOKENS; t++) {
                for (int j = 0; j < WIDTH; j++)
                        in[t][j] = (float)(100 * job.rank + t + 1);
                for (int k = 0; k < TOPK; k++) {
                        idx[t][k] = (job.rank + t + k * EXPERTS / TOPK) % EXPERTS;
                        weight[t][k] = k ? 0.25f : 0.75f;
                }
        }
        memset(back, 0, sizeof back);
        memset(rows, 0, sizeof rows);
}

/* How often the tokens of all ranks go to @expert. */
static int expected(int expert)
{
        int n = 0;

        for (int r = 0; r < RANKS; r++)
                for (int t = 0; t < TOKENS; t++)
                        for (int k = 0; k < TOPK; k++)
                                n += (r + t + k * EXPERTS / TOPK) % EXPERTS == expert;
        return n;
}

static void expect_back(float factor)
{
        wait_stream();
        for (int t = 0; t < TOKENS; t++)
                for (int j = 0; j < WIDTH; j++)
                        EXPECT(back[t][j] == factor * (float)(100 * job.rank + t + 1));
}

/* ---- what ends a process, in one of its own ---- */

static int end_of(void (*run)(void))
{
        pid_t child = fork();
        int status = 0;

        if (child == 0) {
                signal(SIGABRT, SIG_DFL); /* a provider of libfabric may have handlers of its own */
                signal(SIGSEGV, SIG_DFL);
                if (!freopen("/dev/null", "w", stderr))
                        _exit(3);
                run();
                _exit(0);
        }
        waitpid(child, &status, 0);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void make_of_nothing(void)
{
        ncclEpGroupConfig_t config = config_of(NCCL_EP_ALGO_LOW_LATENCY);
        ncclEpGroup_t group;

        ncclEpCreateGroup(&group, NULL, &config);
}
static void update_nothing(void) { ncclEpUpdateHandle(NULL, NULL, NULL, NULL); }
static void complete_nothing(void) { ncclEpComplete(NULL, NULL, NULL); }
static void clear_nothing(void) { ncclEpErrorClear(NULL); /* an exception that nobody catches */ }

static void ends(void)
{
        EXPECT_IS(end_of(make_of_nothing), SIGABRT);
        EXPECT_IS(end_of(update_nothing), SIGABRT);
        EXPECT_IS(end_of(clear_nothing), SIGABRT);
        EXPECT_IS(end_of(complete_nothing), SIGSEGV);
}

/* ---- structs ---- */

static void structs(void)
{
        ncclEpGroupConfig_t c = config_of(NCCL_EP_ALGO_LOW_LATENCY);
        ncclEpGroup_t group = NULL;
        ncclEpTensor_t *t = NULL;
        ncclM2nConfig_t m = {
                .size = sizeof m, .magic = NCCL_M2N_API_MAGIC, .version = NCCL_M2N_API_VERSION};
        ncclM2nHandle_t h;
        struct {
                ncclEpGroupConfig_t config;
                uint64_t tail[4];
        } later = {c, {~0ull}};
        int version = 0;

        EXPECT_IS(ncclEpGetVersion(&version), ncclSuccess);
        EXPECT_IS(version, 200);
        c.size = 95;
        EXPECT_IS(ncclEpCreateGroup(&group, job.comm, &c), ncclInvalidArgument);
        c.size = 96;
        c.magic++;
        EXPECT_IS(ncclEpCreateGroup(&group, job.comm, &c), ncclInvalidArgument);
        EXPECT(!group);
        c.magic--;
        EXPECT_IS(ncclEpCreateGroup(&group, job.comm, &c), ncclSuccess); /* version 1 */
        EXPECT_IS(ncclEpGetAsyncError(group, &version), ncclInvalidUsage);
        EXPECT_IS(ncclEpGroupDestroy(group), ncclSuccess);
        later.config.size = sizeof later; /* of the future */
        EXPECT_IS(ncclEpCreateGroup(&group, job.comm, &later.config), ncclSuccess);
        EXPECT_IS(ncclEpGroupDestroy(group), ncclSuccess);
        EXPECT_IS(ncclEpTensorAlloc(&t, 2, ncclFloat32, token_sizes, NULL), ncclSuccess);
        EXPECT(t->magic == 0xBEEFBEEFu && t->sizes[1] == WIDTH);
        EXPECT_IS(ncclEpTensorDestroy(t), ncclSuccess);
        EXPECT_IS(ncclEpTensorDestroy(NULL), ncclSuccess);
        m.size++;
        EXPECT_IS(ncclM2nInit(&h, &m), ncclInvalidArgument);
        EXPECT(*ncclM2nGetLastError());
        m.size--;
        m.version++;
        EXPECT_IS(ncclM2nInit(&h, &m), ncclInvalidArgument);
        EXPECT(!h);
}

/* ---- layouts ---- */

static ncclEpHandle_t handle_of(ncclEpGroup_t group, ncclEpLayout_t layout)
{
        ncclEpHandle_t handle = NULL;

        EXPECT_IS(ncclEpInitHandle(&handle, group, layout, NULL, TOPK, NULL), ncclSuccess);
        return handle;
}

static void low_latency(ncclEpGroup_t group)
{
        ncclEpHandle_t h = handle_of(group, NCCL_EP_LAYOUT_EXPERT_MAJOR);
        ncclEpDispatchConfig_t stage = {HEAD(ncclEpDispatchConfig_t), .send_only = 1};
        int zone = TOKENS * RANKS;

        fill();
        EXPECT_IS(ncclEpDispatch(h, &from, &to, &info, NULL, job.stream),
                  ncclInvalidUsage); /* no routing yet */
        EXPECT_IS(ncclEpComplete(h, NULL, job.stream), ncclSuccess);
        EXPECT_IS(ncclEpUpdateHandle(h, &idx_t, &info, job.stream), ncclInvalidArgument);
        EXPECT_IS(ncclEpUpdateHandle(h, &idx_t, NULL, job.stream), ncclSuccess);
        EXPECT_IS(ncclEpDispatch(h, &from, &to, NULL, NULL, job.stream),
                  ncclInvalidArgument); /* no counters */
        to.size = 39;
        EXPECT_IS(ncclEpDispatch(h, &from, &to, &info, NULL, job.stream), ncclInvalidArgument);
        to.size = 40;
        EXPECT_IS(ncclEpDispatch(h, &from, &to, &info, &stage, job.stream), ncclSuccess);
        wait_stream();
        for (int i = 0; i < ROWS; i++)
                EXPECT(!rows[i][0]); /* sent, and not there before Complete */
        EXPECT_IS(ncclEpDispatch(h, &from, &to, &info, NULL, job.stream), ncclInvalidUsage);
        EXPECT_IS(ncclEpComplete(h, NULL, job.stream), ncclSuccess);
        wait_stream();
        for (int e = 0; e < LOCAL; e++) {
                EXPECT_IS(per_expert[e], expected(job.rank * LOCAL + e));
                for (int i = 0; i < zone; i++) {
                        int r = (int)rows[e * zone + i][0] / 100,
                            t = (int)rows[e * zone + i][0] % 100 - 1;

                        EXPECT((rows[e * zone + i][0] > 0) == (i < per_expert[e]));
                        EXPECT(i >= per_expert[e] ||
                               (r + t) % (EXPERTS / TOPK) ==
                                       (job.rank * LOCAL + e) % (EXPERTS / TOPK));
                        for (int j = 0; j < WIDTH; j++)
                                rows[e * zone + i][j] *= (float)e + 1;
                }
        }
        home.topk_weights = &weight_t; /* it is the receiver that weighs */
        EXPECT_IS(ncclEpCombine(h, &results, &home, NULL, job.stream), ncclSuccess);
        home.topk_weights = NULL;
        wait_stream();
        for (int t = 0; t < TOKENS; t++) {
                float factor = 0;

                for (int k = 0; k < TOPK; k++)
                        factor += weight[t][k] * (float)(idx[t][k] % LOCAL + 1);
                EXPECT(back[t][WIDTH - 1] == factor * in[t][0]);
        }
        EXPECT_IS(ncclEpHandleDestroy(h), ncclSuccess);
}

static void by_rank(ncclEpGroup_t group)
{
        ncclEpHandle_t h = handle_of(group, NCCL_EP_LAYOUT_RANK_MAJOR);

        fill();
        EXPECT_IS(ncclEpUpdateHandle(h, &idx_t, NULL, job.stream), ncclSuccess);
        EXPECT_IS(ncclEpDispatch(h, &from, &to, &info, NULL, job.stream), ncclSuccess);
        wait_stream();
        for (int r = 0; r < RANKS; r++) {
                for (int i = 0; i < per_rank[r]; i++)
                        EXPECT((int)rows[r * TOKENS + i][0] / 100 == r);
        }
        EXPECT_IS(ncclEpCombine(h, &results, &home, NULL, job.stream), ncclSuccess);
        expect_back(2); /* from two ranks, as it was */
        EXPECT_IS(ncclEpHandleDestroy(h), ncclSuccess);
}

static void graph(ncclEpGroup_t group)
{
        ncclEpHandle_t h = handle_of(group, NCCL_EP_LAYOUT_RANK_MAJOR);
        CUgraphExec exec;
        CUgraph g;

        fill();
        EXPECT_IS(cuStreamBeginCapture(job.stream, 2), CUDA_SUCCESS);
        EXPECT_IS(ncclEpUpdateHandle(h, &idx_t, NULL, job.stream), ncclSuccess);
        EXPECT_IS(ncclEpDispatch(h, &from, &to, &info, NULL, job.stream), ncclSuccess);
        EXPECT_IS(ncclEpCombine(h, &results, &home, NULL, job.stream), ncclSuccess);
        EXPECT_IS(cuStreamEndCapture(job.stream, &g), CUDA_SUCCESS);
        EXPECT_IS(cuGraphInstantiateWithFlags(&exec, g, 0), CUDA_SUCCESS);
        for (int i = 0; i < 3; i++) {
                memset(back, 0, sizeof back);
                EXPECT_IS(cuGraphLaunch(exec, job.stream), CUDA_SUCCESS);
                expect_back(2);
        }
        EXPECT_IS(cuGraphExecDestroy(exec), CUDA_SUCCESS);
        EXPECT_IS(cuGraphDestroy(g), CUDA_SUCCESS);
        EXPECT_IS(ncclEpHandleDestroy(h), ncclSuccess);
}

static void high_throughput(ncclEpGroup_t group)
{
        ncclEpLayoutInfo_t counts = {HEAD(ncclEpLayoutInfo_t), .expert_counters = &per_expert_t,
                                     .expert_offsets = &offsets_t, .recv_total_counter = &total_t};
        ncclEpHandleConfig_t align = {HEAD(ncclEpHandleConfig_t),
                                      .dispatch_output_per_expert_alignment = 8};
        ncclEpDispatchConfig_t stage = {HEAD(ncclEpDispatchConfig_t), .send_only = 1};
        ncclEpHandle_t h = handle_of(group, NCCL_EP_LAYOUT_FLAT);
        int64_t sum = 0;

        fill();
        EXPECT_IS(ncclEpUpdateHandle(h, &idx_t, &counts, job.stream), ncclSuccess);
        EXPECT_IS(ncclEpDispatch(h, &from, &to, &info, NULL, job.stream), ncclInvalidArgument);
        EXPECT_IS(ncclEpDispatch(h, &from, &to, NULL, &stage, job.stream), ncclInvalidUsage);
        EXPECT_IS(ncclEpDispatch(h, &from, &to, NULL, NULL, job.stream), ncclSuccess);
        wait_stream();
        for (int i = 0; i < ROWS; i++) {
                bool here = false;

                for (int k = 0; k < TOPK && i < total; k++)
                        here |= got_idx[i][k] >= 0 && got_idx[i][k] < LOCAL;
                EXPECT(here == (i < total) && here == (rows[i][0] > 0));
        }
        for (int e = 0; e < LOCAL; e++) {
                EXPECT_IS(per_expert[e], expected(job.rank * LOCAL + e));
                sum += per_expert[e];
        }
        EXPECT(total <= sum && total > 0);
        EXPECT_IS(ncclEpCombine(h, &results, &home, NULL, job.stream), ncclSuccess);
        expect_back(2);
        EXPECT_IS(ncclEpHandleDestroy(h), ncclSuccess);

        fill();
        EXPECT_IS(ncclEpCreateHandle(&h, group, NCCL_EP_LAYOUT_EXPERT_MAJOR, &idx_t, &counts,
                                     &align, job.stream),
                  ncclSuccess);
        EXPECT_IS(ncclEpDispatch(h, &from, &to, NULL, NULL, job.stream), ncclSuccess);
        wait_stream();
        EXPECT(per_expert[0] % 8 == 0 && offsets[1] == per_expert[0] &&
               total == per_expert[0] + per_expert[1]);
        EXPECT((int)rows[offsets[1]][0] > 0);
        EXPECT_IS(ncclEpCombine(h, &results, &home, NULL, job.stream), ncclSuccess);
        expect_back(2);
        EXPECT_IS(ncclEpHandleDestroy(h), ncclSuccess);
}

/* The last rank does not come to a dispatch: the others go on without it, until all meet again. */
static void masks(void)
{
        ncclEpGroupConfig_t c = config_of(NCCL_EP_ALGO_LOW_LATENCY);
        int active[RANKS] = {0}, error = 0;
        ncclEpHandle_t h;
        ncclEpGroup_t group;

        c.enable_mask = 1;
        c.timeout_ns = 4000000000u;
        EXPECT_IS(ncclEpCreateGroup(&group, job.comm, &c), ncclSuccess);
        h = handle_of(group, NCCL_EP_LAYOUT_RANK_MAJOR);
        fill();
        EXPECT_IS(ncclEpUpdateHandle(h, &idx_t, NULL, job.stream), ncclSuccess);
        barrier();
        if (job.rank != RANKS - 1) {
                EXPECT_IS(ncclEpDispatch(h, &from, &to, &info, NULL, job.stream), ncclSuccess);
                wait_stream();
                EXPECT_IS(ncclEpGetAsyncError(group, &error), ncclSuccess);
                EXPECT_IS(error, 1);
                EXPECT_IS(ncclEpMaskQuery(group, active, job.stream), ncclSuccess);
                wait_stream();
                EXPECT_IS(active[RANKS - 1], 0);
                EXPECT_IS(active[job.rank], 1);
        }
        barrier();
        for (int r = 0; r < RANKS; r++)
                active[r] = 1;
        EXPECT_IS(ncclEpMaskUpdate(group, active, job.stream), ncclSuccess);
        EXPECT_IS(ncclEpMaskClean(group, job.stream), ncclSuccess);
        if (job.rank != RANKS - 1) {
                EXPECT_IS(ncclEpGetAsyncError(group, &error), ncclSuccess);
                EXPECT_IS(error, 1); /* Clean leaves it */
        }
        EXPECT_IS(ncclEpErrorClear(group), ncclSuccess);
        EXPECT_IS(ncclEpDispatch(h, &from, &to, &info, NULL, job.stream), ncclSuccess);
        EXPECT_IS(ncclEpCombine(h, &results, &home, NULL, job.stream), ncclSuccess);
        expect_back(2);
        EXPECT_IS(ncclEpGetAsyncError(group, &error), ncclSuccess);
        EXPECT_IS(error, 0);
        EXPECT_IS(ncclEpHandleDestroy(h), ncclSuccess);
        EXPECT_IS(ncclEpGroupDestroy(group), ncclSuccess);
}

/* ---- M2N: ranks 0 and 1 have rows, 2 and 3 get columns ---- */

static void reshard(void)
{
        enum { N = 4 };
        int two[] = {2}, by_row[] = {0}, by_column[] = {1}, copies[] = {NCCL_RESHARD_REPLICATE};
        size_t half_rows[] = {N / 2, N}, half_columns[] = {N, N / 2}, whole[] = {N, N};
        float tile[N * N] = {0};
        ncclMesh_t mesh[2] = {{sizeof *mesh, NCCL_M2N_API_VERSION, 1, two, 0},
                              {sizeof *mesh, NCCL_M2N_API_VERSION, 1, two, 2}};
        ncclDistTensor_t src = {sizeof src, NCCL_M2N_API_VERSION, tile,     half_rows,
                                2,          ncclFloat32,          &mesh[0], by_row};
        ncclDistTensor_t dst = {sizeof dst, NCCL_M2N_API_VERSION, tile,     half_columns,
                                2,          ncclFloat32,          &mesh[1], by_column};
        ncclM2nHandle_t handle = NULL;
        bool gets = job.rank >= 2;

        *(job.rank < 2 ? &dst.dataPtr : &src.dataPtr) = NULL;
        EXPECT_IS(ncclM2nInit(&handle, NULL), ncclSuccess);
        for (int i = 0; i < N * N / 2 && !gets; i++)
                tile[i] = (float)(job.rank * N * N / 2 + i + 1);
        EXPECT_IS(ncclM2nGroupEnd(), ncclInvalidUsage);
        mesh[0].version = 3;
        EXPECT_IS(ncclReshard(handle, job.comm, &src, &dst, job.stream), ncclInvalidArgument);
        EXPECT(strstr(ncclM2nGetLastError(), "mesh"));
        mesh[0].version = 2;
        mesh[1].startRank = 1;
        EXPECT_IS(ncclReshard(handle, job.comm, &src, &dst, job.stream),
                  ncclInvalidArgument); /* they overlap */
        mesh[1].startRank = 2;
        EXPECT_IS(ncclM2nGroupStart(), ncclSuccess);
        EXPECT_IS(ncclM2nGroupStart(), ncclSuccess);
        EXPECT_IS(ncclReshard(handle, job.comm, &src, &dst, job.stream), ncclSuccess);
        EXPECT_IS(ncclM2nGroupEnd(), ncclSuccess);
        wait_stream();
        EXPECT(!gets || !tile[0]); /* the outermost end issues it */
        EXPECT_IS(ncclM2nFinalize(handle), ncclInvalidArgument);
        EXPECT_IS(ncclM2nGroupAbort(), ncclSuccess);
        EXPECT_IS(ncclM2nGroupEnd(), ncclInvalidUsage);
        EXPECT_IS(ncclReshardWithWindow(handle, job.comm, NULL, &src, &dst, job.stream),
                  ncclSuccess);
        wait_stream();
        for (int i = 0; i < N * N / 2 && gets; i++)
                EXPECT(tile[i] == (float)(i / 2 * N + (job.rank - 2) * 2 + i % 2 + 1));
        dst.localShape = whole;
        dst.placements = copies;
        EXPECT_IS(ncclM2nGroupStart(), ncclSuccess);
        EXPECT_IS(ncclReshard(handle, job.comm, &src, &dst, job.stream), ncclSuccess);
        EXPECT_IS(ncclM2nGroupEnd(), ncclSuccess);
        wait_stream();
        for (int i = 0; i < N * N && gets; i++)
                EXPECT(tile[i] == (float)(i + 1));
        barrier();
        EXPECT_IS(ncclM2nFinalize(handle), ncclSuccess);
        EXPECT_IS(ncclM2nFinalize(handle), ncclInvalidArgument);
        EXPECT_IS(ncclM2nFinalize(NULL), ncclSuccess);
}

int main(void)
{
        ncclEpGroupConfig_t low = config_of(NCCL_EP_ALGO_LOW_LATENCY),
                            high = config_of(NCCL_EP_ALGO_HIGH_THROUGHPUT);
        ncclEpGroup_t group = NULL;

        ends();
        job_open(&job, "world");
        if (job.n != RANKS)
                return 2;
        structs();
        EXPECT_IS(ncclEpCreateGroup(&group, job.comm, &low), ncclSuccess);
        low_latency(group);
        by_rank(group);
        graph(group);
        EXPECT_IS(ncclEpGroupDestroy(group), ncclSuccess);
        EXPECT_IS(ncclEpCreateGroup(&group, job.comm, &high), ncclSuccess);
        high_throughput(group);
        EXPECT_IS(ncclEpGroupDestroy(group), ncclSuccess);
        masks();
        reshard();
        job_close(&job);
        return DONE("ext");
}
