/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody else's plugin, built once per version of the interface (OTHER_VERSION), to be chained
 * to: the version's own adapter (tuner/abi/tuner_vN.c) with these bodies behind it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "tuner/choose.h"
#include "tuner/nccl_profiler.h"

#define REDUCE 1
static int opened, events, parent_right, types, nothing;

CAPO_EXPORT int others_open(void);
CAPO_EXPORT int others_events(void);
CAPO_EXPORT int others_parent_right(void);
CAPO_EXPORT int others_types(void);
CAPO_EXPORT int others_nothing(void);
CAPO_EXPORT const int *others_watched; /* NCCL's mask ... */
CAPO_EXPORT int others_saw;            /* ... as it was while this profiler was opened */
const int *others_watched;
int others_saw;

int others_open(void) { return opened; }

int others_events(void) { return events; }

int others_parent_right(void) { return parent_right; }

int others_types(void) /* the events since the last time this was asked */
{
        int all = types;

        types = 0;
        return all;
}

int others_nothing(void) /* how often it was called about a handle that it never gave */
{
        return nothing;
}

const char capo_plugin_name[] = "other";
static struct capo_tuner tuner; /* not plain: every question comes here */

capo_nccl_result capo_tuner_open(const struct capo_tuner_info *info, struct capo_tuner **out)
{
        if (OTHER_VERSION >= 5 &&
            (info->comm_id != 77 || !info->log || info->nvl->min_ranks != 4 || !info->constants))
                return CAPO_NCCL_INVALID_USAGE;
        if (getenv("OTHER_TUNER_REFUSES")) {
                if (info->constants)
                        info->constants->tree_bw[0][0] = 7;
                return CAPO_NCCL_SYSTEM_ERROR;
        }
        *out = &tuner;
        opened += info->n_ranks == 8;
        return 0;
}

capo_nccl_result capo_tuner_close(void *t)
{
        opened -= t == &tuner;
        return 0;
}

capo_nccl_result capo_name_considered(const struct capo_tuner *t, int func, size_t bytes,
                                      int collnet, int nvls, int pipe_ops, int *algo, int *proto,
                                      int *channels)
{
        if (getenv("OTHER_TUNER_CAN_BE_CANCELLED"))
                pthread_testcancel();
        if (func == REDUCE && t == &tuner && nvls && !collnet) {
                *algo = *proto = 0;
                *channels = OTHER_VERSION;
        }
        return getenv("OTHER_TUNER_FAILS") ? CAPO_NCCL_SYSTEM_ERROR : 0;
}

capo_nccl_result capo_mark_considered(const struct capo_tuner *t, int func, size_t bytes,
                                      int pipe_ops, float *table, int n_algos, int n_protos,
                                      int reg_buff, int *channels)
{
        if (func == REDUCE && t == &tuner && n_algos == 7 && n_protos == 3) {
                if (table[0] >= 0)
                        table[0] = 0;
                *channels = OTHER_VERSION;
        }
        return getenv("OTHER_TUNER_FAILS") ? CAPO_NCCL_SYSTEM_ERROR : 0;
}

void capo_tuner_chunk(const struct capo_tuner *t, int func, size_t bytes, int algo, int proto,
                      int channels, size_t *chunk)
{
        *chunk = (size_t)atol(getenv("OTHER_TUNER_CHUNK"));
}

capo_nccl_result capo_mark_looked_up(const struct capo_tuner *t, const struct capo_table *rows,
                                     size_t bytes, float *table, int n_algos, int *channels)
{
        abort();
}

capo_nccl_result capo_name_looked_up(const struct capo_tuner *t, int func, size_t bytes, int nvls,
                                     int *algo, int *proto, int *channels)
{
        abort();
}

capo_nccl_result capo_tuner_decided(const struct capo_tuner *t, uint32_t word) { abort(); }

#define PASTE(a, b) a##b
#define NAMED(a, b) PASTE(a, b)

#if OTHER_VERSION == 1 || OTHER_VERSION == 5 || OTHER_VERSION == 6
#if OTHER_VERSION == 1
static capo_nccl_result profiler_init(void **context, int *mask)
#else
static capo_nccl_result profiler_init(void **context, uint64_t id, int *mask, const char *name,
                                      int n_nodes, int n_ranks, int rank, capo_nccl_log log)
#endif
{
        const char *wanted = getenv("OTHER_PROFILER_MASK");

        events++;
        others_saw = others_watched ? *others_watched : 0;
        *context = &events;
        if (!wanted || *wanted) /* empty: it does not say */
                *mask = wanted ? atoi(wanted) : CAPO_EVENT_PROXY_OP;
        return getenv("OTHER_PROFILER_REFUSES") ? CAPO_NCCL_SYSTEM_ERROR : 0;
}

static capo_nccl_result start(void *context, void **handle, void *event)
{
        const struct capo_event_v5 *e = event;
        int type = OTHER_VERSION == 1 ? *(const uint8_t *)event : (int)e->type;

        events += context == &events;
        types |= type;
        if (type == CAPO_EVENT_PROXY_OP)
                parent_right = e->parent == &opened;
        *handle = type == CAPO_EVENT_COLL ? (void *)&opened : &events;
        return 0;
}

static capo_nccl_result stop(void *handle)
{
        events += handle == &opened || handle == &events;
        nothing += handle != &opened && handle != &events;
        return 0;
}

static capo_nccl_result state(void *handle, int what, const void *args)
{
        events += handle != &events;
        nothing += handle != &opened && handle != &events;
        return 0;
}

static capo_nccl_result finish(void *context)
{
        events += context == &events;
        return 0;
}

#define PROFILER_TYPE   struct NAMED(capo_profiler_v, OTHER_VERSION)
#define PROFILER_SYMBOL NAMED(ncclProfiler_v, OTHER_VERSION)
extern const PROFILER_TYPE PROFILER_SYMBOL;
CAPO_EXPORT const PROFILER_TYPE PROFILER_SYMBOL = {"other", profiler_init, start,
                                                   stop,    state,         finish};
#endif

#if OTHER_VERSION == 6
/* A libnccl of 2.31.2, as far as a plugin can see one. */
CAPO_EXPORT int ncclGetVersion(int *version);
CAPO_EXPORT void others_log(int level, unsigned long flags, const char *file, int line,
                            const char *format, ...);

int ncclGetVersion(int *version)
{
        *version = 23102;
        return 0;
}

void others_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
}
#endif
