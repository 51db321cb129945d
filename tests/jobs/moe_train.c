/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_train: the communication of a mixture-of-experts model. Per layer: a router chooses --topk of
 * --experts for each token, NCCL EP dispatches the tokens, expert e multiplies its tokens by e + 1,
 * NCCL EP combines them. Per step: one all-reduce, of gradients. Each combined token is checked.
 * --high-throughput chooses that algorithm. --staged splits each call into two (send_only, then
 * Complete).
 */
#include <getopt.h>
#include <string.h>

#include <nccl_ep.h>
#include "perf_job.h"

enum { GRADIENTS = 4096 };

static struct job job;
static int layers = 4, steps = 5, tokens = 24, hidden = 32, experts = 8, topk = 2;
static bool high_throughput, staged;

/* Device memory and its shape. */
struct array {
        ncclEpTensor_t tensor;
        size_t sizes[3], bytes;
        void *host;
};

static struct array in, out, sent, combined, idx, weights, got_weights, got_idx, counters;

static void make(struct array *a, ncclDataType_t type, size_t element, unsigned ndim, size_t x,
                 size_t y, size_t z)
{
        CUdeviceptr data;

        a->sizes[0] = x;
        a->sizes[1] = y;
        a->sizes[2] = z;
        a->bytes = x * (ndim > 1 ? y : 1) * (ndim > 2 ? z : 1) * element;
        CU_CHECK(cuMemAlloc(&data, a->bytes));
        a->host = calloc(1, a->bytes);
        a->tensor = (ncclEpTensor_t){.size = sizeof a->tensor,
                                     .magic = NCCL_EP_TENSOR_MAGIC,
                                     .ndim = ndim,
                                     .datatype = type,
                                     .data = (void *)data,
                                     .sizes = a->sizes};
}

static void upload(struct array *a)
{
        CU_CHECK(cuMemcpyHtoD((CUdeviceptr)a->tensor.data, a->host, a->bytes));
}

static void download(struct array *a)
{
        CU_CHECK(cuMemcpyDtoH(a->host, (CUdeviceptr)a->tensor.data, a->bytes));
}

/* bfloat16 of small whole numbers and halves, which it holds exactly */
static uint16_t to_bf16(float f)
{
        uint32_t bits;

        memcpy(&bits, &f, sizeof bits);
        return (uint16_t)(bits >> 16);
}

static float of_bf16(uint16_t h)
{
        uint32_t bits = (uint32_t)h << 16;
        float f;

        memcpy(&f, &bits, sizeof f);
        return f;
}

static float token_value(int t, int j) { return (float)((job.rank + t * 3 + j) % 4); }

static int64_t expert_of(int step, int layer, int t, int k)
{
        return (job.rank * 5 + t * 7 + layer * 3 + step + k * (experts / topk)) % experts;
}

static void route(int step, int layer)
{
        for (int t = 0; t < tokens; t++) {
                for (int k = 0; k < topk; k++) {
                        ((int64_t *)idx.host)[t * topk + k] = expert_of(step, layer, t, k);
                        ((float *)weights.host)[t * topk + k] = 1.0f / (float)topk;
                }
                for (int j = 0; j < hidden; j++)
                        ((uint16_t *)in.host)[t * hidden + j] = to_bf16(token_value(t, j));
        }
        upload(&idx);
        upload(&weights);
        upload(&in);
}

/* The experts of this rank, on what came; a row of FLAT gets what its experts make, weighed. */
static void compute(void)
{
        int local = experts / job.n, zone = tokens * job.n;
        uint16_t *row;

        CU_CHECK(cuStreamSynchronize(job.stream));
        download(&out);
        download(high_throughput ? &got_idx : &counters);
        download(&got_weights);
        for (int r = 0; r < (high_throughput ? zone : local * zone); r++) {
                float factor = high_throughput ? 0 : (float)(job.rank * local + r / zone + 1);

                for (int k = 0; high_throughput && k < topk; k++) {
                        int64_t e = ((int64_t *)got_idx.host)[r * topk + k];

                        if (e >= 0)
                                factor += ((float *)got_weights.host)[r * topk + k] *
                                          (float)(job.rank * local + e + 1);
                }
                row = (uint16_t *)out.host + (size_t)r * (size_t)hidden;
                for (int j = 0; j < hidden; j++)
                        ((uint16_t *)sent.host)[(size_t)r * (size_t)hidden + (size_t)j] =
                                to_bf16(of_bf16(row[j]) * factor);
        }
        upload(&sent);
}

static void check(int step, int layer)
{
        CU_CHECK(cuStreamSynchronize(job.stream));
        download(&combined);
        for (int t = 0; t < tokens; t++) {
                float factor = 0;

                for (int k = 0; k < topk; k++)
                        factor += (float)(expert_of(step, layer, t, k) + 1) / (float)topk;
                for (int j = 0; j < hidden; j++) {
                        float found = of_bf16(((uint16_t *)combined.host)[t * hidden + j]);

                        if (found == token_value(t, j) * factor)
                                continue;
                        fprintf(stderr,
                                "moe_train: rank %d step %d layer %d token %d: %g, not %g\n",
                                job.rank, step, layer, t, (double)found,
                                (double)(token_value(t, j) * factor));
                        exit(1);
                }
        }
}

static void complete(ncclEpHandle_t handle)
{
        if (staged)
                NCCL_CHECK(ncclEpComplete(handle, NULL, job.stream));
}

static void run_layer(ncclEpGroup_t group, ncclEpHandle_t handle, int step, int layer)
{
#define HEAD(type) .size = sizeof(type), .magic = NCCL_EP_MAGIC
        ncclEpLayoutInfo_t info = {HEAD(ncclEpLayoutInfo_t), .expert_counters = &counters.tensor};
        ncclEpDispatchInputs_t from = {HEAD(ncclEpDispatchInputs_t), .tokens = &in.tensor};
        ncclEpDispatchOutputs_t to = {HEAD(ncclEpDispatchOutputs_t), .tokens = &out.tensor};
        ncclEpDispatchConfig_t how = {HEAD(ncclEpDispatchConfig_t), .send_only = staged};
        ncclEpCombineInputs_t back = {HEAD(ncclEpCombineInputs_t), .tokens = &sent.tensor};
        ncclEpCombineOutputs_t home = {HEAD(ncclEpCombineOutputs_t), .tokens = &combined.tensor};
        ncclEpCombineConfig_t how_back = {HEAD(ncclEpCombineConfig_t), .send_only = staged};

        (void)group;
        if (high_throughput) {
                from.topk_weights = &weights.tensor;
                to.topk_weights = &got_weights.tensor;
                to.topk_idx = &got_idx.tensor;
        } else {
                home.topk_weights = &weights.tensor;
        }
        route(step, layer);
        NCCL_CHECK(ncclEpUpdateHandle(handle, &idx.tensor, NULL, job.stream));
        job_begin(&job, "ep", "EpDispatch", in.bytes * (size_t)topk, job.stream);
        NCCL_CHECK(ncclEpDispatch(handle, &from, &to, high_throughput ? NULL : &info, &how,
                                  job.stream));
        complete(handle);
        job_end(&job);
        compute();
        job_begin(&job, "ep", "EpCombine", combined.bytes * (size_t)topk, job.stream);
        NCCL_CHECK(ncclEpCombine(handle, &back, &home, &how_back, job.stream));
        complete(handle);
        job_end(&job);
        check(step, layer);
}

int main(int argc, char **argv)
{
        static const struct option options[] = {{"layers", 1, NULL, 'l'},
                                                {"steps", 1, NULL, 's'},
                                                {"tokens", 1, NULL, 't'},
                                                {"hidden", 1, NULL, 'h'},
                                                {"experts", 1, NULL, 'e'},
                                                {"topk", 1, NULL, 'k'},
                                                {"high-throughput", 0, NULL, 'H'},
                                                {"staged", 0, NULL, 'S'},
                                                {NULL, 0, NULL, 0}};
        ncclEpGroupConfig_t config = {HEAD(ncclEpGroupConfig_t), .version = NCCL_EP_API_VERSION};
        ncclEpHandle_t handle;
        ncclEpGroup_t group;
        CUdeviceptr gradients;
        size_t rows;

        for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
                int *number = c == 'l'   ? &layers
                              : c == 's' ? &steps
                              : c == 't' ? &tokens
                              : c == 'h' ? &hidden
                              : c == 'e' ? &experts
                              : c == 'k' ? &topk
                                         : NULL;

                if (c == '?')
                        return 2;
                if (number)
                        *number = atoi(optarg);
                high_throughput |= c == 'H';
                staged |= c == 'S';
        }
        job_open(&job, "world");
        rows = (size_t)(tokens * job.n);
        make(&in, ncclBfloat16, 2, 2, (size_t)tokens, (size_t)hidden, 0);
        make(&combined, ncclBfloat16, 2, 2, (size_t)tokens, (size_t)hidden, 0);
        make(&idx, ncclInt64, 8, 2, (size_t)tokens, (size_t)topk, 0);
        make(&weights, ncclFloat32, 4, 2, (size_t)tokens, (size_t)topk, 0);
        make(&got_weights, ncclFloat32, 4, 2, rows, (size_t)topk, 0);
        make(&got_idx, ncclInt64, 8, 2, rows, (size_t)topk, 0);
        make(&counters, ncclInt32, 4, 1, (size_t)(experts / job.n), 0, 0);
        for (int i = 0; i < 2; i++) {
                struct array *a = i ? &sent : &out;

                if (high_throughput)
                        make(a, ncclBfloat16, 2, 2, rows, (size_t)hidden, 0);
                else
                        make(a, ncclBfloat16, 2, 3, (size_t)(experts / job.n), rows,
                             (size_t)hidden);
        }
        CU_CHECK(cuMemAlloc(&gradients, GRADIENTS * 4));
        CU_CHECK(cuMemsetD32(gradients, 0, GRADIENTS));
        config.algorithm =
                high_throughput ? NCCL_EP_ALGO_HIGH_THROUGHPUT : NCCL_EP_ALGO_LOW_LATENCY;
        config.num_experts = (unsigned)experts;
        config.max_dispatch_tokens_per_rank = (unsigned)tokens;
        config.max_recv_tokens_per_rank = high_throughput ? (unsigned)rows : 0;
        config.max_token_bytes = (unsigned)hidden * 2;
        NCCL_CHECK(ncclEpCreateGroup(&group, job.comm, &config));
        NCCL_CHECK(ncclEpInitHandle(
                &handle, group, high_throughput ? NCCL_EP_LAYOUT_FLAT : NCCL_EP_LAYOUT_EXPERT_MAJOR,
                NULL, topk, NULL));
        for (int s = 0; s < steps; s++) {
                for (int l = 0; l < layers; l++)
                        run_layer(group, handle, s, l);
                job_begin(&job, "world", "AllReduce", GRADIENTS * 4, job.stream);
                NCCL_CHECK(ncclAllReduce((void *)gradients, (void *)gradients, GRADIENTS,
                                         ncclFloat32, ncclSum, job.comm, job.stream));
                job_end(&job);
        }
        CU_CHECK(cuStreamSynchronize(job.stream));
        NCCL_CHECK(ncclEpHandleDestroy(handle));
        NCCL_CHECK(ncclEpGroupDestroy(group));
        if (job.rank == 0) {
                printf("right: %d combined tokens per rank\n", steps * layers * tokens);
                job_report(&job, stdout);
        }
        job_close(&job);
        return 0;
}
