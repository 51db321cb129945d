/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin, opened and asked as NCCL does it, through any version of its interface. */
#pragma once

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tuner/plugin.h"
#include "tuner/plugin_versions.h"

enum { BROADCAST, REDUCE, ALLGATHER, REDUCESCATTER, ALLREDUCE };
enum { TREE, RING, COLLNET_DIRECT, COLLNET_CHAIN, NVLS, NVLS_TREE, PAT };
enum { LL, LL128, SIMPLE };

struct plugin {
        void *library;
        int abi;
        const void *object;
};

struct answer {
        int algo, proto,
                channels; /* what NCCL would take: the smallest entry; channels 0: its own */
        float table[CAPO_NCCL_ALGOS][CAPO_NCCL_PROTOS];
        bool touched;
};

static char last_log[2048];

static void __attribute__((unused))
log_line(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(last_log, sizeof last_log, format, args);
        va_end(args);
}

static struct plugin __attribute__((unused)) plugin_open_file(const char *path, int abi)
{
        struct plugin p = {.library = dlopen(path, RTLD_NOW | RTLD_LOCAL), .abi = abi};
        char symbol[32];

        cr_assert_not_null(p.library, "%s", dlerror());
        snprintf(symbol, sizeof symbol, "ncclTunerPlugin_v%d", abi);
        p.object = dlsym(p.library, symbol);
        cr_assert_not_null(p.object, "%s", symbol);
        return p;
}

static struct plugin __attribute__((unused)) plugin_open(int abi)
{
        return plugin_open_file(getenv("CAPO_TEST_PLUGIN"), abi);
}

/* @min, @max: ranks on the smallest and largest node, reported from v5 on. */
static capo_nccl_result __attribute__((unused))
plugin_init(const struct plugin *p, size_t ranks, size_t nodes, int min, int max,
            struct capo_nccl_constants *constants, void **context)
{
        static struct capo_nccl_constants scratch;
        const struct capo_nvl_info nvl = {(int)nodes, min, max};
        const struct capo_tuner_info info = {.abi = p->abi,
                                             .comm_id = 77,
                                             .n_ranks = ranks,
                                             .n_nodes = nodes,
                                             .nvl = &nvl,
                                             .constants = constants ? constants : &scratch,
                                             .log = log_line};

        *context = NULL;
        return capo_tuner_abis[p->abi - 1]->open(p->object, &info, context);
}

static void __attribute__((unused)) plugin_finish(const struct plugin *p, void *context)
{
        cr_expect_eq(capo_tuner_abis[p->abi - 1]->close(p->object, context), 0);
}

/* A table as NCCL fills it for an all-reduce on NVLink machines: PAT and CollNet absent. */
static void __attribute__((unused)) table_fill(float table[CAPO_NCCL_ALGOS][CAPO_NCCL_PROTOS])
{
        for (int a = 0; a < CAPO_NCCL_ALGOS; a++) {
                for (int p = 0; p < CAPO_NCCL_PROTOS; p++) {
                        bool there = a == TREE || a == RING ||
                                     ((a == NVLS || a == NVLS_TREE) && p == SIMPLE);

                        table[a][p] = there ? 20.5f + 7 * (float)a - 3 * (float)p : -1.0f;
                }
        }
}

/* NCCL's own choice from a table (enqueue.cc, topoGetAlgoInfo): smallest that is not negative, the
 * first of equals. */
static void __attribute__((unused))
table_pick(const float *table, int n_algos, int n_protos, int *algo, int *proto)
{
        float min = INFINITY;

        *algo = *proto = -1;
        for (int a = 0; a < n_algos; a++) {
                for (int p = 0; p < n_protos; p++) {
                        float v = table[a * n_protos + p];

                        if (v != -1.0f && v >= 0 && v < min) {
                                min = v;
                                *algo = a;
                                *proto = p;
                        }
                }
        }
}

/* Ask; @out->table must hold the table to offer (v3 on). For v1 and v2: algo, proto -1 when the
 * plugin did not answer.
 */
static void __attribute__((unused)) plugin_ask(const struct plugin *p, void *context, int func,
                                               size_t bytes, int pipe, int reg, struct answer *out)
{
        float before[CAPO_NCCL_ALGOS][CAPO_NCCL_PROTOS];
        const struct capo_tuner_abi *abi = capo_tuner_abis[p->abi - 1];
        capo_nccl_result r;

        memcpy(before, out->table, sizeof before);
        out->channels = 0;
        out->algo = out->proto = -1;
        r = abi->name ? abi->name(p->object, context, func, bytes, 0, 1, pipe, &out->algo,
                                  &out->proto, &out->channels)
                      : abi->mark(p->object, context, func, bytes, pipe, &out->table[0][0],
                                  CAPO_NCCL_ALGOS, CAPO_NCCL_PROTOS, reg, &out->channels);
        cr_assert_eq(r, CAPO_NCCL_SUCCESS);
        out->touched = out->channels || memcmp(before, out->table, sizeof before) ||
                       (p->abi < 3 && out->algo >= 0);
        if (p->abi >= 3)
                table_pick(&out->table[0][0], CAPO_NCCL_ALGOS, CAPO_NCCL_PROTOS, &out->algo,
                           &out->proto);
}

/* A file with @text that goes away with the process. Returns its path. */
static const char *__attribute__((unused)) file_with(const char *text)
{
        static char path[64];
        int fd = memfd_create("profile", 0);

        cr_assert_geq(fd, 0);
        cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        return path;
}

static void __attribute__((unused)) use_profile(const char *text)
{
        setenv("CAPO_PROFILE", file_with(text), 1);
}

#define ROWS(coll, rows) "\"" coll "\": [" rows "]"
#define ROW(upto, algo, proto) \
        "{\"upto\": \"" upto "\", \"algo\": \"" algo "\", \"proto\": \"" proto "\"}, "
#define ROWC(upto, algo, proto, channels)                                      \
        "{\"upto\": \"" upto "\", \"algo\": \"" algo "\", \"proto\": \"" proto \
        "\", \"channels\": " #channels "}, "
#define LEAVE_REST   "{\"upto\": \"max\", \"leave\": true}"
#define RULES(rules) "{\"capo_profile\": 1, \"name\": \"test\", \"rules\": [" rules "]}"
