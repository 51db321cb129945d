/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's own report of what it is about to run: the Coll event of its profiler interface, v1 to v6. Only that event is
 * asked for. It arrives on the thread that called the collective.
 */
#include <string.h>

#include "core/base/util.h"
#include "profiles/plan/virtual/virtual.h"
#include "tuner/abi/nccl_profiler.h"

static char handle; /* of every event: 2.23 to 2.26 report no Coll inside a Group whose handle is NULL */

static int seen(int algo, int proto, unsigned channels, unsigned warps)
{
        if (plan_seen) {
                plan_seen->algo = algo;
                plan_seen->proto = proto;
                plan_seen->channels = (int)channels;
                plan_seen->warps = (int)warps;
        }
        return 0;
}

/* channels: v1 to v3 tell the most there may be, later versions what it got */
#define START(version, channels)                                                                                       \
        static int start_##version(void *ctx, void **event, void *told)                                                \
        {                                                                                                              \
                const struct capo_event_##version *e = told;                                                           \
                                                                                                                       \
                *event = &handle;                                                                                      \
                return e->type == CAPO_EVENT_COLL ? seen(plan_algo_find(e->coll.algo), plan_proto_find(e->coll.proto), \
                                                         e->coll.channels, e->coll.n_warps)                            \
                                                  : 0;                                                                 \
        }
START(v2, max_channels)
START(v3, max_channels)
START(v4, n_channels)
START(v5, n_channels)

/* v1 has codes where later versions have names. */
static int start_v1(void *ctx, void **event, void *told)
{
        const struct capo_event_v1 *e = told;

        *event = &handle;
        return e->type == CAPO_EVENT_COLL ? seen(e->coll.algo, e->coll.proto, e->coll.max_channels, e->coll.n_warps)
                                          : 0;
}

static int stop(void *event)
{
        return 0;
}

static int state(void *event, int what, const void *args)
{
        return 0;
}

static int finalize(void *ctx)
{
        return 0;
}

static int begin(int abi, void **ctx, int *mask)
{
        plan_job->profiler_abi = abi;
        *ctx = &handle;
        *mask = CAPO_EVENT_COLL;
        return 0;
}

#define INIT_OLD(n)                                 \
        static int init_v##n(void **ctx, int *mask) \
        {                                           \
                return begin(n, ctx, mask);         \
        }
INIT_OLD(1)
INIT_OLD(2)
INIT_OLD(3)

static int init_v4(void **ctx, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank,
                   capo_nccl_log log)
{
        return begin(4, ctx, mask);
}

static int init_v5(void **ctx, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank,
                   capo_nccl_log log)
{
        return begin(5, ctx, mask);
}

static int init_v6(void **ctx, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank,
                   capo_nccl_log log)
{
        return begin(6, ctx, mask);
}

#define PROFILER(n, starts)                                                                                      \
        CAPO_EXPORT const struct capo_profiler_v##n ncclProfiler_v##n = {"capo-plan", init_v##n, start_##starts, \
                                                                         stop,        state,     finalize}
PROFILER(1, v1);
PROFILER(2, v2);
PROFILER(3, v3);
PROFILER(4, v4);
PROFILER(5, v5);
PROFILER(6, v5);
