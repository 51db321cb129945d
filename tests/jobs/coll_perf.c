/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coll_perf: one NCCL call over a range of sizes, timed and checked, in the columns nccl-tests
 * prints (its doc/PERFORMANCE.md has the definitions), so whatever reads those tables reads this
 * one. One process per rank, and no library but NCCL and the driver.
 *
 * Times are rank 0's: the wall time of the iterations, stream synchronised at the end, divided by
 * their number.
 */
#include <getopt.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "perf_job.h"

enum call { ALLREDUCE, ALLGATHER, REDUCESCATTER, BROADCAST, REDUCE, ALLTOALL, SENDRECV, N_CALLS };
static const struct {
        const char *name, *test, *record;
        bool folds, rooted, total; /* total: size counts all ranks' parts */
} calls[N_CALLS] = {
        {"allreduce", "all_reduce_perf", "AllReduce", true, false, false},
        {"allgather", "all_gather_perf", "AllGather", false, false, true},
        {"reducescatter", "reduce_scatter_perf", "ReduceScatter", true, false, true},
        {"broadcast", "broadcast_perf", "Broadcast", false, true, false},
        {"reduce", "reduce_perf", "Reduce", true, true, false},
        {"alltoall", "alltoall_perf", "AlltoAll", false, false, true},
        {"sendrecv", "sendrecv_perf", "SendRecv", false, false, false},
};
static const struct {
        const char *name;
        ncclDataType_t type;
} types[] = {{"int8", ncclInt8},   {"uint8", ncclUint8},   {"int32", ncclInt32},
             {"int64", ncclInt64}, {"float", ncclFloat32}, {"double", ncclFloat64}};
static const char *const ops[] = {"sum", "prod", "max", "min", "avg"};

static struct job job;
static enum call call;
static size_t type_at = 4;
static ncclRedOp_t op = ncclSum;
static int root;

/* Small whole numbers: every fold of them is exact in every type here. */
static double value(int rank, size_t i)
{
        return op == ncclProd ? 1 + ((i + (size_t)rank) % 16 == 0)
                              : (double)((i * 7 + (size_t)rank * 3) % 4);
}

static void store(void *data, size_t i, double v)
{
        switch ((int)types[type_at].type) {
        case ncclInt8:
        case ncclUint8: ((int8_t *)data)[i] = (int8_t)v; break;
        case ncclInt32: ((int32_t *)data)[i] = (int32_t)v; break;
        case ncclInt64: ((int64_t *)data)[i] = (int64_t)v; break;
        case ncclFloat32: ((float *)data)[i] = (float)v; break;
        default: ((double *)data)[i] = v;
        }
}

static double fetch(const void *data, size_t i)
{
        switch ((int)types[type_at].type) {
        case ncclInt8:
        case ncclUint8: return ((const int8_t *)data)[i];
        case ncclInt32: return ((const int32_t *)data)[i];
        case ncclInt64: return (double)((const int64_t *)data)[i];
        case ncclFloat32: return ((const float *)data)[i];
        default: return ((const double *)data)[i];
        }
}

static double folded(size_t i)
{
        double v = value(0, i);

        for (int k = 1; k < job.n; k++) {
                double w = value(k, i);

                v = op == ncclProd  ? v * w
                    : op == ncclMax ? fmax(v, w)
                    : op == ncclMin ? fmin(v, w)
                                    : v + w;
        }
        if (op == ncclAvg) {
                v /= job.n;
                if (types[type_at].type < ncclFloat16)
                        v = trunc(v);
        }
        return v;
}

/* `count` is elements of one rank's part where the size counts all ranks' parts. */
static double want(size_t i, size_t count)
{
        size_t n = (size_t)job.n, me = (size_t)job.rank;

        switch ((int)call) {
        case ALLREDUCE:
        case REDUCE: return folded(i);
        case REDUCESCATTER: return folded(me * count + i);
        case ALLGATHER: return value((int)(i / count), i % count);
        case BROADCAST: return value(root, i);
        case ALLTOALL: return value((int)(i / count), me * count + i % count);
        default: return value((int)((me + n - 1) % n), i);
        }
}

static void issue(CUdeviceptr send_at, CUdeviceptr recv_at, size_t count)
{
        void *send = (void *)(uintptr_t)send_at, *recv = (void *)(uintptr_t)recv_at;
        ncclDataType_t t = types[type_at].type;
        size_t bytes = count * job_type_bytes(t);
        ncclComm_t c = job.comm;
        CUstream s = job.stream;

        if (call == SENDRECV) {
                job_begin(&job, job.name, "Send", bytes, s);
                job_begin(&job, job.name, "Recv", bytes, s);
        } else {
                job_begin(&job, job.name, calls[call].record,
                          bytes * (calls[call].total ? (size_t)job.n : 1), s);
        }
        switch ((int)call) {
        case ALLREDUCE: NCCL_CHECK(ncclAllReduce(send, recv, count, t, op, c, s)); break;
        case ALLGATHER: NCCL_CHECK(ncclAllGather(send, recv, count, t, c, s)); break;
        case REDUCESCATTER: NCCL_CHECK(ncclReduceScatter(send, recv, count, t, op, c, s)); break;
        case BROADCAST: NCCL_CHECK(ncclBroadcast(send, recv, count, t, root, c, s)); break;
        case REDUCE: NCCL_CHECK(ncclReduce(send, recv, count, t, op, root, c, s)); break;
        case ALLTOALL: NCCL_CHECK(ncclAlltoAll(send, recv, count, t, c, s)); break;
        default:
                NCCL_CHECK(ncclGroupStart());
                NCCL_CHECK(ncclSend(send, count, t, (job.rank + 1) % job.n, c, s));
                NCCL_CHECK(ncclRecv(recv, count, t, (job.rank + job.n - 1) % job.n, c, s));
                NCCL_CHECK(ncclGroupEnd());
        }
        job_end(&job);
}

static double bus_factor(void)
{
        double n = job.n;

        switch ((int)call) {
        case ALLREDUCE: return 2 * (n - 1) / n;
        case ALLGATHER:
        case REDUCESCATTER:
        case ALLTOALL: return (n - 1) / n;
        default: return 1;
        }
}

struct buffers {
        CUdeviceptr send, recv;
        char *host;
};

static size_t sent_elements(size_t count)
{
        return call == REDUCESCATTER || call == ALLTOALL ? count * (size_t)job.n : count;
}

static size_t received_elements(size_t count)
{
        return call == ALLGATHER || call == ALLTOALL ? count * (size_t)job.n : count;
}

/* Where each operation's own rules put an in-place buffer. */
static void place(const struct buffers *b, bool in_place, size_t count, CUdeviceptr *send,
                  CUdeviceptr *recv)
{
        size_t part = (size_t)job.rank * count * job_type_bytes(types[type_at].type);

        *send = b->send;
        *recv = b->recv;
        if (!in_place)
                return;
        if (call == ALLGATHER)
                *send = b->recv + part;
        else if (call == REDUCESCATTER)
                *recv = b->send + part;
        else
                *recv = b->send;
}

static size_t check(const struct buffers *b, bool in_place, size_t count)
{
        size_t size = job_type_bytes(types[type_at].type), wrong = 0, n = sent_elements(count);
        CUdeviceptr send, recv;

        if (!count)
                return 0;
        place(b, in_place, count, &send, &recv);
        for (size_t i = 0; i < n; i++)
                store(b->host, i, value(job.rank, i));
        CU_CHECK(cuMemcpyHtoD(send, b->host, n * size));
        issue(send, recv, count);
        CU_CHECK(cuStreamSynchronize(job.stream));
        if (call == REDUCE && job.rank != root)
                return 0;
        n = received_elements(count);
        CU_CHECK(cuMemcpyDtoH(b->host, recv, n * size));
        for (size_t i = 0; i < n; i++)
                wrong += fabs(fetch(b->host, i) - want(i, count)) > (op == ncclAvg ? 1e-5 : 0);
        return wrong;
}

static double measure(const struct buffers *b, bool in_place, size_t count, int warmup,
                      int iterations)
{
        CUdeviceptr send, recv;
        double t;

        place(b, in_place, count, &send, &recv);
        for (int i = 0; i < warmup; i++)
                issue(send, recv, count);
        CU_CHECK(cuStreamSynchronize(job.stream));
        t = job_now();
        for (int i = 0; i < iterations; i++)
                issue(send, recv, count);
        CU_CHECK(cuStreamSynchronize(job.stream));
        return (job_now() - t) / iterations;
}

static size_t parse_size(const char *text)
{
        char *end;
        size_t v = strtoul(text, &end, 10);

        v <<= *end == 'K' || *end == 'k'   ? 10
              : *end == 'M' || *end == 'm' ? 20
              : *end == 'G' || *end == 'g' ? 30
                                           : 0;
        return v;
}

static void usage(FILE *to)
{
        fprintf(to,
                "usage: coll_perf CALL [-b MIN] [-e MAX] [-f FACTOR | -i STEP] [-n ITERATIONS] [-w WARMUP] [-c 0|1]\n"
                "                 [-d TYPE] [-o OP] [-r ROOT] [-R] [-C]\n\n"
                "Times one NCCL call over a range of sizes, one process per rank, and prints nccl-tests' table.\n"
                "CALL: allreduce allgather reducescatter broadcast reduce alltoall sendrecv\n"
                "TYPE: int8 uint8 int32 int64 float double; OP: sum prod max min avg\n"
                "Sizes take K, M, G. Defaults: -b 8 -e 64M -f 2 -n 20 -w 5 -c 1 -d float -o sum -r 0.\n"
                "-R registers both buffers as windows.\n"
                "-C prints what was issued, call by call and size by size.\n\n"
                "  launch -n 4 -- coll_perf allreduce -b 8 -e 1M -f 4\n");
}

static int index_of(const char *text, const char *const *names, int n)
{
        for (int i = 0; i < n; i++)
                if (!strcmp(names[i], text))
                        return i;
        usage(stderr);
        exit(2);
}

int main(int argc, char **argv)
{
        size_t min = 8, max = 64u << 20, factor = 2, step = 0, size_of, wrong_total = 0, lines = 0;
        int iterations = 20, warmup = 5, checking = 1, c, version;
        bool counts = false, windows = false;
        ncclWindow_t window[2];
        struct buffers b;
        double bus_sum = 0;

        for (call = 0; argc > 1 && call < N_CALLS && strcmp(calls[call].name, argv[1]); call++)
                ;
        if (argc > 1 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))) {
                usage(stdout);
                return 0;
        }
        if (argc < 2 || call == N_CALLS) {
                usage(stderr);
                return 2;
        }
        optind = 2;
        while ((c = getopt(argc, argv, "b:e:f:i:n:w:c:d:o:r:RCh")) >= 0)
                switch (c) {
                case 'b': min = parse_size(optarg); break;
                case 'e': max = parse_size(optarg); break;
                case 'f': factor = parse_size(optarg); break;
                case 'i': step = parse_size(optarg); break;
                case 'n': iterations = atoi(optarg); break;
                case 'w': warmup = atoi(optarg); break;
                case 'c': checking = atoi(optarg); break;
                case 'r': root = atoi(optarg); break;
                case 'o': op = (ncclRedOp_t)index_of(optarg, ops, 5); break;
                case 'R': windows = true; break;
                case 'C': counts = true; break;
                case 'd':
                        for (type_at = 0; type_at < sizeof types / sizeof types[0] &&
                                          strcmp(types[type_at].name, optarg);)
                                type_at++;
                        if (type_at < sizeof types / sizeof types[0])
                                break;
                        __attribute__((fallthrough));
                default: usage(stderr); return 2;
                }
        if (optind < argc || max < min || (factor < 2 && !step) || iterations < 1 || warmup < 0) {
                usage(stderr);
                return 2;
        }
        job_open(&job, "coll_perf");
        if (root < 0 || root >= job.n) {
                fprintf(stderr, "coll_perf: -r %d: expected a rank of 0..%d\n", root, job.n - 1);
                return 2;
        }
        size_of = job_type_bytes(types[type_at].type);
        CU_CHECK(cuMemAlloc(&b.send, max + 64 * (size_t)job.n));
        CU_CHECK(cuMemAlloc(&b.recv, max + 64 * (size_t)job.n));
        if (windows) {
                NCCL_CHECK(ncclCommWindowRegister(job.comm, (void *)(uintptr_t)b.send,
                                                  max + 64 * (size_t)job.n, &window[0], 1));
                NCCL_CHECK(ncclCommWindowRegister(job.comm, (void *)(uintptr_t)b.recv,
                                                  max + 64 * (size_t)job.n, &window[1], 1));
        }
        b.host = malloc(max + 64 * (size_t)job.n);
        NCCL_CHECK(ncclGetVersion(&version));
        if (job.rank == 0) {
                char host[64] = "";

                gethostname(host, sizeof host - 1);
                printf("# coll_perf of capo, in the format of nccl-tests; nccl-library=%d\n",
                       version);
                printf("# Collective test starting: %s\n", calls[call].test);
                printf("# nThread 1 nGpus 1 minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d agg "
                       "iters: 1 "
                       "validation: %d graph: 0\n#\n",
                       min, max, step ? step : factor, step ? "bytes" : "factor", warmup,
                       iterations, checking);
                printf("# %d ranks, one process each; rank 0 is pid %d on %s; times are rank 0's\n#\n",
                       job.n, getpid(), host);
                printf("#                                                              out-of-place                    "
                       "   "
                       "in-place          \n");
                printf("#       size         count      type   redop    root     time   algbw   busbw  #wrong     time "
                       "  algbw   "
                       "busbw  #wrong \n");
                printf("#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us) "
                       " (GB/s)  "
                       "(GB/s)         \n");
        }
        for (size_t size = min; size <= max; size = step   ? size + step
                                                    : size ? size * factor
                                                           : size_of) {
                size_t parts = calls[call].total ? (size_t)job.n : 1,
                       count = size / size_of / parts;
                size_t real = count * size_of * parts;

                if (job.rank == 0)
                        printf("%12zu  %12zu  %8s  %6s  %6d", real, count, types[type_at].name,
                               calls[call].folds ? ops[op] : "none",
                               calls[call].rooted ? root : -1);
                for (int in_place = 0; in_place < 2; in_place++) {
                        bool can = !in_place || (call != ALLTOALL && call != SENDRECV);
                        double t, alg;
                        size_t wrong;

                        if (!can) {
                                if (job.rank == 0)
                                        printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
                                continue;
                        }
                        t = measure(&b, in_place, count, warmup, iterations);
                        wrong = checking ? check(&b, in_place, count) : 0;
                        alg = t > 0 ? (double)real / t / 1e9 : 0;
                        wrong_total += wrong;
                        bus_sum += alg * bus_factor();
                        lines++;
                        if (wrong)
                                fprintf(stderr, "coll_perf: rank %d: %s of %zu bytes: %zu wrong\n",
                                        job.rank, calls[call].name, real, wrong);
                        if (job.rank == 0)
                                printf(t >= 1e-2   ? "  %7.0f"
                                       : t >= 1e-4 ? "  %7.1f"
                                                   : "  %7.2f",
                                       t * 1e6);
                        if (job.rank == 0 && checking)
                                printf("  %6.2f  %6.2f  %6zu", alg, alg * bus_factor(), wrong);
                        else if (job.rank == 0)
                                printf("  %6.2f  %6.2f  %6s", alg, alg * bus_factor(), "N/A");
                }
                if (job.rank == 0) {
                        printf("\n");
                        fflush(stdout);
                }
                if (step == 0 && size > max / factor)
                        break;
        }
        if (job.rank == 0) {
                printf("# Out of bounds values : %zu %s\n", wrong_total,
                       wrong_total ? "FAILED" : "OK");
                printf("# Avg bus bandwidth    : %g \n#\n# Collective test concluded: %s\n",
                       lines ? bus_sum / (double)lines : 0, calls[call].test);
        }
        for (int i = 0; i < 2 && windows; i++)
                NCCL_CHECK(ncclCommWindowDeregister(job.comm, window[i]));
        CU_CHECK(cuMemFree(b.send));
        CU_CHECK(cuMemFree(b.recv));
        free(b.host);
        job_close(&job);
        if (counts && job.rank == 0)
                job_report(&job, stdout);
        return wrong_total ? 1 : 0;
}
