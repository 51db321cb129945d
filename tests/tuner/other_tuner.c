/* SPDX-License-Identifier: Apache-2.0 */
/* Somebody else's plugin, built once per version of the interface (OTHER_VERSION), to be chained to. */
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "tuner/abi/nccl_profiler.h"

#define REDUCE 1
static int opened, events, parent_right;

CAPO_EXPORT int others_open(void);
CAPO_EXPORT int others_events(void);
CAPO_EXPORT int others_parent_right(void);

int others_open(void)
{
        return opened;
}

int others_events(void)
{
        return events;
}

int others_parent_right(void)
{
        return parent_right;
}

static capo_nccl_result opens(size_t n_ranks)
{
        if (getenv("OTHER_TUNER_REFUSES"))
                return CAPO_NCCL_SYSTEM_ERROR;
        opened += n_ranks == 8;
        return 0;
}

#if OTHER_VERSION == 1
static capo_nccl_result init(size_t n_ranks, size_t n_nodes, capo_nccl_log log)
{
        return opens(n_ranks);
}

static capo_nccl_result destroy(void)
{
        opened--;
        return 0;
}
#else
#if OTHER_VERSION >= 5
static capo_nccl_result init(void **context, uint64_t id, size_t n_ranks, size_t n_nodes, capo_nccl_log log,
                             struct capo_nvl_info *nvl, struct capo_nccl_constants *constants)
{
        if (id != 77 || !log || nvl->min_ranks != 4 || !constants)
                return CAPO_NCCL_INVALID_USAGE;
#else
static capo_nccl_result init(size_t n_ranks, size_t n_nodes, capo_nccl_log log, void **context)
{
#endif
        *context = &opened;
        return opens(n_ranks);
}

static capo_nccl_result destroy(void *context)
{
        opened -= context == &opened;
        return 0;
}
#endif

#if OTHER_VERSION <= 2
#if OTHER_VERSION == 2
static capo_nccl_result ask(void *context, int func, size_t bytes, int collnet, int nvls, int pipe, int *algo,
                            int *proto, int *channels)
#else
static capo_nccl_result ask(int func, size_t bytes, int collnet, int nvls, int pipe, int *algo, int *proto,
                            int *channels)
#endif
{
        if (func == REDUCE && nvls && !collnet) {
                *algo = *proto = 0;
                *channels = OTHER_VERSION;
        }
        return 0;
}
#else
#if OTHER_VERSION == 3
static capo_nccl_result ask(void *context, int func, size_t bytes, int pipe, float **table, int n_algos, int n_protos,
                            int *channels)
#else
static capo_nccl_result ask(void *context, int func, size_t bytes, int pipe, float **table, int n_algos, int n_protos,
                            int reg, int *channels)
#endif
{
        if (func == REDUCE && context == &opened && n_algos == 7 && n_protos == 3) {
                if (((float *)table)[0] >= 0)
                        ((float *)table)[0] = 0;
                *channels = OTHER_VERSION;
        }
        return 0;
}
#endif

#if OTHER_VERSION == 6
static capo_nccl_result chunk_size(void *context, int func, size_t bytes, int algo, int proto, int channels,
                                   size_t *chunk)
{
        *chunk = (size_t)atol(getenv("OTHER_TUNER_CHUNK"));
        return 0;
}
#define MORE , chunk_size
#else
#define MORE
#endif

#define PASTE(a, b) a##b
#define NAMED(a, b) PASTE(a, b)
#define TYPE        struct NAMED(capo_tuner_v, OTHER_VERSION)
#define SYMBOL      NAMED(ncclTunerPlugin_v, OTHER_VERSION)
CAPO_EXPORT const TYPE SYMBOL = {"other", init, ask, destroy MORE};

#if OTHER_VERSION >= 5
static capo_nccl_result profiler_init(void **context, uint64_t id, int *mask, const char *name, int n_nodes,
                                      int n_ranks, int rank, capo_nccl_log log)
{
        events++;
        *context = &events;
        *mask = CAPO_EVENT_PROXY_OP;
        return 0;
}

static capo_nccl_result start(void *context, void **handle, void *event)
{
        const struct capo_event_v5 *e = event;

        events += context == &events;
        if (e->type == CAPO_EVENT_PROXY_OP)
                parent_right = e->parent == &opened;
        *handle = e->type == CAPO_EVENT_COLL ? (void *)&opened : &events;
        return 0;
}

static capo_nccl_result stop(void *handle)
{
        events += handle == &opened || handle == &events;
        return 0;
}

static capo_nccl_result state(void *handle, int what, const void *args)
{
        events += handle != &events;
        return 0;
}

static capo_nccl_result finish(void *context)
{
        events += context == &events;
        return 0;
}

#define PROFILER_TYPE   struct NAMED(capo_profiler_v, OTHER_VERSION)
#define PROFILER_SYMBOL NAMED(ncclProfiler_v, OTHER_VERSION)
CAPO_EXPORT const PROFILER_TYPE PROFILER_SYMBOL = {"other", profiler_init, start, stop, state, finish};
#endif

#if OTHER_VERSION == 6
/* A libnccl of 2.31.2, as far as a plugin can see one. */
CAPO_EXPORT int ncclGetVersion(int *version);
CAPO_EXPORT void others_log(int level, unsigned long flags, const char *file, int line, const char *format, ...);

int ncclGetVersion(int *version)
{
        *version = 23102;
        return 0;
}

void others_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
}
#endif
