/* SPDX-License-Identifier: Apache-2.0 */
/* A thread's ring for its calls: where it comes from, whether it has room, and its end. */

#include "capo/call_ids.h"
#include "core/base/write_signals.h"
#include "shim/record/nap.h"
#include "shim/record/recorder.h"

__thread struct capo_tls capo_tls __attribute__((tls_model("initial-exec")));
struct capo_segment capo_seg = {.fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

/* By ring: a thread's call sites. NULL: no memory. The last thread's would not be this one's. */
static struct capo_site_entry *sites_of(uint32_t ring)
{
        static struct capo_site_entry *sites[CAPO_SEGMENT_RINGS];
        const size_t size = CAPO_SITE_CACHE * sizeof **sites;

        if (sites[ring])
                memset(sites[ring], 0, size);
        else
                sites[ring] = capo_shim_alloc(size);
        return sites[ring];
}

/* The first ring behind @from that is free and has @least records, or a new one; caller holds the
 * lock. NULL: there is no memory for another one. */
static struct capo_ring *find_ring(uint32_t from, uint32_t least, uint32_t *nth)
{
        struct capo_area *area = &capo_seg.header->areas[CAPO_AREA_RINGS];
        const bool large = least > 0;
        struct capo_ring *ring;

        for (*nth = from; *nth < area->used; ++*nth) {
                ring = capo_area_at(&capo_seg, CAPO_AREA_RINGS, *nth);
                if (ring->size >= least &&
                    atomic_load_explicit(&ring->state, memory_order_acquire) == CAPO_RING_FREE)
                        return ring;
        }
        if (*nth >= (large ? CAPO_SEGMENT_RINGS / 2 : CAPO_SEGMENT_RINGS) ||
            capo_ring_commit(&capo_seg, *nth, large) < 0)
                return NULL;
        ring = capo_area_at(&capo_seg, CAPO_AREA_RINGS, *nth);
        atomic_store_explicit(&area->used, *nth + 1, memory_order_release);
        return ring->size >= least ? ring : NULL; /* else it waits for a thread that begins */
}

static void own_ring(struct capo_tls *t, struct capo_ring *ring, struct capo_site_entry *sites)
{
        t->sites = sites;
        t->ring = ring;
        t->mask = ring->size - 1;
        t->head = atomic_load_explicit(&ring->head, memory_order_relaxed);
        t->limit = t->head;
        atomic_store_explicit(&ring->thread, t->thread, memory_order_relaxed);
        atomic_store_explicit(&ring->tid, (uint32_t)syscall(SYS_gettid), memory_order_relaxed);
        atomic_store_explicit(&ring->state, CAPO_RING_LIVE, memory_order_release);
}

bool capo_ring_take(struct capo_tls *t)
{
        struct capo_site_entry *sites;
        struct capo_ring *ring;
        uint32_t nth;
        CAPO_NO_SIGNALS;

        capo_lock(&capo_seg.lock);
        ring = find_ring(0, 0, &nth);
        sites = ring ? sites_of(nth) : NULL;
        if (sites) {
                t->thread = atomic_fetch_add(&capo_seg.header->threads, 1) + 1;
                own_ring(t, ring, sites);
        }
        capo_unlock(&capo_seg.lock);
        return sites;
}

/* A thread that fills its ring faster than it is emptied goes on in a larger one, which lies behind
 * it so that what is older is taken out first. The members of an open group, which are not
 * published yet, come along. */
static void grow_ring(struct capo_tls *t)
{
        const uint64_t first = t->group_depth ? t->group_head : t->head, n = t->head - first;
        const uint32_t mask = t->mask;
        const struct capo_site_entry *before = t->sites;
        struct capo_ring *old = t->ring, *ring;
        struct capo_site_entry *sites;
        uint32_t nth = 0;
        CAPO_NO_SIGNALS;

        capo_lock(&capo_seg.lock);
        while (capo_area_at(&capo_seg, CAPO_AREA_RINGS, nth) != old)
                nth++;
        ring = find_ring(nth + 1, mask + 2, &nth);
        sites = ring ? sites_of(nth) : NULL;
        if (sites) {
                memcpy(sites, before, CAPO_SITE_CACHE * sizeof *sites);
                own_ring(t, ring, sites);
                t->group_head = t->head;
                for (uint64_t i = 0; i < n; i++)
                        ring->records[t->head++ & t->mask] = old->records[(first + i) & mask];
                if (n) /* nobody is in it any more */
                        old->records[first & mask].call = CAPO_CALL_NONE;
                atomic_store_explicit(&old->state, CAPO_RING_LEFT, memory_order_release);
        }
        t->no_larger = !sites;
        capo_unlock(&capo_seg.lock);
}

static uint64_t ring_used(const struct capo_tls *t)
{
        return t->head - atomic_load_explicit(&t->ring->tail, memory_order_acquire);
}

bool capo_ring_room(struct capo_tls *t)
{
        uint64_t used = ring_used(t), size = (uint64_t)t->mask + 1;

        if (used >= size / 2 && !t->no_larger && size <= CAPO_RING_FIRST &&
            size < capo_seg.header->ring_records && !capo_locked()) {
                grow_ring(t);
                used = ring_used(t);
                size = (uint64_t)t->mask + 1;
        }
        if (used < size / 2) {
                t->limit = t->head + (size / 2 - used);
                return true;
        }
        if (used < size) {
                uint64_t left = size - used;

                t->limit = t->head + (left < 64 ? left : 64); /* do not look at every call */
                capo_wake_drain();
                return true;
        }
        t->limit = t->head;
        return false;
}

void capo_record_put(struct capo_tls *t, struct capo_record r)
{
        if (t->head >= t->limit && !capo_ring_room(t)) {
                atomic_store_explicit(
                        &t->ring->dropped,
                        atomic_load_explicit(&t->ring->dropped, memory_order_relaxed) + 1,
                        memory_order_relaxed);
                atomic_store_explicit(&t->ring->dropped_at, r.t_begin, memory_order_relaxed);
                return;
        }
        t->ring->records[t->head & t->mask] = r;
        capo_ring_advance(t);
}

void capo_call_left(struct capo_tls *t)
{
        atomic_fetch_add_explicit(&capo_seg.header->dropped, 1, memory_order_relaxed);
        if (t->gpu && t->gpu_call.slot >= 0) {
                struct capo_slot *slot =
                        capo_area_at(&capo_seg, CAPO_AREA_SLOTS, (uint32_t)t->gpu_call.slot);

                atomic_store_explicit(&slot->state, CAPO_SLOT_FREE, memory_order_release);
        }
        t->gpu = t->spare = false;
        t->algo_proto = t->channels = 0;
        if (!t->group_depth)
                t->rule = 0;
        t->config = NULL;
        t->asked = NULL;
        t->tag = 0;
        t->inside = NULL;
}

void capo_thread_end(void)
{
        struct capo_tls *t = &capo_tls;

        if (!t->ready)
                return;
        /* of a child that a bare clone() made: the ring is the parent's */
        if (!atomic_load_explicit(&capo_life.state, memory_order_relaxed)) {
                memset(t, 0, sizeof *t);
                return;
        }
        if (t->inside) {
                capo_call_left(t);
                if (t->head - atomic_load_explicit(&t->ring->tail, memory_order_acquire) <= t->mask)
                        t->ring->records[t->head & t->mask].call =
                                CAPO_CALL_NONE; /* nobody is in it any more */
                atomic_store_explicit(&t->ring->closing, 0, memory_order_relaxed);
        }
        capo_ring_publish(t);
        atomic_store_explicit(&t->ring->state, CAPO_RING_LEFT, memory_order_release);
        memset(t, 0, sizeof *t);
}
