/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an NCCL or a plugin hands over that was built by somebody else: structs that say their own
 * size, in memory that ends there; events and questions of every version of the plugin interfaces;
 * answers of a plugin that capo stands in front of. The pointers in them are to texts, as long as
 * they say; of no other pointer may anything be read.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "capo/kernels.h"
#include "capo/call_ids.h"
#include "capo/env.h"
#include "capo/seam.h"
#include "shim/nccl/comm.h"
#include "shim/record/recorder.h"
#include "tests/fuzz/fuzz.h"
#include "tuner/nccl_profiler.h"
#include "tuner/other.h"
#include "tuner/process.h"
#include "tuner/plugin_versions.h"

/* @size bytes of the input in memory of their own, zeros where it has fewer. */
static void *taken(struct fuzz_bytes *b, size_t size)
{
        uint8_t *p = calloc(1, size ? size : 1);
        size_t n = size < b->left ? size : b->left;

        must(p);
        if (n)
                memcpy(p, b->at, n);
        b->at += n;
        b->left -= n;
        return p;
}

/* Where @at lies within the struct of @size bytes, it points to @text or nowhere. */
static void point(void *p, size_t size, size_t at, char *text)
{
        if (at + sizeof text <= size)
                memcpy((char *)p + at, &text, sizeof text);
}

/* ---- config structs ---- */

enum { HEAD = 16 }; /* size, magic, version: every release has these */

static void *config(struct fuzz_bytes *b, size_t most, size_t text_at, char **text)
{
        unsigned how = (unsigned)fuzz_number(b, 1);
        size_t size = HEAD + fuzz_number(b, 1) % (most + 16),
               stated_size = how & 1 ? fuzz_number(b, 8) % (size + 1) : size;
        unsigned magic = how & 2 ? (unsigned)fuzz_number(b, 4) : CAPO_NCCL_CONFIG_MAGIC;
        void *p;

        *text = how & 4 ? NULL : fuzz_word(b, 0);
        p = taken(b, size);
        memcpy(p, &stated_size, sizeof stated_size);
        memcpy((char *)p + offsetof(ncclConfig_t, magic), &magic, sizeof magic);
        point(p, size, text_at, *text);
        return p;
}

static void comm_config(struct fuzz_bytes *b)
{
        struct capo_creation creation = {0};
        char *text;
        void *p = config(b, sizeof(ncclConfig_t), offsetof(ncclConfig_t, commName), &text);

        capo_comm_config(&creation, p);
        must(memchr(creation.name, 0, sizeof creation.name));
        free(p);
        free(text);
}

static void coll_config(struct fuzz_bytes *b)
{
        static struct capo_tls t;
        char *text, line[400];
        void *p = config(b, sizeof(ncclCollConfig_t), offsetof(ncclCollConfig_t, algSelection),
                         &text);
        unsigned n, room = 1 + (unsigned)fuzz_number(b, 2) % sizeof line;

        t.config = NULL;
        capo_config_take(&t, p);
        n = capo_config_text(p, line, room);
        must(n < room || !n);
        must(!n || (t.config && line[n - 1] == '\n'));
        for (unsigned i = 0; i + 1 < n; i++)
                must(line[i] >= ' ' && line[i] <= '~');
        free(p);
        free(text);
}

/* ---- events of a profiler ---- */

static const struct capo_seam *recorder; /* of libcapo.so; the fuzzer's own stands in its place */

static struct { /* of the event that is begun */
        uint64_t type, tag;
        unsigned version;
} begun;

static void ran(const struct capo_seam_ran *r)
{
        bool copied = r->algo_proto == CAPO_KERNEL_COPY_ENGINE;

        must(r->call < CAPO_CALLS && (copied || begun.type == CAPO_EVENT_COLL));
        must(begun.type != CAPO_EVENT_CE_COLL || (copied && !r->channels));
        must(begun.version < 7 || (r->tagged && r->tag == begun.tag));
}

static void kernel(const struct capo_seam_kernel *k)
{
        must(k->begin <= k->end && k->nth &&
             (!k->moved || (k->begin <= k->moved && k->moved <= k->end)));
}

static const struct capo_seam listener = {.ran = ran, .kernel = kernel};

#define EVENT(v)                                                                             \
        {                                                                                    \
                sizeof(struct capo_event_v##v), offsetof(struct capo_event_v##v, coll.func), \
                        offsetof(struct capo_event_v##v, coll.algo),                         \
                        offsetof(struct capo_event_v##v, coll.proto)                         \
        }
static const struct {
        size_t size, func, algo, proto;
} events[CAPO_PROFILER_ABI_NEWEST] = {{sizeof(struct capo_event_v1), 0, 0, 0},
                                      EVENT(2),
                                      EVENT(3),
                                      EVENT(4),
                                      EVENT(5),
                                      EVENT(5),
                                      EVENT(7)};

static void profiler(struct fuzz_bytes *b)
{
        unsigned v = (unsigned)fuzz_number(b, 1) % CAPO_PROFILER_ABI_NEWEST;
        const struct capo_profiler_abi *abi = capo_profiler_abis[v];
        const struct capo_profiler_v5 *plugin = abi->own; /* but for init, all versions are alike */
        const struct capo_profiler_info info = {
                .abi = abi->version, .comm_name = "dp", .comm_hash = 7, .n_nodes = 1, .n_ranks = 2};
        void *context = NULL, *handles[4] = {NULL};
        int mask = 0;

        capo_seam = &listener;
        must(abi->init(plugin, &info, &context, &mask) == CAPO_NCCL_SUCCESS);
        must(mask & CAPO_EVENT_COLL);
        for (unsigned i = 0; i < 8 && b->left; i++) {
                static const uint16_t kinds[] = {CAPO_EVENT_COLL,    CAPO_EVENT_KERNEL,
                                                 CAPO_EVENT_GROUP,   CAPO_EVENT_COLL,
                                                 CAPO_EVENT_COLL,    CAPO_EVENT_KERNEL_PHASE,
                                                 CAPO_EVENT_CE_COLL, CAPO_EVENT_KERNEL};
                unsigned how = (unsigned)fuzz_number(b, 1),
                         kind = kinds[(how & 3) | (how >> 5 & 4)];
                char *func = fuzz_word(b, 0), *algo = fuzz_word(b, 0), *proto = fuzz_word(b, 0);
                void *event = taken(b, events[v].size);
                uint64_t stamp = fuzz_number(b, 8);

                begun.type = v < 4 ? (uint8_t)kind : kind;
                begun.version = v + 1;
                memcpy(event, &begun.type, v < 4 ? 1 : 8);
                point(event, events[v].size, offsetof(struct capo_event_v5, parent),
                      how & 4 ? handles[how >> 3 & 3] : NULL);
                if (v == 6)
                        memcpy(&begun.tag,
                               (char *)event + (kind == CAPO_EVENT_CE_COLL
                                                        ? offsetof(struct capo_event_v7, ce.tag)
                                                        : offsetof(struct capo_event_v7, coll.tag)),
                               sizeof begun.tag);
                if (v && (kind == CAPO_EVENT_COLL || kind == CAPO_EVENT_CE_COLL))
                        point(event, events[v].size, events[v].func, func);
                if (v && kind == CAPO_EVENT_COLL) {
                        point(event, events[v].size, events[v].algo,
                              v == 6 && how & 16 ? NULL : algo);
                        point(event, events[v].size, events[v].proto, proto);
                        if (v == 6)
                                point(event, events[v].size,
                                      offsetof(struct capo_event_v7, coll.kernel_variant), algo);
                }
                must(plugin->start_event(context, &handles[i & 3], event) == CAPO_NCCL_SUCCESS);
                plugin->record_state(handles[i & 3], how & 32 ? CAPO_STATE_KERNEL_STOP : 1, &stamp);
                if (how & 64)
                        plugin->stop_event(handles[i & 3]);
                free(event);
                free(func);
                free(algo);
                free(proto);
        }
        plugin->finalize(context);
        capo_seam = recorder;
}

/* ---- questions to a tuner ---- */

static void profile_in_force(void)
{
        static const char text[] =
                "{\"capo_profile\": 1, \"rules\": ["
                "{\"when\": {\"ranks\": \"8\", \"link\": \"nvlink\"}, \"allreduce\": [{\"upto\": 4096, \"algo\": \"tree\", "
                "\"proto\": \"ll\"}, {\"upto\": \"max\", \"algo\": \"nvls\", \"proto\": \"simple\", \"channels\": 8}]}, "
                "{\"when\": {}, \"allreduce\": [{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"ll128\"}], "
                "\"allgather\": [{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"simple\"}]}]}";
        struct capo_fault fault;

        must(capo_profile_parse(text, sizeof text - 1, "fuzz", &capo_process.profile, &fault) == 0);
        capo_process.ready = true;
        setenv(CAPO_ENV_profiler, "on", 1);
        setenv(CAPO_ENV_kernel_time, "1", 1);
        setenv(CAPO_ENV_tuner, "only", 1);
        setenv(CAPO_ENV_quiet, "1", 1);
}

static void questions(const struct capo_tuner_abi *abi, const void *plugin, void *context,
                      struct fuzz_bytes *b)
{
        for (unsigned i = 0; i < 4 && b->left; i++) {
                int func = (int)(int8_t)fuzz_number(b, 1), n_algos = (int)fuzz_number(b, 1) % 9;
                int n_protos = (int)fuzz_number(b, 1) % 5, algo = -1, proto = -1, channels = 0;
                size_t bytes = fuzz_number(b, 8), cells = (size_t)(n_algos * n_protos),
                       chunk = bytes;
                float *table = taken(b, cells * sizeof *table),
                      *before = malloc(cells * sizeof *table + 1);

                must(before);
                memcpy(before, table, cells * sizeof *table);
                if (abi->name) {
                        must(abi->name(plugin, context, func, bytes, i & 1, i & 2, 1, &algo, &proto,
                                       &channels) == 0);
                        must(algo >= -1 && algo < CAPO_NCCL_ALGOS && proto >= -1 &&
                             proto < CAPO_NCCL_PROTOS);
                } else {
                        must(abi->mark(plugin, context, func, bytes, 1, table, n_algos, n_protos, 0,
                                       &channels) == 0);
                }
                if (abi->chunk)
                        must(abi->chunk(plugin, context, func, bytes, algo, proto, channels,
                                        &chunk) == 0);
                must(channels >= 0 && channels <= CAPO_CHANNELS_MAX && chunk == bytes);
                for (size_t k = 0; k < cells; k++) /* what NCCL does not offer stays so */
                        must(before[k] >= 0 || !memcmp(&before[k], &table[k], sizeof *table));
                free(table);
                free(before);
        }
}

static void tuner(struct fuzz_bytes *b)
{
        const struct capo_tuner_abi *abi =
                capo_tuner_abis[fuzz_number(b, 1) % CAPO_TUNER_ABI_NEWEST];
        struct capo_nccl_constants *constants = taken(b, sizeof *constants);
        struct capo_nvl_info *nvl = taken(b, sizeof *nvl);
        const struct capo_tuner_info info = {.abi = abi->version,
                                             .n_ranks = fuzz_number(b, 4),
                                             .n_nodes = fuzz_number(b, 4),
                                             .comm_id = fuzz_number(b, 1),
                                             .nvl = nvl,
                                             .constants = constants};
        void *context = NULL;

        if (abi->open(abi->own, &info, &context) == CAPO_NCCL_SUCCESS) {
                questions(abi, abi->own, context, b);
                must(abi->close(abi->own, context) == CAPO_NCCL_SUCCESS);
        }
        free(constants);
        free(nvl);
}

/* ---- answers of another tuner ---- */

static int answer[4]; /* result, algorithm, protocol, channels */

static capo_nccl_result their_name(void *context, int func, size_t bytes, int collnet, int nvls,
                                   int pipe_ops, int *algo, int *proto, int *channels)
{
        *algo = answer[1];
        *proto = answer[2];
        *channels = answer[3];
        return answer[0];
}

static const struct capo_tuner_v2 their_plugin = {.name = "theirs", .get_coll_info = their_name};

static void other(struct fuzz_bytes *b)
{
        struct capo_other o = {capo_tuner_abis[1], &their_plugin, NULL};
        int n_algos, n_protos, channels = 0;
        float *table;

        for (unsigned i = 0; i < N_ELEMENTS(answer); i++)
                answer[i] = (int)(int16_t)fuzz_number(b, 2);
        n_algos = (int)fuzz_number(b, 1) % 9;
        n_protos = (int)fuzz_number(b, 1) % 5;
        table = taken(b, (size_t)(n_algos * n_protos) * sizeof *table);
        must(capo_other_mark(&o, 0, 1, 1, table, n_algos, n_protos, 0, &channels) == answer[0]);
        free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static void (*const kinds[])(struct fuzz_bytes * b) = {comm_config, coll_config, profiler,
                                                               tuner, other};
        struct fuzz_bytes b = {data, size};

        if (!capo_process.ready) {
                profile_in_force();
                recorder = capo_seam;
        }
        kinds[fuzz_number(&b, 1) % N_ELEMENTS(kinds)](&b);
        return 0;
}
