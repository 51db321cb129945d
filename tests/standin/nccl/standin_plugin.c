/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuner plugins, found, probed and called as the NCCL release we say we are would do it
 * (CAPO_STANDIN_NCCL_VERSION). Layouts: nccl/src/include/plugin/tuner/tuner_v2.h .. tuner_v6.h
 * of 2.30.7 and nccl_tuner.h of 2.19.1 (v1).
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "std.h"

typedef void (*logger)(int level, unsigned long flags, const char *file, int line, const char *fmt,
                       ...);

struct tuner_v1 {
        const char *name;
        int (*init)(size_t n_ranks, size_t n_nodes, logger log);
        int (*get)(int fn, size_t bytes, int collnet, int nvls, int pipe_ops, int *algo, int *proto,
                   int *channels);
        int (*destroy)(void);
};
struct tuner_v2 {
        const char *name;
        int (*init)(size_t n_ranks, size_t n_nodes, logger log, void **ctx);
        int (*get)(void *ctx, int fn, size_t bytes, int collnet, int nvls, int pipe_ops, int *algo,
                   int *proto, int *channels);
        int (*destroy)(void *ctx);
};
struct tuner_v3 {
        const char *name;
        int (*init)(size_t n_ranks, size_t n_nodes, logger log, void **ctx);
        int (*get)(void *ctx, int fn, size_t bytes, int pipe_ops, float **table, int n_algo,
                   int n_proto, int *channels);
        int (*destroy)(void *ctx);
};
struct tuner_v4 {
        const char *name;
        int (*init)(size_t n_ranks, size_t n_nodes, logger log, void **ctx);
        int (*get)(void *ctx, int fn, size_t bytes, int pipe_ops, float **table, int n_algo,
                   int n_proto, int reg, int *channels);
        int (*destroy)(void *ctx);
};
struct tuner_v6 { /* v5 is the same without chunk */
        const char *name;
        int (*init)(void **ctx, uint64_t comm, size_t n_ranks, size_t n_nodes, logger log,
                    struct nvl_domain *nvl, struct tuner_constants *constants);
        int (*get)(void *ctx, int fn, size_t bytes, int pipe_ops, float **table, int n_algo,
                   int n_proto, int reg, int *channels);
        int (*finalize)(void *ctx);
        int (*chunk)(void *ctx, int fn, size_t bytes, int algo, int proto, int channels,
                     size_t *chunk);
};

static struct {
        pthread_mutex_t lock;
        int state; /* 0 not tried, 1 loaded, -1 failed for good */
        int version, refs;
        void *lib, *plugin;
} tuner = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *try_open(const char *path, int flags)
{
        void *lib = dlopen(path, flags);

        if (!lib)
                INFO(SUB_INIT, "plugin: %s", dlerror());
        return lib;
}

void *plugin_load(const char *env, const char *prefix, char *found, size_t room)
{
        int version = std_version(), flags = (version >= 22600 ? RTLD_NOW : RTLD_LAZY) | RTLD_LOCAL;
        bool is_tuner = !strcmp(prefix, "libnccl-tuner");
        const char *value = getenv(env);
        size_t n;
        void *lib;

        if (!value || !*value) {
                if (is_tuner && version < 22100)
                        return NULL;
                snprintf(found, room, "%s.so", prefix);
                return dlopen(found, flags);
        }
        n = strlen(value);
        if (version >= 22803 && !strcasecmp(value, "none"))
                return NULL;
        snprintf(found, room, "%s", value);
        if (version >= 22203 && !strncasecmp(value, "STATIC_PLUGIN", n))
                return dlopen(NULL, flags);
        if (version == 22703 && strchr(value, '/')) /* as the real one: no path, and no word */
                return NULL;
        lib = try_open(value, flags);
        if (lib || (is_tuner && version < 22100))
                return lib;
        if (version >= 22703 && (strchr(value, '/') || (n > 6 && !strncmp(value, "lib", 3) &&
                                                        !strcmp(value + n - 3, ".so"))))
                return NULL;
        snprintf(found, room, "%s-%s.so", prefix, value);
        return try_open(found, flags);
}

static void probe(void)
{
        static const struct {
                int from, to; /* releases that look for it */
                const char *symbol;
        } rows[] = {
                {23003, 99999, "ncclTunerPlugin_v6"}, {22803, 99999, "ncclTunerPlugin_v5"},
                {22403, 99999, "ncclTunerPlugin_v4"}, {22203, 99999, "ncclTunerPlugin_v3"},
                {22100, 99999, "ncclTunerPlugin_v2"}, {21901, 22005, "ncclTunerPlugin_v1"},
        };
        char path[1024] = "";

        tuner.state = -1;
        if (std_version() < 21901)
                return;
        tuner.lib = plugin_load("NCCL_TUNER_PLUGIN", "libnccl-tuner", path, sizeof path);
        if (!tuner.lib)
                return;
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                if (std_version() < rows[i].from || std_version() > rows[i].to)
                        continue;
                tuner.plugin = dlsym(tuner.lib, rows[i].symbol);
                if (tuner.plugin) {
                        tuner.version = rows[i].symbol[strlen(rows[i].symbol) - 1] - '0';
                        tuner.state = 1;
                        INFO(SUB_INIT | SUB_TUNING, "TUNER/Plugin: Using %s (v%d)",
                             *(const char **)tuner.plugin, tuner.version);
                        return;
                }
        }
        INFO(SUB_INIT | SUB_TUNING, "TUNER/Plugin: no usable symbol in %s", path);
        dlclose(tuner.lib);
}

ncclResult_t tuner_open(struct comm *comm)
{
        struct nvl_domain nvl = {comm->n_nodes, comm->min_local, comm->max_local};
        size_t n = (size_t)comm->n, nodes = (size_t)comm->n_nodes;
        int r = 0;

        pthread_mutex_lock(&tuner.lock);
        if (!tuner.state) {
                probe();
                comm->tuner_loader = tuner.state > 0;
        }
        if (tuner.state > 0)
                tuner.refs++;
        pthread_mutex_unlock(&tuner.lock);
        if (tuner.state < 0)
                return ncclSuccess;
        switch (tuner.version) {
        case 1: r = ((struct tuner_v1 *)tuner.plugin)->init(n, nodes, std_log); break;
        case 2:
        case 3:
        case 4:
                r = ((struct tuner_v2 *)tuner.plugin)->init(n, nodes, std_log, &comm->tuner_ctx);
                break;
        default:
                r = ((struct tuner_v6 *)tuner.plugin)
                            ->init(&comm->tuner_ctx, comm->hash, n, nodes, std_log, &nvl,
                                   &comm->constants);
        }
        comm->tuned = !r;
        return r ? fail(comm, (ncclResult_t)r, "the tuner plugin's init failed") : ncclSuccess;
}

/* NCCL counts every communicator but lets only the one that loaded go down again (2.22 to 2.30):
 * with one, it is unloaded. */
void tuner_close(struct comm *comm)
{
        if (!comm->tuned)
                return;
        comm->tuned = false;
        switch (tuner.version) {
        case 1: ((struct tuner_v1 *)tuner.plugin)->destroy(); break;
        case 2:
        case 3:
        case 4: ((struct tuner_v2 *)tuner.plugin)->destroy(comm->tuner_ctx); break;
        default: ((struct tuner_v6 *)tuner.plugin)->finalize(comm->tuner_ctx);
        }
        pthread_mutex_lock(&tuner.lock);
        if (comm->tuner_loader && --tuner.refs == 0) {
                dlclose(tuner.lib);
                tuner.state = 0;
        }
        pthread_mutex_unlock(&tuner.lock);
}

bool tuner_ask(struct comm *comm, enum func fn, size_t bytes, int pipe_ops, float *table, int reg,
               int *channels, ncclResult_t *result)
{
        int version = std_version(), n_algo = version >= 22304 ? 7 : 6, algo = -1, proto = -1, r;
        void *p = tuner.plugin, *ctx = comm->tuner_ctx;

        switch (tuner.version) {
        case 1: r = ((struct tuner_v1 *)p)->get(fn, bytes, 0, 0, 1, &algo, &proto, channels); break;
        case 2:
                r = ((struct tuner_v2 *)p)
                            ->get(ctx, fn, bytes, 0, 0, pipe_ops, &algo, &proto, channels);
                break;
        case 3:
                r = ((struct tuner_v3 *)p)
                            ->get(ctx, fn, bytes, pipe_ops, (float **)table, n_algo, N_PROTOS,
                                  channels);
                break;
        case 4:
                r = ((struct tuner_v4 *)p)
                            ->get(ctx, fn, bytes, pipe_ops, (float **)table, n_algo, N_PROTOS, reg,
                                  channels);
                break;
        default:
                r = ((struct tuner_v6 *)p)
                            ->get(ctx, fn, bytes, pipe_ops, (float **)table, n_algo, N_PROTOS, reg,
                                  channels);
        }
        if (r) {
                *result = fail(comm, (ncclResult_t)r,
                               "the tuner plugin failed: %s fails with it, as in NCCL",
                               func_names[fn]);
                return false;
        }
        if (tuner.version <= 2 && algo >= 0 && proto >= 0 && algo < N_ALGOS && proto < N_PROTOS) {
                float *cell = &table[algo * N_PROTOS + proto];

                if (*cell != -1.0f ||
                    version < 22203) /* before 2.22 the answer was used unchecked */
                        *cell = 0.0f;
        }
        return true;
}

size_t tuner_chunk(struct comm *comm, enum func fn, size_t bytes, int algo, int proto, size_t chunk,
                   ncclResult_t *result)
{
        struct tuner_v6 *p = tuner.plugin;
        int r;

        if (tuner.version < 6 || !p->chunk)
                return chunk;
        r = p->chunk(comm->tuner_ctx, fn, bytes, algo, proto, 1, &chunk);
        if (r)
                *result = fail(comm, (ncclResult_t)r, "the tuner plugin's getChunkSize failed");
        return chunk;
}
