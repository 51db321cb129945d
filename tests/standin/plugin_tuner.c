/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tuner for check_plugins, built once per interface version (-DABI=1 .. 6): it counts what it
 * gets and wants what the test asks for through `ask`. Layouts as in nccl's tuner_v1.h ..
 * tuner_v6.h, written down a second time on purpose.
 */
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
/* Each rank has a thread of its own that calls us. */
#define COUNT(n) __atomic_add_fetch(&(n), 1, __ATOMIC_RELAXED)

struct tuner_ask { /* shared with check_plugins.c */
        int algo, proto, channels, fail_get, all_off;
        int inits, gets, ends, chunks;
        size_t n_ranks, n_nodes, bytes;
        int coll, pipe_ops, n_algo, n_proto, reg;
        int nvl_domains, nvl_min, nvl_max, scale_ring_latency;
        float table[7][3];
};
extern struct tuner_ask tuner_ask;
EXPORT struct tuner_ask tuner_ask;

static int begin(size_t n_ranks, size_t n_nodes)
{
        COUNT(tuner_ask.inits);
        tuner_ask.n_ranks = n_ranks;
        tuner_ask.n_nodes = n_nodes;
        return 0;
}

static int end(void)
{
        COUNT(tuner_ask.ends);
        return 0;
}

#if ABI <= 2
static int answer(int coll, size_t bytes, int pipe_ops, int *algo, int *proto, int *channels)
{
        COUNT(tuner_ask.gets);
        tuner_ask.coll = coll;
        tuner_ask.bytes = bytes;
        tuner_ask.pipe_ops = pipe_ops;
        if (tuner_ask.algo >= 0) {
                *algo = tuner_ask.algo;
                *proto = tuner_ask.proto;
        }
        *channels = tuner_ask.channels;
        return tuner_ask.fail_get;
}
#else
static int answer(int coll, size_t bytes, int pipe_ops, float **t, int n_algo, int n_proto, int reg,
                  int *channels)
{
        float *table = (float *)t;

        COUNT(tuner_ask.gets);
        tuner_ask.coll = coll;
        tuner_ask.bytes = bytes;
        tuner_ask.pipe_ops = pipe_ops;
        tuner_ask.n_algo = n_algo;
        tuner_ask.n_proto = n_proto;
        tuner_ask.reg = reg;
        for (int a = 0; a < n_algo; a++)
                for (int p = 0; p < n_proto; p++) {
                        tuner_ask.table[a][p] = table[a * n_proto + p];
                        if (tuner_ask.all_off)
                                table[a * n_proto + p] = -1.0f;
                }
        if (tuner_ask.algo >= 0 && table[tuner_ask.algo * n_proto + tuner_ask.proto] != -1.0f)
                table[tuner_ask.algo * n_proto + tuner_ask.proto] = 0.0f;
        *channels = tuner_ask.channels;
        return tuner_ask.fail_get;
}
#endif

#if ABI == 1
static int init(size_t n_ranks, size_t n_nodes, void *log) { return begin(n_ranks, n_nodes); }
static int get(int coll, size_t bytes, int collnet, int nvls, int pipe_ops, int *algo, int *proto,
               int *channels)
{
        return answer(coll, bytes, pipe_ops, algo, proto, channels);
}
static int destroy(void) { return end(); }
#else
static int destroy(void *ctx) { return ctx == &tuner_ask ? end() : 1; }
#if ABI <= 4
static int init(size_t n_ranks, size_t n_nodes, void *log, void **ctx)
{
        *ctx = &tuner_ask;
        return begin(n_ranks, n_nodes);
}
#else
static int init(void **ctx, uint64_t comm, size_t n_ranks, size_t n_nodes, void *log, int *nvl,
                double *constants)
{
        *ctx = &tuner_ask;
        tuner_ask.nvl_domains = nvl[0];
        tuner_ask.nvl_min = nvl[1];
        tuner_ask.nvl_max = nvl[2];
        if (tuner_ask.scale_ring_latency) /* baseLatencies[Ring][*]: the second row of three */
                for (int i = 3; i < 6; i++)
                        constants[i] *= tuner_ask.scale_ring_latency;
        return begin(n_ranks, n_nodes);
}
#endif
#if ABI == 2
static int get(void *ctx, int coll, size_t bytes, int collnet, int nvls, int pipe_ops, int *algo,
               int *proto, int *channels)
{
        return answer(coll, bytes, pipe_ops, algo, proto, channels);
}
#elif ABI == 3
static int get(void *ctx, int coll, size_t bytes, int pipe_ops, float **t, int n_algo, int n_proto,
               int *channels)
{
        return answer(coll, bytes, pipe_ops, t, n_algo, n_proto, -1, channels);
}
#else
static int get(void *ctx, int coll, size_t bytes, int pipe_ops, float **t, int n_algo, int n_proto,
               int reg, int *channels)
{
        return answer(coll, bytes, pipe_ops, t, n_algo, n_proto, reg, channels);
}
#endif
#endif

#if ABI == 6
static int chunk(void *ctx, int coll, size_t bytes, int algo, int proto, int channels,
                 size_t *bytes_of_chunk)
{
        COUNT(tuner_ask.chunks);
        *bytes_of_chunk = 2048;
        return 0;
}
#endif

#define NAME2(v) ncclTunerPlugin_v##v
#define NAME(v)  NAME2(v)
extern const void *const NAME(ABI)[6];
EXPORT const void *const NAME(ABI)[6] = {"check", (void *)init, (void *)get, (void *)destroy,
#if ABI == 6
                                         (void *)chunk
#endif
};
