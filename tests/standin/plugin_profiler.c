/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profiler for check_plugins, built once per interface version (-DABI=3 .. 6): it checks that
 * events nest, and counts them. Layouts as in nccl's profiler_v3.h .. profiler_v6.h, written down a
 * second time on purpose, with offsets.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
/* Each rank has a thread of its own that calls us. */
#define COUNT(n) __atomic_add_fetch(&(n), 1, __ATOMIC_RELAXED)

struct profiler_seen { /* shared with check_plugins.c */
        int mask, inits, ends;
        int starts[16], stops[16], states[32], orphans, bad;
        char algo[16], proto[16], func[16], name[32];
        int channels, n_nodes, n_ranks;
        uint64_t kernel_ns;
};
extern struct profiler_seen profiler_seen;
EXPORT struct profiler_seen profiler_seen;

struct event {
        int bit;
        uint64_t begin;
};

static int bit_of(uint64_t type) { return __builtin_ctzll(type); }

static int start(void *ctx, void **out, const char *descr)
{
        static struct event pool[1 << 14]; /* never freed: children come after their Coll's stop */
        static unsigned used;
        struct event *e = &pool[__atomic_fetch_add(&used, 1, __ATOMIC_RELAXED) % (1 << 14)];
        uint64_t type;
        const struct event *parent;

#if ABI <= 4
        type = *(const uint8_t *)descr;
#else
        type = *(const uint64_t *)descr;
#endif
        e->begin = 0;
        e->bit = bit_of(type);
        parent = *(struct event *const *)(descr + 8);
        __atomic_add_fetch(&profiler_seen.starts[e->bit], 1, __ATOMIC_RELAXED);
        if (type == 64) { /* KernelCh: below a Coll or P2p; its GPU time */
                if (!parent || (parent->bit != 1 && parent->bit != 2))
                        COUNT(profiler_seen.orphans);
#if ABI >= 4
                e->begin = *(const uint64_t *)(descr + 32);
#endif
        } else if (type == 2) {
                size_t at = ABI == 3 ? 40 : 24; /* v3: name and hash before seqNumber */
                const char *func = *(const char *const *)(descr + at + 8);
                size_t tail = at + 8 + 8 + 16 + 8 + 8; /* datatype */

                if (!parent || parent->bit != (ABI >= 5 ? 9 : 0))
                        COUNT(profiler_seen.orphans);
                strncpy(profiler_seen.func, func, 15);
                profiler_seen.channels = *(const uint8_t *)(descr + tail + 8);
                strncpy(profiler_seen.algo, *(const char *const *)(descr + tail + 16), 15);
                strncpy(profiler_seen.proto, *(const char *const *)(descr + tail + 24), 15);
        } else if (ABI >= 5 && (type == 512 || type == 1024) && (!parent || parent->bit != 8)) {
                COUNT(profiler_seen.orphans);
        }
        *out = e;
        return 0;
}

static int stop(void *event)
{
        struct event *e = event;

        __atomic_add_fetch(&profiler_seen.stops[e->bit], 1, __ATOMIC_RELAXED);
        return 0;
}

static int record(void *event, int state, const uint64_t *args)
{
        struct event *e = event;

        if (state < 32)
                __atomic_add_fetch(&profiler_seen.states[state], 1, __ATOMIC_RELAXED);
        if (state == 22 && ABI >= 4) {
                if (e->bit != 6 || *args < e->begin)
                        COUNT(profiler_seen.bad);
                else
                        __atomic_add_fetch(&profiler_seen.kernel_ns, *args - e->begin,
                                           __ATOMIC_RELAXED);
        }
        return 0;
}

static int finalize(void *ctx)
{
        COUNT(profiler_seen.ends);
        return ctx == &profiler_seen ? 0 : 1;
}

static int begin(void **ctx, int *mask)
{
        *ctx = &profiler_seen;
        *mask = profiler_seen.mask;
        COUNT(profiler_seen.inits);
        return 0;
}

#if ABI == 3
static int init(void **ctx, int *mask) { return begin(ctx, mask); }
#elif ABI == 4
static int init(void **ctx, int *mask, const char *name, uint64_t hash, int n_nodes, int n_ranks,
                int rank, void *log)
{
        strncpy(profiler_seen.name, name, 31);
        profiler_seen.n_nodes = n_nodes;
        profiler_seen.n_ranks = n_ranks;
        return begin(ctx, mask);
}
#else
static int init(void **ctx, uint64_t hash, int *mask, const char *name, int n_nodes, int n_ranks,
                int rank, void *log)
{
        strncpy(profiler_seen.name, name, 31);
        profiler_seen.n_nodes = n_nodes;
        profiler_seen.n_ranks = n_ranks;
        return begin(ctx, mask);
}
#endif

#define NAME2(v) ncclProfiler_v##v
#define NAME(v)  NAME2(v)
extern const void *const NAME(ABI)[6];
EXPORT const void *const NAME(ABI)[6] = {"check",      (void *)init,   (void *)start,
                                         (void *)stop, (void *)record, (void *)finalize};
