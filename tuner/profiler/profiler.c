/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's profiler interface tells, for every collective it puts on its way, which algorithm,
 * protocol and channels it took. capo asks for these Coll events, and those of copy engines, and
 * for nothing else, hands each to the recorder in the call that is open on this thread, and gives
 * NCCL no handle back, so that is all that happens per collective.
 *
 * Two things make it more. CAPO_KERNEL_TIME=1 asks for KernelCh events too: each channel of a
 * kernel stamps its begin and end with the GPU's global timer, NCCL's proxy thread delivers the
 * stamps late, and a slot per collective folds first begin and last end; from v7 on symmetric
 * kernels tell their phases too, and so how long they waited for the other ranks before they moved
 * anything. And another profiler that the user had wanted gets its events through here; its handles
 * are NCCL's handles, unless a slot has to stand in front of them.
 *
 * Releases from 2.31 on are known to slow jobs down merely by this path (NVIDIA/nccl#2355: 4 to 13
 * % for small all-reduces with 2.31.2 against 0.1 to 1.1 % with 2.29.7), so there nothing is asked
 * for unless CAPO_PROFILER=on. */
#include <dlfcn.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/lock.h"
#include "core/base/nccl_facts.h"
#include "tuner/comm_name.h"
#include "tuner/plugin_find.h"
#include "tuner/profiler/profiler.h"
#include "tuner/tuner_env.h"
#include "tuner/version.h"
#include "tuner/plugin_versions.h"

/* ---- the chained profiler ---- */

static struct {
        pthread_mutex_t lock;
        bool searched;
        const struct capo_profiler_v5 *plugin; /* but for init, all versions are alike */
        const struct capo_profiler_abi *abi;
} other = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The newest that the library has, down from what NCCL speaks. */
static enum capo_plugin_found probe_profiler(void *library, void *user)
{
        enum capo_plugin_found found = CAPO_PLUGIN_NONE;

        for (int v = *(const int *)user; v > 0; v--) {
                char symbol[32];
                const struct capo_profiler_v5 *plugin;

                snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", v);
                plugin = dlsym(library, symbol);
                if (!plugin)
                        continue;
                found = CAPO_PLUGIN_OURSELVES;
                if (plugin == capo_profiler_abis[v - 1]->own || capo_plugin_is_ours(plugin->name))
                        continue;
                other.plugin = plugin;
                other.abi = capo_profiler_abis[v - 1];
                return CAPO_PLUGIN_FOUND;
        }
        return found;
}

/* Events that capo passes on are laid out as in the version that NCCL speaks, and NCCL's own
 * adapters for older ones cannot be reached from here, so the other profiler must know events that
 * are laid out alike. */
static void find_chained_profiler(int abi)
{
        other.searched = true;
        if (!capo_plugin_find("profiler", capo_tuner_env()->chain_profiler, probe_profiler, &abi))
                return;
        if (other.abi->events != capo_profiler_abis[abi - 1]->events) {
                capo_warn(
                        "the profiler plugin %s knows interface v%d at most, this NCCL speaks v%d: it is left out "
                        "(CAPO_PROFILER=off gives it its place back)",
                        other.plugin->name, other.abi->version, abi);
                other.plugin = NULL;
        }
}

/* Asking for an event brings its parents too (src/plugin/profiler.cc). */
static int with_parents(int mask)
{
        if (mask & CAPO_EVENT_PROXY_STEP)
                mask |= CAPO_EVENT_PROXY_OP;
        if (mask & CAPO_EVENT_NET)
                mask |= CAPO_EVENT_PROXY_STEP | CAPO_EVENT_PROXY_OP;
        if (mask & CAPO_EVENT_KERNEL_PHASE)
                mask |= CAPO_EVENT_KERNEL;
        if (mask & (CAPO_EVENT_PROXY_OP | CAPO_EVENT_KERNEL))
                mask |= CAPO_EVENT_COLL | CAPO_EVENT_P2P;
        if (mask & (CAPO_EVENT_CE_SYNC | CAPO_EVENT_CE_BATCH))
                mask |= CAPO_EVENT_CE_COLL;
        if (mask & CAPO_EVENT_CE_COLL)
                mask |= CAPO_EVENT_COLL_API;
        if (mask & (CAPO_EVENT_COLL | CAPO_EVENT_P2P))
                mask |= CAPO_EVENT_GROUP | CAPO_EVENT_COLL_API | CAPO_EVENT_P2P_API;
        if (mask & (CAPO_EVENT_COLL_API | CAPO_EVENT_P2P_API | CAPO_EVENT_KERNEL_LAUNCH))
                mask |= CAPO_EVENT_GROUP_API;
        return mask;
}

static int open_other(const struct capo_profiler_info *info, struct capo_profiler *p)
{
        int mask = 0, failed;

        capo_lock(&other.lock);
        if (!other.searched)
                find_chained_profiler(info->abi);
        capo_unlock(&other.lock);
        if (!other.plugin)
                return 0;
        failed = other.abi->init(other.plugin, info, &p->other_context, &mask);
        if (failed)
                return 0; /* as NCCL: a profiler that fails is left out */
        p->other_mask = with_parents(mask);
        return mask;
}

/* ---- kernel times ---- */

struct slot {
        uint64_t comm_hash;
        uint64_t begin, end; /* GPU ns; 0 none yet */
        uint64_t moved;      /* the same: first compute phase of a channel */
        uint32_t nth;        /* Coll event of its communicator, from 1 */
        uint32_t serial;     /* of all collectives, when taken */
        uint8_t channels;    /* stops to come */
        uint8_t stops;
        void *other; /* the chained profiler's handle of the Coll event */
};
enum { SLOTS = 4096, STALE = 1 << 20 };
static struct slot slots[SLOTS];
static _Atomic uint32_t serial;

/* A handle inside `slots` is ours; odd ones are KernelCh events of the slot. */
static struct slot *slot_of(const void *handle)
{
        uintptr_t at = (uintptr_t)handle - (uintptr_t)slots;

        return at < sizeof slots ? &slots[at / sizeof *slots] : NULL;
}

static bool is_kernel(const void *handle)
{
        return ((uintptr_t)handle - (uintptr_t)slots) % sizeof(struct slot) == 1;
}

/* A slot without all stamps (NCCL drops some under load) is reused a million collectives on. */
static struct slot *slot_take(const struct capo_seam_ran *ran, uint32_t nth)
{
        uint32_t now = serial++;
        struct slot *s = &slots[now % SLOTS];

        if (!ran->channels || (s->channels && now - s->serial < STALE))
                return NULL;
        *s = (struct slot){
                .comm_hash = ran->comm_hash, .nth = nth, .serial = now, .channels = ran->channels};
        return s;
}

/* ---- events ---- */

capo_nccl_result capo_profiler_start(struct capo_profiler *p, void **handle,
                                     struct capo_profiler_event *e)
{
        struct slot *parent = slot_of(*e->parent), *s = NULL;
        void *given = NULL;

        *handle = NULL;
        if (e->type == CAPO_EVENT_COLL || e->type == CAPO_EVENT_CE_COLL) {
                if (p->ran)
                        p->ran(&e->ran);
                if (p->kernels && e->type == CAPO_EVENT_COLL)
                        s = slot_take(&e->ran, __atomic_add_fetch(&p->n_ran, 1, __ATOMIC_RELAXED));
        }
        if (e->type == CAPO_EVENT_KERNEL && parent && e->kernel) {
                if (!parent->begin || e->kernel->timer < parent->begin)
                        parent->begin = e->kernel->timer;
                *handle = (char *)parent + 1;
                return CAPO_NCCL_SUCCESS;
        }
        if (e->phase && parent) { /* a channel's first that is not waiting: no more is asked */
                if (e->phase->phase && (!parent->moved || e->phase->timer < parent->moved))
                        parent->moved = e->phase->timer;
                return CAPO_NCCL_SUCCESS;
        }
        if (p->other_mask & (int)e->type) {
                void *keep = *e->parent;

                if (parent)
                        *e->parent = parent->other;
                other.plugin->start_event(p->other_context, &given, e->event);
                *e->parent = keep;
        }
        if (s)
                s->other = given;
        *handle = s ? (void *)s : given;
        return CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_profiler_stop(void *handle)
{
        struct slot *s;

        if (likely(!handle))
                return CAPO_NCCL_SUCCESS;
        s = slot_of(handle);
        if (s && is_kernel(handle)) {
                if (s->channels && ++s->stops >= s->channels) {
                        if (capo_seam && capo_seam->kernel && s->begin && s->end >= s->begin)
                                capo_seam->kernel(&(struct capo_seam_kernel){
                                        .comm_hash = s->comm_hash,
                                        .nth = s->nth,
                                        .begin = s->begin,
                                        .end = s->end,
                                        .moved = s->moved >= s->begin && s->moved <= s->end
                                                         ? s->moved
                                                         : 0});
                        s->channels = 0;
                }
                return CAPO_NCCL_SUCCESS;
        }
        if (s)
                handle = s->other;
        if (handle && other.plugin)
                other.plugin->stop_event(handle);
        return CAPO_NCCL_SUCCESS;
}

capo_nccl_result capo_profiler_state(void *handle, int state, const void *args)
{
        struct slot *s = slot_of(handle);

        if (s && is_kernel(handle)) {
                if (state == CAPO_STATE_KERNEL_STOP && args && *(const uint64_t *)args > s->end)
                        s->end = *(const uint64_t *)args;
                return CAPO_NCCL_SUCCESS;
        }
        if (s)
                handle = s->other;
        if (handle && other.plugin)
                other.plugin->record_state(handle, state, args);
        return CAPO_NCCL_SUCCESS;
}

/* ---- life ---- */

/* Does the recorder want Coll events from this NCCL? */
static bool wants_events(const struct capo_profiler_info *info)
{
        const char *setting = capo_tuner_env()->profiler;
        int version;

        if (!capo_seam || !capo_seam->ran || capo_tuner_env()->off || !strcmp(setting, "off"))
                return false;
        version = capo_nccl_version(info->log);
        if (!strcmp(setting, "on") || !capo_nccl_has(version, CAPO_NCCL_PROFILER_SLOW))
                return true;
        capo_warn_once(
                "not asking NCCL %d.%d what it runs: its profiler path slows jobs (NVIDIA/nccl#2355); "
                "CAPO_PROFILER=on asks all the same",
                version / 10000, version / 100 % 100);
        return false;
}

capo_nccl_result capo_profiler_open(const struct capo_profiler_info *info,
                                    struct capo_profiler **out, int *mask)
{
        struct capo_profiler *p = calloc(1, sizeof *p);
        int asked = 0, theirs;

        *out = p;
        if (!p)
                goto out;
        p->comm_hash = info->comm_hash;
        if (info->comm_name && *info->comm_name)
                capo_comm_name_keep(info->comm_hash, info->comm_name);
        if (wants_events(info)) {
                p->ran = capo_seam->ran;
                asked = CAPO_EVENT_COLL | (info->abi >= 6 ? CAPO_EVENT_CE_COLL : 0);
                p->kernels = capo_tuner_env()->kernel_time && info->abi >= 4;
        }
        theirs = open_other(info, p);
        if (p->kernels && theirs & (CAPO_EVENT_KERNEL | CAPO_EVENT_KERNEL_PHASE)) {
                capo_warn_once(
                        "the chained profiler takes the kernel time stamps itself: CAPO_KERNEL_TIME=1 has no effect");
                p->kernels = false;
        }
        asked |= theirs;
        if (p->kernels)
                asked |= CAPO_EVENT_KERNEL | (info->abi >= 7 ? CAPO_EVENT_KERNEL_PHASE : 0);
        if (capo_seam && capo_seam->comm && info->abi >= 4) {
                const struct capo_seam_comm comm = {.comm_hash = info->comm_hash,
                                                    .n_ranks = info->n_ranks,
                                                    .rank = info->rank,
                                                    .n_nodes =
                                                            info->n_nodes > 0 ? info->n_nodes : -1,
                                                    .min_local = -1,
                                                    .max_local = -1,
                                                    .name = info->comm_name};

                capo_seam->comm(&comm);
        }
out: /* the process has one mask, and other communicators' calls are asked by it meanwhile: it never
        says less than this */
        __atomic_store_n(mask, asked, __ATOMIC_RELAXED);
        return CAPO_NCCL_SUCCESS;
}

/* Stamps may still come for a communicator that is gone: slots keep no pointer that is followed. */
capo_nccl_result capo_profiler_finish(void *profiler)
{
        struct capo_profiler *p = profiler;

        if (p && p->other_mask && other.plugin)
                other.plugin->finalize(p->other_context);
        free(p);
        return CAPO_NCCL_SUCCESS;
}
