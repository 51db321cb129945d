/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiler plugins: found as NCCL finds them, given events of groups, collectives, sends and
 * receives while they are put on their stream, and of each channel's begin and end when they have
 * run. Layouts: nccl/src/include/plugin/profiler/profiler_v3.h .. profiler_v6.h of 2.30.7, v7
 * of 2.31.
 *
 * As in NCCL a Coll's stop says only that it was launched; KernelCh events come later, from the
 * stream's worker, and carry the times (ns of CLOCK_MONOTONIC, as the stand-in driver's events do).
 * Collectives captured into a graph are reported once, at capture, without channels. A symmetric
 * kernel tells its name and its phases from v7 on; before, its Coll has no channels and says
 * nothing. A collective by copy engines has no Coll but a CeColl, from v6 on. Proxy and net events
 * have no counterpart here and are never sent.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "std.h"

enum {
        EV_GROUP = 1,
        EV_COLL = 2,
        EV_P2P = 4,
        EV_PROXY = 8 | 16 | 32,
        EV_KERNEL_CH = 64,
        EV_NET = 128,
        EV_GROUP_API = 256,
        EV_COLL_API = 512,
        EV_P2P_API = 1024,
        EV_KERNEL_LAUNCH = 2048,
        EV_CE_COLL = 4096,
        EV_KERNEL_PHASE = 32768,
        STATE_KERNEL_CH_STOP = 22,
        STATE_GROUP_START_API_STOP = 23,
        STATE_GROUP_END_API_START = 24,
        STATE_KERNEL_PHASE_STOP = 31,
};

struct descr { /* v4 to v7; v4's one-byte type lies where v5's low byte does, and v5 only appended
                  parentGroup */
        union {
                uint8_t type8;
                uint64_t type64;
        };
        void *parent;
        int rank;
        union {
                struct {
                        bool captured;
                        int depth;
                } group_api;
                struct {
                        const char *func;
                        size_t count;
                        const char *type;
                        int root;
                        void *stream;
                        bool captured;
                        uint64_t tag; /* v7 */
                } coll_api;
                struct {
                        const char *func;
                        size_t count;
                        const char *type;
                        void *stream;
                        bool captured;
                        uint64_t tag; /* v7 */
                } p2p_api;
                struct {
                        void *stream;
                } launch;
                struct {
                        uint64_t seq;
                        const char *func;
                        const void *send;
                        void *recv;
                        size_t count;
                        int root;
                        const char *type;
                        uint8_t n_channels, n_warps;
                        const char *algo, *proto;
                        void *group;
                        const char *kernel; /* v7 on, and so the next two */
                        bool symmetric;
                        uint64_t tag;
                } coll;
                struct {
                        const char *func;
                        void *buffer;
                        const char *type;
                        size_t count;
                        int peer;
                        uint8_t n_channels;
                        void *group;
                        uint64_t tag; /* v7 */
                } p2p;
                struct {
                        uint8_t channel;
                        uint64_t timer;
                } kernel;
                struct { /* v6 */
                        uint64_t seq;
                        const char *func;
                        const void *send;
                        void *recv;
                        size_t count;
                        int root;
                        const char *type, *sync;
                        bool intra_batch;
                        uint32_t batch_size, batches, ce_seq;
                        void *stream;
                        uint64_t tag; /* v7 */
                } ce;
                struct { /* v7 */
                        uint8_t channel, phase;
                        const char *name;
                        uint64_t timer;
                } phase;
                struct { /* v3 */
                        const char *name;
                        uint64_t comm, seq;
                        const char *func;
                        const void *send;
                        void *recv;
                        size_t count;
                        int root;
                        const char *type;
                        uint8_t max_channels, n_warps;
                        const char *algo, *proto;
                } coll3;
                struct {
                        const char *name;
                        uint64_t comm;
                        const char *func;
                        void *buffer;
                        const char *type;
                        size_t count;
                        int peer;
                } p2p3;
                char room[160];
        };
};

union state {
        struct {
                uint64_t timer;
        } kernel;
        char room[64];
};

typedef void (*logger)(int level, unsigned long flags, const char *file, int line, const char *fmt,
                       ...);

static struct {
        const char *name;
        void *init; /* differs by version, see profiler_open */
        int (*start)(void *ctx, void **event, struct descr *d);
        int (*stop)(void *event);
        int (*record)(void *event, int state, union state *args);
        int (*finalize)(void *ctx);
} * plugin;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int status; /* 0 not tried, 1 loaded, -1 none */
static int version;
static int mask; /* one for the process: the plugin may change it at any time */

static int asked(void) /* as NCCL reads it (src/plugin/profiler.cc) */
{
        return __atomic_load_n(&mask, __ATOMIC_RELAXED);
}

static void probe(void)
{
        static const struct {
                int from;
                const char *symbol;
        } rows[] = {{23102, "ncclProfiler_v7"},
                    {22902, "ncclProfiler_v6"},
                    {22803, "ncclProfiler_v5"},
                    {22703, "ncclProfiler_v4"},
                    {22602, "ncclProfiler_v3"}};
        char path[1024] = "";
        void *lib;

        status = -1;
        if (std_version() < 22602) /* v1 and v2 of 2.23 to 2.25 are not here */
                return;
        lib = plugin_load("NCCL_PROFILER_PLUGIN", "libnccl-profiler", path, sizeof path);
        for (size_t i = 0; lib && i < sizeof rows / sizeof rows[0] && !plugin; i++)
                if (std_version() >= rows[i].from &&
                    (plugin = dlsym(lib, rows[i].symbol)) != NULL) {
                        version = rows[i].symbol[strlen(rows[i].symbol) - 1] - '0';
                        status = 1;
                        INFO(SUB_INIT | SUB_PROFILE, "PROFILER/Plugin: Using %s (v%d)",
                             plugin->name, version);
                }
        if (lib && !plugin)
                dlclose(lib);
}

ncclResult_t profiler_open(struct comm *c)
{
        int r;

        pthread_mutex_lock(&lock);
        if (!status)
                probe();
        pthread_mutex_unlock(&lock);
        if (status < 0)
                return ncclSuccess;
        if (version == 3) {
                int (*init)(void **, int *) = plugin->init;

                r = init(&c->profiler_ctx, &mask);
        } else if (version == 4) {
                int (*init)(void **, int *, const char *, uint64_t, int, int, int, logger) =
                        plugin->init;

                r = init(&c->profiler_ctx, &mask, c->name, c->hash, c->n_nodes, c->n, c->rank,
                         std_log);
        } else {
                int (*init)(void **, uint64_t, int *, const char *, int, int, int, logger) =
                        plugin->init;

                r = init(&c->profiler_ctx, c->hash, &mask, c->name, c->n_nodes, c->n, c->rank,
                         std_log);
        }
        if (r) /* no reason to fail the communicator */
                INFO(SUB_INIT | SUB_PROFILE,
                     "PROFILER/Plugin: init failed with %d, profiling is off", r);
        c->profiled = !r;
        return ncclSuccess;
}

void profiler_close(struct comm *c)
{
        if (c->profiled)
                plugin->finalize(c->profiler_ctx);
        c->profiled = false;
}

/* What is really sent: who asks for a child gets its parents. */
static int wanted(void)
{
        int m = asked();

        if (m & EV_KERNEL_PHASE && version >= 7)
                m |= EV_KERNEL_CH;
        if (m & (EV_KERNEL_CH | EV_PROXY | EV_NET))
                m |= EV_COLL | EV_P2P;
        if (m & (EV_COLL | EV_P2P))
                m |= EV_GROUP;
        if (m & EV_CE_COLL)
                m |= EV_COLL_API;
        if (version >= 5) {
                if (m & EV_COLL)
                        m |= EV_COLL_API;
                if (m & EV_P2P)
                        m |= EV_P2P_API;
                if (m & (EV_COLL_API | EV_P2P_API | EV_KERNEL_LAUNCH | EV_GROUP))
                        m |= EV_GROUP_API;
        } else {
                m &= EV_GROUP | EV_COLL | EV_P2P | EV_KERNEL_CH;
        }
        return m;
}

static void *start(struct comm *c, int type, void *parent, struct descr *d)
{
        void *event = NULL;

        if (version >= 5)
                d->type64 = (uint64_t)type;
        else
                d->type8 = (uint8_t)type;
        d->parent = parent;
        d->rank = c->rank;
        plugin->start(c->profiler_ctx, &event, d);
        return event;
}

static void stop(void *event)
{
        if (event)
                plugin->stop(event);
}

/* All-gathers and broadcasts are counted in bytes, as NCCL has turned them into ncclInt8 by then.
 */
static size_t reported_count(const struct task *t, const char **type)
{
        bool bytes = t->fn == FN_ALLGATHER || t->fn == FN_BROADCAST;

        *type = type_text(bytes ? ncclInt8 : t->type);
        return bytes ? t->count * type_bytes(t->type) : t->count;
}

static void start_task(struct comm *c, struct task *t, void *parent, void *group)
{
        bool coll = t->fn <= FN_ALLREDUCE;
        struct descr d = {0};
        const char *type;
        size_t count = reported_count(t, &type);
        const char *algo = coll ? algo_names[t->algo] : "",
                   *proto = coll ? proto_names[t->proto] : "";
        uint8_t channels = (uint8_t)t->channels;
        void *buffer = t->fn == FN_SEND ? (void *)(uintptr_t)t->send : t->recv;

        if (t->kernel && version >= 7) { /* as NCCL: its own name of it stands for the algorithm */
                algo = strchr(t->kernel, '_') + 1;
                proto = "";
                channels = wanted() & EV_KERNEL_CH ? channels : 0;
        } else if (t->kernel) { /* what NCCL's zeroed task says */
                algo = algo_names[0];
                proto = proto_names[0];
                channels = 0;
        }
        if (coll && version == 3) {
                d.coll3 = (__typeof__(d.coll3)){c->name, c->hash,  t->seq, func_names[t->fn],
                                                t->send, t->recv,  count,  t->peer,
                                                type,    channels, 1,      algo,
                                                proto};
        } else if (coll) {
                d.coll = (__typeof__(d.coll)){
                        t->seq,    func_names[t->fn], t->send,   t->recv, count, t->peer,
                        type,      channels,          1,         algo,    proto, group,
                        t->kernel, t->kernel != NULL, t->how.tag};
        } else if (version == 3) {
                d.p2p3 = (__typeof__(d.p2p3)){c->name, c->hash, func_names[t->fn], buffer, type,
                                              count,   t->peer};
        } else {
                d.p2p = (__typeof__(d.p2p)){func_names[t->fn], buffer, type,  count,
                                            t->peer,           1,      group, t->how.tag};
        }
        t->coll_event = start(c, coll ? EV_COLL : EV_P2P, parent, &d);
}

/* A collective that copy engines do: no kernel, and nothing to say when it ran. */
static void tell_copied(struct comm *c, struct task *t)
{
        const char *type;
        size_t count = reported_count(t, &type);
        struct descr d = {.ce = {.seq = t->seq,
                                 .func = func_names[t->fn],
                                 .send = t->send,
                                 .recv = t->recv,
                                 .count = count,
                                 .root = t->peer,
                                 .type = type,
                                 .sync = "UC",
                                 .stream = t->stream,
                                 .tag = t->how.tag}};

        if (version >= 6 && asked() & EV_CE_COLL)
                stop(start(c, EV_CE_COLL, t->api_event, &d));
}

void profiler_launch(struct comm *c, struct plan *p)
{
        int m = wanted();
        void *api = NULL, *group = NULL, *launch;
        struct descr d;

        if (!m)
                return;
        if (m & EV_GROUP_API) {
                d = (struct descr){.group_api = {p->captured, 1}};
                api = start(c, EV_GROUP_API, NULL, &d);
                if (api)
                        plugin->record(api, STATE_GROUP_START_API_STOP, NULL);
        }
        for (int i = 0; i < p->n; i++) {
                struct task *t = &p->tasks[i];
                bool coll = t->fn <= FN_ALLREDUCE;
                const char *type;
                size_t count = reported_count(t, &type);

                t->api_event = NULL;
                if (t->fn > FN_RECV) /* one-sided calls have no events */
                        continue;
                if (!(m & (coll ? EV_COLL_API : EV_P2P_API)))
                        continue;
                d = (struct descr){0};
                if (coll)
                        d.coll_api = (__typeof__(d.coll_api)){
                                func_names[t->fn], count,       type,      t->peer,
                                t->stream,         p->captured, t->how.tag};
                else
                        d.p2p_api = (__typeof__(d.p2p_api)){
                                func_names[t->fn], count, type, t->stream, p->captured, t->how.tag};
                t->api_event = start(c, coll ? EV_COLL_API : EV_P2P_API, api, &d);
                stop(t->api_event);
        }
        if (api)
                plugin->record(api, STATE_GROUP_END_API_START, NULL);
        if (m & EV_KERNEL_LAUNCH) {
                d = (struct descr){.launch = {p->tasks[0].stream}};
                launch = start(c, EV_KERNEL_LAUNCH, api, &d);
                stop(launch);
        }
        if (m & EV_GROUP) {
                d = (struct descr){0};
                group = start(c, EV_GROUP, version >= 5 ? api : NULL, &d);
        }
        for (int i = 0; i < p->n; i++) {
                struct task *t = &p->tasks[i];

                t->coll_event = NULL;
                if (t->copied)
                        tell_copied(c, t);
                else if (t->fn <= FN_RECV && m & (t->fn <= FN_ALLREDUCE ? EV_COLL : EV_P2P))
                        start_task(c, t, version >= 5 ? t->api_event : group, group);
        }
        for (int i = 0; i < p->n; i++)
                stop(p->tasks[i].coll_event);
        stop(group);
        stop(api);
}

/* Of a symmetric kernel: it waits for all ranks, then it moves data. One without any length is left
 * out. */
static void tell_phases(struct comm *c, const struct task *t, int channel, void *kernel)
{
        static const char *const names[] = {"initial_sync", "compute"};
        const uint64_t at[] = {c->chans[channel].t_begin_ns, c->chans[channel].t_moved_ns,
                               c->chans[channel].t_end_ns};

        for (unsigned i = 0; i < 2 && t->kernel && version >= 7 && asked() & EV_KERNEL_PHASE; i++) {
                struct descr d = {.phase = {(uint8_t)channel, (uint8_t)i, names[i], at[i]}};
                union state s = {.kernel = {at[i + 1]}};
                void *event = at[i] == at[i + 1] ? NULL : start(c, EV_KERNEL_PHASE, kernel, &d);

                if (event) {
                        plugin->record(event, STATE_KERNEL_PHASE_STOP, &s);
                        plugin->stop(event);
                }
        }
}

/* The channels of a collective that ran; called on the stream's worker. */
void profiler_channels(const struct task *t)
{
        struct comm *c = t->comm;
        int n = t->fn <= FN_ALLREDUCE ? t->channels : 1;

        if (!t->coll_event || !(wanted() & EV_KERNEL_CH))
                return;
        for (int i = 0; i < n; i++) {
                struct descr d = {.kernel = {(uint8_t)i, c->chans[i].t_begin_ns}};
                union state s = {.kernel = {c->chans[i].t_end_ns}};
                void *event = start(c, EV_KERNEL_CH, t->coll_event, &d);

                if (!event)
                        continue;
                tell_phases(c, t, i, event);
                if (version > 3)
                        plugin->record(event, STATE_KERNEL_CH_STOP, &s);
                plugin->stop(event);
        }
}
