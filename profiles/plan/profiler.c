/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's own report of what it is about to run: the Coll event of its profiler interface, v1 to v6. Only that event is
 * asked for. It arrives on the thread that called the collective.
 */
#include <string.h>

#include "core/util.h"
#include "profiles/plan/virtual.h"

enum { MASK_COLL = 2 };

static char handle; /* of every event: 2.23 to 2.26 report no Coll inside a Group whose handle is NULL */

/* Beginnings of ncclProfilerEventDescr_vN_t for a Coll event (nccl: include/plugin/profiler/profiler_vN.h). */
struct coll_v1 { /* v1 has codes where later versions have names */
        uint8_t type;
        void *parent;
        int rank;
        const char *name;
        uint64_t comm_hash, seq;
        uint8_t func;
        const void *send;
        void *recv;
        size_t count;
        int root;
        uint8_t datatype;
        uint32_t op;
        size_t traffic;
        uint8_t channels, warps, algo, proto;
};
struct coll_v2 {
        uint8_t type;
        void *parent;
        int rank;
        const char *name;
        uint64_t comm_hash, seq;
        const char *func;
        const void *send;
        void *recv;
        size_t count;
        int root;
        const char *datatype;
        size_t traffic;
        uint8_t channels, warps;
        const char *algo, *proto;
};
struct coll_v3 {
        uint8_t type;
        void *parent;
        int rank;
        const char *name;
        uint64_t comm_hash, seq;
        const char *func;
        const void *send;
        void *recv;
        size_t count;
        int root;
        const char *datatype;
        uint8_t channels, warps;
        const char *algo, *proto;
};
struct coll_v4 {
        uint8_t type;
        void *parent;
        int rank;
        uint64_t seq;
        const char *func;
        const void *send;
        void *recv;
        size_t count;
        int root;
        const char *datatype;
        uint8_t channels, warps;
        const char *algo, *proto;
};
struct coll_v5 { /* and v6 */
        uint64_t type;
        void *parent;
        int rank;
        uint64_t seq;
        const char *func;
        const void *send;
        void *recv;
        size_t count;
        int root;
        const char *datatype;
        uint8_t channels, warps;
        const char *algo, *proto;
};

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

#define START(version)                                                                                           \
        static int start_##version(void *ctx, void **event, const struct coll_##version *e)                      \
        {                                                                                                        \
                *event = &handle;                                                                                \
                return e->type == MASK_COLL                                                                      \
                               ? seen(plan_algo_find(e->algo), plan_proto_find(e->proto), e->channels, e->warps) \
                               : 0;                                                                              \
        }
START(v2)
START(v3)
START(v4)
START(v5)

static int start_v1(void *ctx, void **event, const struct coll_v1 *e)
{
        *event = &handle;
        return e->type == MASK_COLL ? seen(e->algo, e->proto, e->channels, e->warps) : 0;
}

static int stop(void *event)
{
        return 0;
}

static int state(void *event, int what, void *args)
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
        *mask = MASK_COLL;
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

static int init_v4(void **ctx, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank, void *log)
{
        return begin(4, ctx, mask);
}

static int init_v5(void **ctx, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank, void *log)
{
        return begin(5, ctx, mask);
}

static int init_v6(void **ctx, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank, void *log)
{
        return begin(6, ctx, mask);
}

struct profiler {
        const char *name;
        void *init, *start, *stop, *state, *finalize;
};

#define PROFILER(n, starts)                                     \
        extern const struct profiler ncclProfiler_v##n;         \
        CAPO_EXPORT const struct profiler ncclProfiler_v##n = { \
                "capo-plan", (void *)init_v##n, (void *)start_##starts, (void *)stop, (void *)state, (void *)finalize}
PROFILER(1, v1);
PROFILER(2, v2);
PROFILER(3, v3);
PROFILER(4, v4);
PROFILER(5, v5);
PROFILER(6, v5);
