/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every collective x type x operator x algorithm x protocol x channels x odd count x in place,
 * against a plain host computation that shares no code with the stand-in: values are folded in
 * double in the documented order (docs/internals/standin.md) and rounded to the type after each
 * step.
 *
 * usage: check_coll threads N | check_coll process     (the latter under tests/jobs/launch)
 * The program is its own tuner: it exports ncclTunerPlugin_v6, loaded by
 * NCCL_TUNER_PLUGIN=STATIC_PLUGIN, and forces what the test at hand wants; small chunks make small
 * buffers go through the whole pipeline.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/jobs/perf_job.h"

enum { TREE, RING };
enum { LL, SIMPLE = 2 };
enum call {
        ALLREDUCE,
        REDUCE,
        BROADCAST,
        ALLGATHER,
        REDUCESCATTER,
        ALLTOALL,
        GATHER,
        SCATTER,
        RING_SHIFT,
        N_CALLS
};
static const char *const call_names[] = {"AllReduce", "Reduce",        "Broadcast",
                                         "AllGather", "ReduceScatter", "AlltoAll",
                                         "Gather",    "Scatter",       "Send/Recv"};

static __thread struct {
        int algo, proto, channels;
        size_t chunk;
} want;
static atomic_long n_checks, n_failures;

/* --- the tuner --- */

static int tuner_init(void **ctx, uint64_t comm, size_t n_ranks, size_t n_nodes, void *log,
                      void *nvl, void *constants)
{
        *ctx = NULL;
        return 0;
}

static int tuner_get(void *ctx, int coll, size_t bytes, int pipe, float **table, int n_algo,
                     int n_proto, int reg, int *channels)
{
        float *cell = (float *)table + want.algo * n_proto + want.proto;

        if (*cell != -1.0f)
                *cell = 0.0f;
        *channels = want.channels;
        return 0;
}

static int tuner_destroy(void *ctx) { return 0; }

static int tuner_chunk(void *ctx, int coll, size_t bytes, int algo, int proto, int channels,
                       size_t *chunk)
{
        if (want.chunk)
                *chunk = want.chunk;
        return 0;
}

extern const struct tuner {
        const char *name;
        int (*init)(void **, uint64_t, size_t, size_t, void *, void *, void *);
        int (*get)(void *, int, size_t, int, float **, int, int, int, int *);
        int (*finalize)(void *);
        int (*chunk)(void *, int, size_t, int, int, int, size_t *);
} ncclTunerPlugin_v6;
__attribute__((visibility("default"))) const struct tuner ncclTunerPlugin_v6 = {
        "check", tuner_init, tuner_get, tuner_destroy, tuner_chunk};

/* --- the plain computation --- */

struct shape {
        int exp_bits, mantissa, bias;
};
static const struct shape shapes[ncclNumTypes] = {[ncclFloat16] = {5, 10, 15},
                                                  [ncclBfloat16] = {8, 7, 127},
                                                  [ncclFloat8e4m3] = {4, 3, 7},
                                                  [ncclFloat8e5m2] = {5, 2, 15}};

static double decode_small(const struct shape *s, unsigned v)
{
        unsigned e = v >> s->mantissa & ((1u << s->exp_bits) - 1),
                 m = v & ((1u << s->mantissa) - 1);
        double a = e ? ldexp(1 + ldexp(m, -s->mantissa), (int)e - s->bias)
                     : ldexp(m, 1 - s->bias - s->mantissa);

        return v >> (s->exp_bits + s->mantissa) & 1 ? -a : a;
}

/* Round to nearest even; 8-bit floats stop at their largest finite value. */
static unsigned encode_small(const struct shape *s, double v)
{
        unsigned sign = signbit(v) ? 1u << (s->exp_bits + s->mantissa) : 0, code = 0;
        unsigned largest = s->exp_bits + s->mantissa > 7 ? 0xffff : s->mantissa == 3 ? 0x7e : 0x7b;
        double a = fabs(v);
        int e;

        if (a != 0) {
                frexp(a, &e);
                e = e - 1 < 1 - s->bias ? 1 - s->bias : e - 1;
                code = (unsigned)nearbyint(ldexp(a, s->mantissa - e)) +
                       ((unsigned)(e - 1 + s->bias) << s->mantissa);
        }
        return sign | (code > largest ? largest : code);
}

/* Trust in encode_small: the nearest of all codes, even at a tie, for many values between and on
 * the codes. */
static void check_encoding(ncclDataType_t t)
{
        const struct shape *s = &shapes[t];

        for (double v = 0; v < 500; v = v * 1.013 + 0.001) {
                unsigned best = 0;
                double gap = INFINITY;

                for (unsigned c = 0; c <= (s->mantissa == 3 ? 0x7eu : 0x7bu); c++) {
                        double d = fabs(decode_small(s, c) - v);

                        if (d < gap || (d == gap && !(c & 1))) {
                                gap = d;
                                best = c;
                        }
                }
                n_checks++;
                if (best != encode_small(s, v)) {
                        n_failures++;
                        fprintf(stderr, "check_coll: %g becomes %#x, the nearest is %#x\n", v,
                                encode_small(s, v), best);
                }
        }
}

static bool is_float(ncclDataType_t t) { return t >= ncclFloat16; }

static double get(ncclDataType_t t, const void *p, size_t i)
{
        if (t == ncclFloat32)
                return ((const float *)p)[i];
        if (t == ncclFloat64)
                return ((const double *)p)[i];
        return decode_small(&shapes[t], job_type_bytes(t) == 1 ? ((const uint8_t *)p)[i]
                                                               : ((const uint16_t *)p)[i]);
}

static void put(ncclDataType_t t, void *p, size_t i, double v)
{
        if (t == ncclFloat32)
                ((float *)p)[i] = (float)v;
        else if (t == ncclFloat64)
                ((double *)p)[i] = v;
        else if (job_type_bytes(t) == 1)
                ((uint8_t *)p)[i] = (uint8_t)encode_small(&shapes[t], v);
        else
                ((uint16_t *)p)[i] = (uint16_t)encode_small(&shapes[t], v);
}

static int64_t get_int(ncclDataType_t t, const void *p, size_t i)
{
        switch ((int)t) {
        case ncclInt8: return ((const int8_t *)p)[i];
        case ncclUint8: return ((const uint8_t *)p)[i];
        case ncclInt32: return ((const int32_t *)p)[i];
        case ncclUint32: return ((const uint32_t *)p)[i];
        default: return ((const int64_t *)p)[i];
        }
}

static void put_int(ncclDataType_t t, void *p, size_t i, int64_t v)
{
        switch (job_type_bytes(t)) {
        case 1: ((uint8_t *)p)[i] = (uint8_t)v; break;
        case 4: ((uint32_t *)p)[i] = (uint32_t)v; break;
        default: ((uint64_t *)p)[i] = (uint64_t)v;
        }
}

static uint64_t noise(uint64_t rank, uint64_t i)
{
        uint64_t h = (rank * 1000003 + i) * 0x9e3779b97f4a7c15ull;

        h ^= h >> 29;
        h *= 0xbf58476d1ce4e5b9ull;
        return h ^ h >> 32;
}

/* Input element i of a rank: thirds and eighths that need rounding in every small type, powers of
 * two for products. */
static void input(ncclDataType_t t, ncclRedOp_t op, void *p, int rank, size_t n)
{
        static const double factors[] = {0.5, 1, 2, -1};

        for (size_t i = 0; i < n; i++) {
                uint64_t h = noise((uint64_t)rank, i);

                if (is_float(t))
                        put(t, p, i,
                            op == ncclProd ? factors[h % 4]
                                           : ((double)(h % 61) - 30) / 8 +
                                                     (t == ncclFloat32 || t == ncclFloat64
                                                              ? (double)(h % 7) / 3
                                                              : 0));
                else
                        put_int(t, p, i, (int64_t)h);
        }
}

enum { PREMUL = 100 }; /* an operator made by ncclRedOpCreatePreMulSum, factor 1.5 or 3 */

static void fold(ncclDataType_t t, int op, void *acc, size_t i, const void *in, size_t k,
                 bool begin, int n)
{
        if (is_float(t)) {
                char cell[8];
                double v = get(t, in, k), a;

                if (op == ncclAvg || op == PREMUL) {
                        put(t, cell, 0, op == PREMUL ? 1.5 : 1.0 / n);
                        a = get(t, cell, 0);
                        put(t, cell, 0,
                            t == ncclFloat64 || t == ncclFloat32 ? v * a
                                                                 : (double)((float)v * (float)a));
                        v = get(t, cell, 0);
                }
                if (!begin) {
                        a = get(t, acc, i);
                        v = op == ncclProd  ? a * v
                            : op == ncclMax ? (a < v ? v : a)
                            : op == ncclMin ? (v < a ? v : a)
                                            : a + v;
                }
                put(t, acc, i, v);
        } else {
                int64_t v = get_int(t, in, k), a;

                if (op == PREMUL)
                        v = (int64_t)((uint64_t)v * 3);
                if (!begin) {
                        a = get_int(t, acc, i);
                        if (op == ncclProd)
                                v = (int64_t)((uint64_t)a * (uint64_t)v);
                        else if (op == ncclMax || op == ncclMin) {
                                bool less = t == ncclUint64 ? (uint64_t)a < (uint64_t)v : a < v;

                                v = less == (op == ncclMax) ? v : a;
                        } else
                                v = (int64_t)((uint64_t)a + (uint64_t)v);
                }
                put_int(t, acc, i, v);
        }
}

static void finish(ncclDataType_t t, int op, void *acc, size_t i, int n)
{
        if (op != ncclAvg || is_float(t))
                return;
        if (t == ncclUint64)
                put_int(t, acc, i, (int64_t)((uint64_t)get_int(t, acc, i) / (uint64_t)n));
        else
                put_int(t, acc, i, get_int(t, acc, i) / n);
}

/* Which of the n blocks of `count` elements owns element i: the first count % n are one longer. */
static int owner(size_t count, int n, size_t i)
{
        size_t each = count / (size_t)n, more = count % (size_t)n;

        return (int)(i < more * (each + 1) ? i / (each + 1)
                                           : more + (i - more * (each + 1)) / each);
}

struct one {
        enum call call;
        ncclDataType_t type;
        int op;
        size_t count, chunk;
        int algo, proto, channels, root;
        bool in_place;
};

struct rank {
        struct job job;
        ncclRedOp_t premul[ncclNumTypes];
        CUdeviceptr send, recv, scalar;
        char **inputs; /* of all ranks, on the host */
        char *expect, *have;
        size_t room;
};

static size_t elements_in(const struct one *o, int n)
{
        return o->call == REDUCESCATTER || o->call == ALLTOALL || o->call == SCATTER
                       ? o->count * (size_t)n
                       : o->count;
}

static size_t elements_out(const struct one *o, int n)
{
        return o->call == ALLGATHER || o->call == ALLTOALL || o->call == GATHER
                       ? o->count * (size_t)n
                       : o->count;
}

/* What this rank's receive buffer must hold; false when the call leaves it alone here. */
static bool expected(struct rank *r, const struct one *o, char *out)
{
        size_t size = job_type_bytes(o->type), c = o->count;
        int n = r->job.n, me = r->job.rank;

        switch ((int)o->call) {
        case ALLREDUCE:
        case REDUCE:
        case REDUCESCATTER:
                if (o->call == REDUCE && me != o->root)
                        return false;
                for (size_t i = 0; i < c; i++) {
                        int last = o->call == ALLREDUCE ? owner(c, n, i)
                                   : o->call == REDUCE  ? o->root
                                                        : me;

                        for (int k = 1; k <= n; k++)
                                fold(o->type, o->op, out, i, r->inputs[(last + k) % n],
                                     o->call == REDUCESCATTER ? (size_t)me * c + i : i, k == 1, n);
                        finish(o->type, o->op, out, i, n);
                }
                return true;
        case BROADCAST: memcpy(out, r->inputs[o->root], c * size); return true;
        case ALLGATHER:
        case GATHER:
                if (o->call == GATHER && me != o->root)
                        return false;
                for (int k = 0; k < n; k++)
                        memcpy(out + (size_t)k * c * size, r->inputs[k], c * size);
                return true;
        case ALLTOALL:
                for (int k = 0; k < n; k++)
                        memcpy(out + (size_t)k * c * size, r->inputs[k] + (size_t)me * c * size,
                               c * size);
                return true;
        case SCATTER:
                memcpy(out, r->inputs[o->root] + (size_t)me * c * size, c * size);
                return true;
        default: memcpy(out, r->inputs[(me + n - 1) % n], c * size); return true;
        }
}

static void issue(struct rank *r, const struct one *o, void *send, void *recv)
{
        ncclRedOp_t op = o->op == PREMUL ? r->premul[o->type] : (ncclRedOp_t)o->op;
        ncclComm_t comm = r->job.comm;
        CUstream s = r->job.stream;
        int n = r->job.n, me = r->job.rank;

        switch ((int)o->call) {
        case ALLREDUCE:
                NCCL_CHECK(ncclAllReduce(send, recv, o->count, o->type, op, comm, s));
                break;
        case REDUCE:
                NCCL_CHECK(ncclReduce(send, recv, o->count, o->type, op, o->root, comm, s));
                break;
        case BROADCAST:
                NCCL_CHECK(ncclBroadcast(send, recv, o->count, o->type, o->root, comm, s));
                break;
        case ALLGATHER: NCCL_CHECK(ncclAllGather(send, recv, o->count, o->type, comm, s)); break;
        case REDUCESCATTER:
                NCCL_CHECK(ncclReduceScatter(send, recv, o->count, o->type, op, comm, s));
                break;
        case ALLTOALL: NCCL_CHECK(ncclAlltoAll(send, recv, o->count, o->type, comm, s)); break;
        case GATHER: NCCL_CHECK(ncclGather(send, recv, o->count, o->type, o->root, comm, s)); break;
        case SCATTER:
                NCCL_CHECK(ncclScatter(send, recv, o->count, o->type, o->root, comm, s));
                break;
        default:
                NCCL_CHECK(ncclGroupStart());
                NCCL_CHECK(ncclSend(send, o->count, o->type, (me + 1) % n, comm, s));
                NCCL_CHECK(ncclRecv(recv, o->count, o->type, (me + n - 1) % n, comm, s));
                NCCL_CHECK(ncclGroupEnd());
        }
}

static void check_one(struct rank *r, const struct one *o)
{
        size_t size = job_type_bytes(o->type), in = elements_in(o, r->job.n) * size,
               out = elements_out(o, r->job.n) * size;
        CUdeviceptr send = r->send, recv = r->recv;
        size_t mine = (size_t)r->job.rank * o->count * size;
        size_t differs = 0;

        want.algo = o->algo;
        want.proto = o->proto;
        want.channels = o->channels;
        want.chunk = o->chunk;
        for (int k = 0; k < r->job.n; k++)
                input(o->type, (ncclRedOp_t)o->op, r->inputs[k], k, in / size);
        if (o->in_place) { /* as nccl.h says for each */
                if (o->call == ALLGATHER || o->call == GATHER)
                        send = recv + mine;
                else if (o->call == REDUCESCATTER || o->call == SCATTER)
                        recv = send + mine;
                else if (o->call == ALLREDUCE || o->call == REDUCE || o->call == BROADCAST)
                        recv = send;
                else
                        return;
                if ((o->call == GATHER || o->call == SCATTER) && r->job.rank != o->root) {
                        send = r->send;
                        recv = r->recv;
                }
        }
        CU_CHECK(cuMemsetD8(recv, 0x5a, out + 8));
        CU_CHECK(cuMemcpyHtoD(send, r->inputs[r->job.rank], in));
        issue(r, o, (void *)(uintptr_t)send, (void *)(uintptr_t)recv);
        CU_CHECK(cuStreamSynchronize(r->job.stream));
        CU_CHECK(cuMemcpyDtoH(r->have, recv, out));
        n_checks++;
        if (expected(r, o, r->expect)) {
                while (differs < out && r->have[differs] == r->expect[differs])
                        differs++;
                if (differs == out)
                        return;
                n_failures++;
                fprintf(stderr,
                        "check_coll: rank %d of %d: %s type %d op %d count %zu %s %s channels %d root %d%s: element "
                        "%zu is wrong\n",
                        r->job.rank, r->job.n, call_names[o->call], o->type, o->op, o->count,
                        o->algo == TREE ? "tree" : "ring", o->proto == LL ? "LL" : "Simple",
                        o->channels, o->root, o->in_place ? " in place" : "", differs / size);
        }
}

static void check_all(struct rank *r, bool quick)
{
        static const size_t counts[] = {1, 2, 7, 1000, 5003, 40009};
        static const int ops[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg, PREMUL};
        const size_t largest = counts[5] * (size_t)r->job.n * 8 + 64;
        int turn = 0;

        r->inputs = calloc((size_t)r->job.n, sizeof *r->inputs);
        for (int i = 0; i < r->job.n; i++)
                r->inputs[i] = malloc(largest);
        r->expect = malloc(largest);
        r->have = malloc(largest);
        CU_CHECK(cuMemAlloc(&r->send, largest));
        CU_CHECK(cuMemAlloc(&r->recv, largest));
        CU_CHECK(cuMemAlloc(&r->scalar, 64));
        for (int t = 0; t < ncclNumTypes;
             t++) { /* the factor alternately in host and device memory */
                char cell[8] = {0};

                if (is_float((ncclDataType_t)t))
                        put((ncclDataType_t)t, cell, 0, 1.5);
                else
                        put_int((ncclDataType_t)t, cell, 0, 3);
                if (t % 2 == 0) {
                        NCCL_CHECK(ncclRedOpCreatePreMulSum(&r->premul[t], cell, (ncclDataType_t)t,
                                                            ncclScalarHostImmediate, r->job.comm));
                } else {
                        CUdeviceptr at;

                        CU_CHECK(cuMemAlloc(&at, 8));
                        CU_CHECK(cuMemcpyHtoD(at, cell, 8));
                        NCCL_CHECK(ncclRedOpCreatePreMulSum(&r->premul[t], (void *)(uintptr_t)at,
                                                            (ncclDataType_t)t, ncclScalarDevice,
                                                            r->job.comm));
                }
        }
        /* One type and operator through every algorithm, protocol, channel count, size, in and out
         * of place. */
        for (int call = 0; call < N_CALLS; call++)
                for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
                        for (int algo = call == ALLREDUCE ? TREE : RING; algo <= RING; algo++)
                                for (int proto = LL; proto <= SIMPLE; proto += 2)
                                        for (int channels = 1; channels <= 8;
                                             channels = channels == 1 ? 3 : channels + 5)
                                                for (int in_place = 0; in_place < 2; in_place++) {
                                                        struct one o = {.call = (enum call)call,
                                                                        .type = ncclFloat32,
                                                                        .op = ncclSum,
                                                                        .count = counts[c],
                                                                        .chunk =
                                                                                turn % 2 ? 1024 : 0,
                                                                        .algo = algo,
                                                                        .proto = proto,
                                                                        .channels = channels,
                                                                        .root = turn % r->job.n,
                                                                        .in_place = in_place};

                                                        turn++;
                                                        if (call > REDUCESCATTER &&
                                                            (proto != LL || channels > 1))
                                                                continue; /* no algorithm to choose
                                                                           */
                                                        if (r->job.n > 4 && channels > 3)
                                                                continue;
                                                        if (quick && c != 2 && c != 4)
                                                                continue;
                                                        check_one(r, &o);
                                                }
        /* Every type and operator, the rest taken in turn. */
        for (int t = 0; t < ncclNumTypes; t++)
                for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++)
                        for (int call = 0; call < N_CALLS; call++) {
                                struct one o = {.call = (enum call)call,
                                                .type = (ncclDataType_t)t,
                                                .op = ops[k]};
                                bool folds = call == ALLREDUCE || call == REDUCE ||
                                             call == REDUCESCATTER;

                                if (!folds && k)
                                        continue;
                                for (int v = 0; v < (folds ? quick ? 1 : 3 : 1); v++, turn++) {
                                        o.count = counts[turn % 4 + 1];
                                        o.algo = call == ALLREDUCE && turn % 2 ? TREE : RING;
                                        o.proto = turn / 2 % 2 ? LL : SIMPLE;
                                        o.channels = 1 + turn % 4;
                                        o.chunk = turn % 3 ? 512 : 0;
                                        o.root = turn % r->job.n;
                                        o.in_place = turn / 4 % 2;
                                        check_one(r, &o);
                                }
                        }
        NCCL_CHECK(ncclRedOpDestroy(r->premul[ncclFloat], r->job.comm));
        for (int i = 0; i < r->job.n; i++)
                free(r->inputs[i]);
        free(r->inputs);
        free(r->expect);
        free(r->have);
        CU_CHECK(cuMemFree(r->send));
        CU_CHECK(cuMemFree(r->recv));
}

static void *thread(void *arg)
{
        struct rank *r = arg;

        CU_CHECK(cuDevicePrimaryCtxRetain(&r->job.ctx, r->job.local));
        CU_CHECK(cuCtxSetCurrent(r->job.ctx));
        CU_CHECK(cuStreamCreate(&r->job.stream, CU_STREAM_NON_BLOCKING));
        check_all(r, r->job.n != 3);
        job_close(&r->job);
        return NULL;
}

int main(int argc, char **argv)
{
        int n = argc == 3 && !strcmp(argv[1], "threads") ? atoi(argv[2]) : 0;

        if (argc < 2 || (strcmp(argv[1], "process") && (n < 1 || n > 64))) {
                fprintf(stderr, "usage: check_coll threads N | check_coll process\n");
                return 2;
        }
        check_encoding(ncclFloat8e4m3);
        check_encoding(ncclFloat8e5m2);
        setenv("NCCL_TUNER_PLUGIN", "STATIC_PLUGIN", 1);
        setenv("CAPO_STANDIN_NCCL_VERSION", "2.30.7", 1);
        if (n) {
                struct rank *ranks = calloc((size_t)n, sizeof *ranks);
                pthread_t *threads = calloc((size_t)n, sizeof *threads);
                ncclComm_t *comms = calloc((size_t)n, sizeof *comms);

                CU_CHECK(cuInit(0));
                NCCL_CHECK(ncclCommInitAll(comms, n, NULL));
                for (int i = 0; i < n; i++) {
                        ranks[i].job =
                                (struct job){.rank = i, .n = n, .local = i, .comm = comms[i]};
                        pthread_create(&threads[i], NULL, thread, &ranks[i]);
                }
                for (int i = 0; i < n; i++)
                        pthread_join(threads[i], NULL);
                free(ranks);
                free(threads);
                free(comms);
        } else {
                static struct rank r;

                job_open(&r.job, "check");
                check_all(&r, true);
                job_close(&r.job);
        }
        fprintf(stderr, "check_coll: %ld checks, %ld wrong\n", (long)n_checks, (long)n_failures);
        return n_failures ? 1 : 0;
}
