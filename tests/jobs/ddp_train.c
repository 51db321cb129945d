/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddp_train: data-parallel training as the frameworks do it, small enough to read.
 *
 * Without options it trains a 64-32-10 network on handwritten digits (tests/jobs/data): every rank
 * takes its share of each batch, gradients are summed by ncclAllReduce in two buckets, the last
 * layer's first since the backward pass has it first, on a stream of their own ordered by events.
 * Every number printed is the same in every run with as many ranks.
 *
 * With --replay it issues the gradient buckets of a big model, computed from the model's published
 * layer shapes, without training it: BERT-large in PyTorch DDP's buckets, ResNet-50 in Horovod's 64
 * MB fusion buffer.
 *
 * The arithmetic is done by host code on copies, so the same program runs on a real GPU.
 */
#include <getopt.h>
#include <math.h>
#include <string.h>

#include "perf_job.h"

enum { IN = 64, HIDDEN = 32, OUT = 10, MAX_ROWS = 2000 };
enum {
        W1 = 0,
        B1 = W1 + IN * HIDDEN,
        W2 = B1 + HIDDEN,
        B2 = W2 + HIDDEN * OUT,
        N_PARAMS = B2 + OUT
};

static struct job job;
static bool quiet;

/* --- training --- */

static float x[MAX_ROWS][IN];
static int label[MAX_ROWS], n_rows;

static void load(const char *path)
{
        FILE *f = fopen(path, "r");
        char line[1024];
        int lines = 0;

        if (!f) {
                fprintf(stderr, "ddp_train: cannot open %s; --data says where the digits are\n",
                        path);
                exit(1);
        }
        while (fgets(line, sizeof line, f)) {
                char *p = line;

                lines++;
                if (*line == '#')
                        continue;
                for (int i = 0; i <= IN; i++) {
                        char *end;
                        long v = strtol(p, &end, 10);

                        if (end == p || v < 0 || v > 16 || (i < IN ? *end != ',' : *end > ' ') ||
                            n_rows == MAX_ROWS) {
                                fprintf(stderr,
                                        "ddp_train: %s:%d:%d: expected 64 pixels of 0..16 and a digit\n",
                                        path, lines, (int)(p - line) + 1);
                                exit(1);
                        }
                        if (i < IN)
                                x[n_rows][i] = (float)v / 16.0f;
                        else
                                label[n_rows] = (int)v % OUT;
                        p = end + 1;
                }
                n_rows++;
        }
        fclose(f);
}

static uint32_t xorshift(uint32_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 17;
        return *state ^= *state << 5;
}

/* Adds the gradient of one row to g, returns its loss; *right counts correct answers. */
static double backward(const float *p, float *g, int row, int *right)
{
        float h[HIDDEN], o[OUT], dh[HIDDEN] = {0}, sum = 0, top;
        int best = 0;

        for (int j = 0; j < HIDDEN; j++) {
                float a = p[B1 + j];

                for (int i = 0; i < IN; i++)
                        a += p[W1 + i * HIDDEN + j] * x[row][i];
                h[j] = a > 0 ? a : 0;
        }
        for (int k = 0; k < OUT; k++) {
                o[k] = p[B2 + k];
                for (int j = 0; j < HIDDEN; j++)
                        o[k] += p[W2 + j * OUT + k] * h[j];
                if (o[k] > o[best])
                        best = k;
        }
        *right += best == label[row];
        top = o[best];
        for (int k = 0; k < OUT; k++)
                sum += o[k] = expf(o[k] - top);
        for (int k = 0; k < OUT; k++) {
                float d = o[k] / sum - (k == label[row]);

                g[B2 + k] += d;
                for (int j = 0; j < HIDDEN; j++) {
                        g[W2 + j * OUT + k] += d * h[j];
                        dh[j] += d * p[W2 + j * OUT + k];
                }
        }
        for (int j = 0; j < HIDDEN; j++) {
                if (h[j] <= 0)
                        continue;
                g[B1 + j] += dh[j];
                for (int i = 0; i < IN; i++)
                        g[W1 + i * HIDDEN + j] += dh[j] * x[row][i];
        }
        return -log((double)o[label[row]] / (double)sum + 1e-30);
}

static void all_reduce(CUdeviceptr at, size_t count, ncclDataType_t type, ncclRedOp_t op,
                       CUstream stream)
{
        job_begin(&job, job.name, "AllReduce", count * job_type_bytes(type), stream);
        NCCL_CHECK(ncclAllReduce((void *)(uintptr_t)at, (void *)(uintptr_t)at, count, type, op,
                                 job.comm, stream));
        job_end(&job);
}

static uint64_t checksum(const void *data, size_t bytes)
{
        const unsigned char *p = data;
        uint64_t h = 0xcbf29ce484222325ull;

        while (bytes--)
                h = (h ^ *p++) * 0x100000001b3ull;
        return h;
}

static void train(int epochs, int batch, float rate)
{
        static float p[N_PARAMS], g[N_PARAMS];
        CUdeviceptr params, grads, stats, sums;
        uint32_t seed = 20261120;
        uint64_t sum, *all = calloc((size_t)job.n, sizeof *all);
        CUstream compute;
        CUevent ready, reduced;
        double t_start;
        int step = 0;

        CU_CHECK(cuMemAlloc(&params, sizeof p));
        CU_CHECK(cuMemAlloc(&grads, sizeof g));
        CU_CHECK(cuMemAlloc(&stats, 2 * sizeof(double)));
        CU_CHECK(cuMemAlloc(&sums, (size_t)job.n * sizeof sum));
        CU_CHECK(cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING));
        CU_CHECK(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING));
        CU_CHECK(cuEventCreate(&reduced, CU_EVENT_DISABLE_TIMING));

        /* Everybody begins with rank 0's parameters. */
        for (int i = 0; i < N_PARAMS && job.rank == 0; i++)
                p[i] = i >= B1 && i < W2
                               ? 0.0f
                               : ((float)(xorshift(&seed) >> 8) / 8388608.0f - 1.0f) * 0.15f;
        CU_CHECK(cuMemcpyHtoD(params, p, sizeof p));
        job_begin(&job, job.name, "Broadcast", sizeof p, job.stream);
        NCCL_CHECK(ncclBroadcast((void *)(uintptr_t)params, (void *)(uintptr_t)params, N_PARAMS,
                                 ncclFloat, 0, job.comm, job.stream));
        job_end(&job);
        CU_CHECK(cuStreamSynchronize(job.stream));
        CU_CHECK(cuMemcpyDtoH(p, params, sizeof p));

        t_start = job_now();
        for (int epoch = 0; epoch < epochs; epoch++) {
                double mine[2] = {0, 0};
                int right = 0;

                for (int first = 0; first + batch <= n_rows; first += batch, step++) {
                        memset(g, 0, sizeof g);
                        for (int row = first + job.rank; row < first + batch; row += job.n)
                                mine[0] += backward(p, g, row, &right);
                        /* Bucket 1: the last layer; bucket 2: the first. Copies on one stream,
                         * reductions on another.
                         */
                        CU_CHECK(cuMemcpyHtoDAsync(grads + W2 * sizeof *g, g + W2,
                                                   (N_PARAMS - W2) * sizeof *g, compute));
                        CU_CHECK(cuEventRecord(ready, compute));
                        CU_CHECK(cuStreamWaitEvent(job.stream, ready, 0));
                        all_reduce(grads + W2 * sizeof *g, N_PARAMS - W2, ncclFloat, ncclSum,
                                   job.stream);
                        CU_CHECK(cuMemcpyHtoDAsync(grads, g, W2 * sizeof *g, compute));
                        CU_CHECK(cuEventRecord(ready, compute));
                        CU_CHECK(cuStreamWaitEvent(job.stream, ready, 0));
                        all_reduce(grads, W2, ncclFloat, ncclSum, job.stream);
                        CU_CHECK(cuEventRecord(reduced, job.stream));
                        CU_CHECK(cuStreamWaitEvent(compute, reduced, 0));
                        CU_CHECK(cuMemcpyDtoHAsync(g, grads, sizeof g, compute));
                        CU_CHECK(cuStreamSynchronize(compute));
                        for (int i = 0; i < N_PARAMS; i++)
                                p[i] -= rate / (float)batch * g[i];
                }
                mine[1] = right;
                CU_CHECK(cuMemcpyHtoD(stats, mine, sizeof mine));
                all_reduce(stats, 2, ncclDouble, ncclSum, job.stream);
                CU_CHECK(cuStreamSynchronize(job.stream));
                CU_CHECK(cuMemcpyDtoH(mine, stats, sizeof mine));
                if (job.rank == 0 && !quiet)
                        printf("epoch %d loss %.9f correct %.4f\n", epoch + 1,
                               mine[0] / (n_rows / batch * batch),
                               mine[1] / (n_rows / batch * batch));
        }

        /* All ranks must have ended with the same parameters, to the last bit. */
        sum = checksum(p, sizeof p);
        CU_CHECK(cuMemcpyHtoD(sums + (size_t)job.rank * sizeof sum, &sum, sizeof sum));
        job_begin(&job, job.name, "AllGather", (uint64_t)job.n * sizeof sum, job.stream);
        NCCL_CHECK(ncclAllGather((void *)(uintptr_t)(sums + (size_t)job.rank * sizeof sum),
                                 (void *)(uintptr_t)sums, 1, ncclUint64, job.comm, job.stream));
        job_end(&job);
        CU_CHECK(cuStreamSynchronize(job.stream));
        CU_CHECK(cuMemcpyDtoH(all, sums, (size_t)job.n * sizeof sum));
        for (int i = 0; i < job.n; i++)
                if (all[i] != sum) {
                        fprintf(stderr,
                                "ddp_train: rank %d and rank %d end with different parameters\n",
                                job.rank, i);
                        exit(1);
                }
        if (job.rank == 0) {
                printf("checksum %016lx\n", sum);
                fprintf(stderr, "ddp_train: %d steps in %.3f s\n", step, job_now() - t_start);
        }
        CU_CHECK(cuEventDestroy(ready));
        CU_CHECK(cuEventDestroy(reduced));
        CU_CHECK(cuStreamDestroy(compute));
        CU_CHECK(cuMemFree(params));
        CU_CHECK(cuMemFree(grads));
        CU_CHECK(cuMemFree(stats));
        CU_CHECK(cuMemFree(sums));
        free(all);
}

/* --- replaying --- */

static size_t shapes[1024];
static int n_shapes;

static void shape(size_t elements) { shapes[n_shapes++] = elements; }

/* Devlin et al. 2018, table of BERT-large: 24 layers, hidden 1024, 4096 inside, 30,522 words, 512
 * positions; parameters in the order of the public PyTorch model (BertModel): weight, bias. 335.1
 * million. */
static void bert_large(void)
{
        const size_t h = 1024, inner = 4096;

        shape(30522 * h), shape(512 * h), shape(2 * h), shape(h), shape(h);
        for (int layer = 0; layer < 24; layer++) {
                for (int i = 0; i < 4; i++) /* query, key, value, output */
                        shape(h * h), shape(h);
                shape(h), shape(h);
                shape(h * inner), shape(inner), shape(inner * h), shape(h);
                shape(h), shape(h);
        }
        shape(h * h), shape(h);
}

/* He et al. 2015, table 1: 3, 4, 6, 3 bottleneck blocks; each convolution is followed by a
 * normalisation (weight, bias). 25.6 million. */
static void resnet50(void)
{
        static const int blocks[] = {3, 4, 6, 3};
        size_t in = 64;

        shape(7 * 7 * 3 * 64), shape(64), shape(64);
        for (int stage = 0; stage < 4; stage++) {
                size_t w = 64u << stage, out = 4 * w;

                for (int b = 0; b < blocks[stage]; b++) {
                        shape(in * w), shape(w), shape(w);
                        shape(9 * w * w), shape(w), shape(w);
                        shape(w * out), shape(out), shape(out);
                        if (!b)
                                shape(in * out), shape(out), shape(out);
                        in = out;
                }
        }
        shape(2048 * 1000), shape(1000);
}

/* Gradients come in the order of the backward pass: last parameter first. */
static int make_buckets(size_t *buckets, size_t first_limit, size_t limit, size_t element,
                        bool may_exceed)
{
        size_t now = 0;
        int n = 0;

        for (int i = n_shapes - 1; i >= 0; i--) {
                if (!may_exceed && now && (now + shapes[i]) * element > limit) {
                        buckets[n++] = now;
                        now = 0;
                }
                now += shapes[i];
                if (may_exceed && now * element >= (n ? limit : first_limit)) {
                        buckets[n++] = now;
                        now = 0;
                }
        }
        if (now)
                buckets[n++] = now;
        return n;
}

static void fill(void *data, size_t n, ncclDataType_t type)
{
        /* -3..3 and the rank's number: exact in half precision; 16-bit patterns of the halves
         * -3..40 by hand */
        for (size_t i = 0; i < n; i++) {
                int v = (int)(i % 7) - 3 + job.rank;

                if (type == ncclFloat) {
                        ((float *)data)[i] = (float)v;
                } else {
                        unsigned m = (unsigned)(v < 0 ? -v : v), e = 0;

                        while (m >> e > 1)
                                e++;
                        ((uint16_t *)data)[i] =
                                (uint16_t)((v < 0 ? 0x8000u : 0) |
                                           (m ? (e + 15) << 10 | ((m << (10 - e)) & 1023u) : 0));
                }
        }
}

static void replay(const char *model, size_t limit, ncclDataType_t type, int steps, double scale)
{
        size_t buckets[1024], element = job_type_bytes(type), total = 0;
        bool bert = !strcmp(model, "bert-large");
        CUdeviceptr *memory;
        double t_start;
        void *host;
        int n;

        if (bert)
                bert_large();
        else
                resnet50();
        for (int i = 0; i < n_shapes; i++)
                total += shapes[i];
        /* PyTorch's DDP: a first bucket of 1 MB, then closed when the limit is reached
         * (reducer.cpp, compute_bucket_assignment_by_size). Horovod: filled as long as the next one
         * still fits. */
        n = bert ? make_buckets(buckets, 1 << 20, limit, element, true)
                 : make_buckets(buckets, 0, limit, element, false);
        if (job.rank == 0)
                printf("replay %s: %zu parameters in %d tensors, %d buckets of up to %zu MiB, %s, scale %g%s\n",
                       model, total, n_shapes, n, limit >> 20, type == ncclHalf ? "half" : "float",
                       scale, scale < 1 ? " (sizes shrunk for this machine)" : "");
        memory = calloc((size_t)n, sizeof *memory);
        for (int b = 0; b < n; b++) {
                buckets[b] = (size_t)((double)buckets[b] * scale);
                if (!buckets[b])
                        buckets[b] = 1;
                CU_CHECK(cuMemAlloc(&memory[b], buckets[b] * element));
                host = malloc(buckets[b] * element);
                fill(host, buckets[b], type);
                CU_CHECK(cuMemcpyHtoD(memory[b], host, buckets[b] * element));
                free(host);
        }
        t_start = job_now();
        for (int step = 0; step < steps; step++) {
                double t = job_now();

                for (int b = 0; b < n; b++)
                        all_reduce(memory[b], buckets[b], type, ncclAvg, job.stream);
                CU_CHECK(cuStreamSynchronize(job.stream));
                if (job.rank == 0 && !quiet)
                        fprintf(stderr, "ddp_train: step %d of %d: %.6f s\n", step + 1, steps,
                                job_now() - t);
        }
        if (job.rank == 0)
                fprintf(stderr, "ddp_train: %d steps in %.3f s\n", steps, job_now() - t_start);
        for (int b = 0; b < n; b++) {
                host = malloc(buckets[b] * element);
                CU_CHECK(cuMemcpyDtoH(host, memory[b], buckets[b] * element));
                if (job.rank == 0)
                        printf("bucket %d bytes %zu checksum %016lx\n", b, buckets[b] * element,
                               checksum(host, buckets[b] * element));
                for (size_t i = 0; i < buckets[b] && type == ncclFloat; i++) {
                        double want = (double)((int)(i % 7) - 3) + (job.n - 1) / 2.0,
                               have = ((float *)host)[i];

                        if (fabs(have - want) > 1e-3 * job.n) {
                                fprintf(stderr,
                                        "ddp_train: bucket %d element %zu is %g, expected %g\n", b,
                                        i, have, want);
                                exit(1);
                        }
                }
                free(host);
                CU_CHECK(cuMemFree(memory[b]));
        }
        free(memory);
}

static void usage(FILE *to)
{
        fprintf(to,
                "usage: ddp_train [--epochs N] [--batch N] [--data FILE] [--quiet]\n"
                "       ddp_train --replay bert-large|resnet50 [--bucket 25M|200M] [--type half|float] [--steps N]\n"
                "                 [--scale F] [--quiet]\n\n"
                "Trains a small network on handwritten digits with data parallelism over NCCL, or replays the "
                "gradient\n"
                "buckets of a big model. Start one process per rank (tests/jobs/launch, torchrun, srun, mpirun).\n\n"
                "  --epochs N    passes over the data (default 20)\n"
                "  --batch N     rows per step over all ranks (default 48)\n"
                "  --bucket S    largest gradient bucket, with K, M or G (default 25M; resnet50 64M)\n"
                "  --type T      element type of the gradients (default float)\n"
                "  --steps N     training steps to replay (default 4)\n"
                "  --scale F     shrink every bucket by this factor, for slow machines (default 1)\n\n"
                "At the end rank 0 prints what each rank issued: issued call=AllReduce bytes=8320 times=300 ranks=4\n");
}

int main(int argc, char **argv)
{
        static const struct option options[] = {
                {"replay", required_argument, NULL, 'r'},
                {"bucket", required_argument, NULL, 'b'},
                {"type", required_argument, NULL, 't'},
                {"steps", required_argument, NULL, 's'},
                {"scale", required_argument, NULL, 'S'},
                {"epochs", required_argument, NULL, 'e'},
                {"batch", required_argument, NULL, 'B'},
                {"data", required_argument, NULL, 'd'},
                {"quiet", no_argument, NULL, 'q'},
                {"help", no_argument, NULL, 'h'},
                {NULL, 0, NULL, 0},
        };
        const char *model = NULL, *data = DATA_FILE;
        ncclDataType_t type = ncclFloat;
        int epochs = 20, batch = 48, steps = 4, c;
        double scale = 1;
        size_t bucket = 0;
        char *end;

        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0)
                switch (c) {
                case 'r': model = optarg; break;
                case 'b':
                        bucket = strtoul(optarg, &end, 10);
                        bucket <<= *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
                        break;
                case 't':
                        type = !strcmp(optarg, "half")    ? ncclHalf
                               : !strcmp(optarg, "float") ? ncclFloat
                                                          : ncclNumTypes;
                        break;
                case 's': steps = atoi(optarg); break;
                case 'S': scale = atof(optarg); break;
                case 'e': epochs = atoi(optarg); break;
                case 'B': batch = atoi(optarg); break;
                case 'd': data = optarg; break;
                case 'q': quiet = true; break;
                case 'h': usage(stdout); return 0;
                default: usage(stderr); return 2;
                }
        if (optind < argc || type == ncclNumTypes || steps < 1 || epochs < 1 || batch < 1 ||
            !(scale > 0 && scale <= 1) ||
            (model && strcmp(model, "bert-large") && strcmp(model, "resnet50"))) {
                usage(stderr);
                return 2;
        }
        if (!model)
                load(data);
        else if (!bucket)
                bucket = !strcmp(model, "resnet50") ? 64u << 20 : 25u << 20;
        job_open(&job, "data-parallel");
        if (model)
                replay(model, bucket, type, steps, scale);
        else
                train(epochs, batch, 0.5f);
        job_close(&job);
        if (job.rank == 0)
                job_report(&job, stdout);
        return 0;
}
