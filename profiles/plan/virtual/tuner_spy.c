/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tuner plugin that looks and leaves everything as it is: it notes what NCCL tells a tuner - at init and, per
 * collective, the table of predicted times. Given another plugin (job->wrapped) it passes every call on, and notes what
 * that one made of it; the other plugin is looked up as NCCL would do it, newest ABI first, down from the one NCCL
 * itself asked us for.
 *
 * ABI facts (nccl: include/plugin/tuner/tuner_vN.h): v1 is global and has no cost table, v2 adds a context, v3 the
 * table, v4 regBuff, v5 commId, domains and constants at init, v6 getChunkSize.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util.h"
#include "profiles/plan/virtual/virtual.h"

struct nvl_info {
        int domains, min_ranks, max_ranks;
};

struct tuner_v1 {
        const char *name;
        int (*init)(size_t ranks, size_t nodes, void *log);
        int (*get)(int func, size_t bytes, int collnet, int nvls, int pipe, int *algo, int *proto, int *channels);
        int (*destroy)(void);
};
struct tuner_v2 {
        const char *name;
        int (*init)(size_t ranks, size_t nodes, void *log, void **ctx);
        int (*get)(void *ctx, int func, size_t bytes, int collnet, int nvls, int pipe, int *algo, int *proto,
                   int *channels);
        int (*destroy)(void *ctx);
};
struct tuner_v3 {
        const char *name;
        int (*init)(size_t ranks, size_t nodes, void *log, void **ctx);
        int (*get)(void *ctx, int func, size_t bytes, int pipe, float **table, int n_algo, int n_proto, int *channels);
        int (*destroy)(void *ctx);
};
struct tuner_v4 {
        const char *name;
        int (*init)(size_t ranks, size_t nodes, void *log, void **ctx);
        int (*get)(void *ctx, int func, size_t bytes, int pipe, float **table, int n_algo, int n_proto, int reg,
                   int *channels);
        int (*destroy)(void *ctx);
};
struct tuner_v5 {
        const char *name;
        int (*init)(void **ctx, uint64_t comm, size_t ranks, size_t nodes, void *log, struct nvl_info *nvl,
                    double *constants);
        int (*get)(void *ctx, int func, size_t bytes, int pipe, float **table, int n_algo, int n_proto, int reg,
                   int *channels);
        int (*finalize)(void *ctx);
};
struct tuner_v6 {
        const char *name;
        int (*init)(void **ctx, uint64_t comm, size_t ranks, size_t nodes, void *log, struct nvl_info *nvl,
                    double *constants);
        int (*get)(void *ctx, int func, size_t bytes, int pipe, float **table, int n_algo, int n_proto, int reg,
                   int *channels);
        int (*finalize)(void *ctx);
        int (*chunk)(void *ctx, int func, size_t bytes, int algo, int proto, int channels, size_t *chunk);
};

/* The other plugin, looked up once per process. */
static struct {
        int abi; /* 0: none */
        const void *table;
} other;

/* No lower than v2 from v3 on, and v1 only for v1: NCCL's own rules. */
static void find_other(int abi)
{
        void *handle;

        if (other.abi || !plan_job->wrapped[0])
                return;
        handle = dlopen(plan_job->wrapped, RTLD_NOW | RTLD_LOCAL);
        if (!handle) {
                plan_fail("tuner %s cannot be loaded: %s", plan_job->wrapped, dlerror());
                return;
        }
        for (int v = abi; v >= (abi == 1 ? 1 : 2); v--) {
                char symbol[32];

                snprintf(symbol, sizeof symbol, "ncclTunerPlugin_v%d", v);
                other.table = dlsym(handle, symbol);
                if (other.table) {
                        other.abi = v;
                        return;
                }
        }
        plan_fail("tuner %s offers no interface that this NCCL loads (v%d or older)", plan_job->wrapped, abi);
}

static void told(int abi, size_t ranks, size_t nodes, const struct nvl_info *nvl, const double *constants)
{
        plan_job->told_ranks = (int)ranks;
        plan_job->told_nodes = (int)nodes;
        plan_job->nvl_domains = nvl ? nvl->domains : -1;
        plan_job->nvl_min = nvl ? nvl->min_ranks : -1;
        plan_job->nvl_max = nvl ? nvl->max_ranks : -1;
        plan_job->n_constants = constants ? 144 : 0;
        if (constants)
                memcpy(plan_job->constants, constants, sizeof plan_job->constants);
        plan_job->tuner_abi = abi;
}

/* init, v5 form; the older forms leave out what they do not have. */
static int begin(int abi, void **ctx, uint64_t comm, size_t ranks, size_t nodes, void *log, struct nvl_info *nvl,
                 double *constants)
{
        *ctx = NULL;
        told(abi, ranks, nodes, nvl, constants);
        find_other(abi);
        switch (other.abi) {
        case 1: return ((const struct tuner_v1 *)other.table)->init(ranks, nodes, log);
        case 2:
        case 3:
        case 4: return ((const struct tuner_v2 *)other.table)->init(ranks, nodes, log, ctx);
        case 5:
        case 6: return ((const struct tuner_v5 *)other.table)->init(ctx, comm, ranks, nodes, log, nvl, constants);
        }
        return 0;
}

static void note_table(float to[PLAN_ALGOS][PLAN_PROTOS], const float *table, int n_algo, int n_proto)
{
        for (int a = 0; a < n_algo && a < PLAN_ALGOS; a++) {
                for (int p = 0; p < n_proto && p < PLAN_PROTOS; p++)
                        to[a][p] = table[a * n_proto + p];
        }
}

static struct plan_row *row_now(void)
{
        return plan_seen ? plan_seen->row : NULL;
}

/* A v2 plugin names a cell; NCCL's shim makes it the cheapest unless it is not available (tuner_v2.cc). */
static int ask_v2(void *ctx, int func, size_t bytes, int pipe, float *table, int n_algo, int n_proto, int *channels)
{
        int algo = -1, proto = -1;
        int nvls = n_algo > 5 && (table[4 * n_proto + 2] != -1 || table[5 * n_proto + 2] != -1);
        int collnet = n_algo > 3 && table[3 * n_proto + 2] != -1;
        int rc = ((const struct tuner_v2 *)other.table)
                         ->get(ctx, func, bytes, collnet, nvls, pipe, &algo, &proto, channels);

        if (rc == 0 && algo >= 0 && algo < n_algo && proto >= 0 && proto < n_proto &&
            table[algo * n_proto + proto] != -1)
                table[algo * n_proto + proto] = 0;
        return rc;
}

/* getCollInfo, v4 form (v3 passes reg = 0). */
static int get(void *ctx, int func, size_t bytes, int pipe, float **cost, int n_algo, int n_proto, int reg,
               int *channels)
{
        float *table = (float *)cost;
        struct plan_row *row = row_now();
        int rc = 0;

        if (row) {
                row->told = bytes;
                row->n_algo = (uint8_t)(n_algo < PLAN_ALGOS ? n_algo : PLAN_ALGOS);
                row->n_proto = (uint8_t)(n_proto < PLAN_PROTOS ? n_proto : PLAN_PROTOS);
                row->pipe_ops = pipe;
                row->reg_buff = reg;
                note_table(row->cost, table, n_algo, n_proto);
        }
        switch (other.abi) {
        case 2: rc = ask_v2(ctx, func, bytes, pipe, table, n_algo, n_proto, channels); break;
        case 3:
                rc = ((const struct tuner_v3 *)other.table)
                             ->get(ctx, func, bytes, pipe, cost, n_algo, n_proto, channels);
                break;
        case 4:
        case 5:
        case 6:
                rc = ((const struct tuner_v4 *)other.table)
                             ->get(ctx, func, bytes, pipe, cost, n_algo, n_proto, reg, channels);
                break;
        }
        if (row) {
                note_table(row->cost_after, table, n_algo, n_proto);
                row->tuner_channels = *channels;
        }
        return rc;
}

/* getCollInfo without a table, v2 form (v1 has no context). */
static int get_v2(void *ctx, int func, size_t bytes, int collnet, int nvls, int pipe, int *algo, int *proto,
                  int *channels)
{
        struct plan_row *row = row_now();
        int rc = 0;

        if (other.abi == 1)
                rc = ((const struct tuner_v1 *)other.table)
                             ->get(func, bytes, collnet, nvls, pipe, algo, proto, channels);
        else if (other.abi == 2)
                rc = ((const struct tuner_v2 *)other.table)
                             ->get(ctx, func, bytes, collnet, nvls, pipe, algo, proto, channels);
        if (plan_seen && rc == 0 && *algo >= 0 && *proto >= 0) { /* both set: NCCL runs them unchecked */
                plan_seen->algo = *algo;
                plan_seen->proto = *proto;
        }
        if (row) {
                row->told = bytes;
                row->pipe_ops = pipe;
                row->tuner_channels = *channels;
        }
        return rc;
}

static int get_v1(int func, size_t bytes, int collnet, int nvls, int pipe, int *algo, int *proto, int *channels)
{
        return get_v2(NULL, func, bytes, collnet, nvls, pipe, algo, proto, channels);
}

static int get_v3(void *ctx, int func, size_t bytes, int pipe, float **cost, int n_algo, int n_proto, int *channels)
{
        return get(ctx, func, bytes, pipe, cost, n_algo, n_proto, 0, channels);
}

static int get_chunk(void *ctx, int func, size_t bytes, int algo, int proto, int channels, size_t *chunk)
{
        const struct tuner_v6 *t = other.table;

        return other.abi == 6 && t->chunk ? t->chunk(ctx, func, bytes, algo, proto, channels, chunk) : 0;
}

static int init_v1(size_t ranks, size_t nodes, void *log)
{
        void *ctx;

        return begin(1, &ctx, 0, ranks, nodes, log, NULL, NULL);
}

#define INIT_OLD(n)                                                             \
        static int init_v##n(size_t ranks, size_t nodes, void *log, void **ctx) \
        {                                                                       \
                return begin(n, ctx, 0, ranks, nodes, log, NULL, NULL);         \
        }
INIT_OLD(2)
INIT_OLD(3)
INIT_OLD(4)

#define INIT_NEW(n)                                                                                                  \
        static int init_v##n(void **ctx, uint64_t comm, size_t ranks, size_t nodes, void *log, struct nvl_info *nvl, \
                             double *constants)                                                                      \
        {                                                                                                            \
                return begin(n, ctx, comm, ranks, nodes, log, nvl, constants);                                       \
        }
INIT_NEW(5)
INIT_NEW(6)

static int end_v1(void)
{
        return other.abi == 1 ? ((const struct tuner_v1 *)other.table)->destroy() : 0;
}

static int end(void *ctx)
{
        return other.abi >= 2 ? ((const struct tuner_v2 *)other.table)->destroy(ctx)
                              : 0; /* the 4th member in v2 to v6 */
}

#define TUNER(n, ...)                                        \
        extern const struct tuner_v##n ncclTunerPlugin_v##n; \
        CAPO_EXPORT const struct tuner_v##n ncclTunerPlugin_v##n = {"capo-plan-spy", __VA_ARGS__}
TUNER(1, init_v1, get_v1, end_v1);
TUNER(2, init_v2, get_v2, end);
TUNER(3, init_v3, get_v3, end);
TUNER(4, init_v4, get, end);
TUNER(5, init_v5, get, end);
TUNER(6, init_v6, get, end, get_chunk);
