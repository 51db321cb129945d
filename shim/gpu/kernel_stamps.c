/* SPDX-License-Identifier: Apache-2.0 */
/* GPU time of a call by the GPU's own timer (CAPO_KERNEL_TIME=1): NCCL's kernel stamps its begin
 * and end, and the profiler plugin hands the stamps over when NCCL's proxy thread has collected
 * them, mostly long after the call returned. So the record waits in a slot of the segment (where a
 * kill finds it), named by NCCL's number of the communicator and by the how-manieth collective it
 * was there. Stamps that come before the call has returned wait in a small list instead.
 *
 * NCCL loses stamps under load: a record goes on with its host time when it has waited WAIT_NS
 * since a later collective of its communicator had its stamps, or LOST_NS in all. Not sooner: a
 * host may be far ahead of its GPU.
 *
 * Ranks of one communicator that share a process share its number, and the plugin's stamps do not
 * name the rank: there a rank may get the stamps of its neighbour in the same collective.
 *
 * One lock, for recorded calls too: this mode, which is asked for, costs NCCL more than that. */

#include "capo/seam.h"
#include "shim/record/recorder.h"
#include "shim/record/start.h"

#define FIRST   1024u /* slots before this one are gpu.c's */
#define COUNT   1024u
#define EARLY   64u
#define WAIT_NS 2000000000u
#define LOST_NS 60000000000u
#define NEWEST  16u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wait {
        uint64_t comm_hash, since_ns,
                passed_ns; /* passed: a later one was found to have its stamps; 0 not yet */
        uint32_t nth;
        bool armed;
} waits[COUNT];
static struct newest { /* of the communicators that had stamps last */
        uint64_t comm_hash;
        uint32_t nth;
} newest[NEWEST];
static struct {
        uint64_t comm_hash, ns;
        uint32_t nth, waited;
} early[EARLY];
static uint32_t n_early, n_armed, n_newest, next;
static bool ready, refused;

static struct capo_slot *slot_at(uint32_t i)
{
        return capo_area_at(&capo_seg, CAPO_AREA_SLOTS, FIRST + i);
}

static bool get_ready(void)
{
        struct capo_area *area = &capo_seg.header->areas[CAPO_AREA_SLOTS];

        capo_lock(&capo_seg.lock);
        ready = capo_area_commit(&capo_seg, CAPO_AREA_SLOTS, FIRST + COUNT) == 0;
        refused = !ready;
        if (ready)
                atomic_store_explicit(&area->used, FIRST + COUNT, memory_order_release);
        capo_unlock(&capo_seg.lock);
        return ready;
}

static void stamp_record(struct capo_record *r, uint64_t ns, uint32_t waited)
{
        r->clock = CAPO_CLOCK_KERNEL;
        r->gpu_ns = ns;
        r->group = waited; /* capo_record_waited() */
}

bool capo_kernel_wait(uint64_t comm_hash, uint32_t nth, struct capo_record *r)
{
        bool waiting = false;

        capo_lock_brief(&lock);
        for (uint32_t i = 0; i < EARLY; i++) {
                if (early[i].nth == nth && early[i].comm_hash == comm_hash) {
                        stamp_record(r, early[i].ns, early[i].waited);
                        early[i].nth = 0;
                        goto out;
                }
        }
        if (!ready && (refused || !get_ready()))
                goto out;
        for (uint32_t k = 0; k < 64 && !waiting; k++) {
                uint32_t i = next++ % COUNT;
                struct capo_slot *slot = slot_at(i);

                if (atomic_load_explicit(&slot->state, memory_order_acquire) != CAPO_SLOT_FREE)
                        continue;
                waits[i] = (struct wait){.comm_hash = comm_hash,
                                         .since_ns = capo_clock_mono(),
                                         .nth = nth,
                                         .armed = true};
                slot->record = *r;
                atomic_store_explicit(&slot->state, CAPO_SLOT_ARMED, memory_order_release);
                n_armed++;
                waiting = true;
        }
        if (!waiting)
                atomic_fetch_add_explicit(&capo_seg.header->gpu_dropped, 1, memory_order_relaxed);
out:
        capo_unlock_brief(&lock);
        return waiting;
}

/* Caller holds the lock. */
static void let_go(uint32_t i)
{
        waits[i].armed = false;
        n_armed--;
        atomic_store_explicit(&slot_at(i)->state, CAPO_SLOT_DONE, memory_order_release);
}

static struct newest *newest_of(uint64_t comm_hash)
{
        for (uint32_t i = 0; i < NEWEST; i++) {
                if (newest[i].nth && newest[i].comm_hash == comm_hash)
                        return &newest[i];
        }
        return NULL;
}

static void update_newest(uint64_t comm_hash, uint32_t nth)
{
        struct newest *n = newest_of(comm_hash);

        if (!n) {
                n = &newest[n_newest++ % NEWEST];
                *n = (struct newest){.comm_hash = comm_hash};
        }
        n->nth = nth > n->nth ? nth : n->nth;
}

/* Will its stamps not come any more? */
static bool is_lost(struct wait *w, uint64_t now)
{
        const struct newest *n = w->passed_ns ? NULL : newest_of(w->comm_hash);

        if (n && n->nth > w->nth)
                w->passed_ns = now;
        return (w->passed_ns && now - w->passed_ns > WAIT_NS) || now - w->since_ns > LOST_NS;
}

/* struct capo_seam: from NCCL's proxy thread. */
void capo_comm_kernel(const struct capo_seam_kernel *k)
{
        uint64_t ns = k->end > k->begin ? k->end - k->begin : 0,
                 waited = k->moved ? k->moved - k->begin : 0;
        uint32_t kept = !k->moved ? 0 : waited < UINT32_MAX ? 1 + (uint32_t)waited : UINT32_MAX;
        bool found = false;

        if (atomic_load(&capo_life.state) != CAPO_SHIM_ON)
                return;
        capo_lock_brief(&lock);
        update_newest(k->comm_hash, k->nth);
        for (uint32_t i = 0; i < COUNT && n_armed && !found; i++) {
                if (waits[i].armed && waits[i].nth == k->nth &&
                    waits[i].comm_hash == k->comm_hash) {
                        stamp_record(&slot_at(i)->record, ns, kept);
                        let_go(i);
                        found = true;
                }
        }
        if (!found) {
                early[n_early % EARLY].comm_hash = k->comm_hash;
                early[n_early % EARLY].nth = k->nth;
                early[n_early % EARLY].ns = ns;
                early[n_early % EARLY].waited = kept;
                n_early++;
        }
        capo_unlock_brief(&lock);
}

void capo_kernel_poll(bool all)
{
        uint64_t now;

        capo_lock_brief(&lock);
        now = capo_clock_mono(); /* not before: who came in while the lock was waited for would have
                                    waited less than nothing, so for ever */
        for (uint32_t i = 0; i < COUNT && n_armed; i++) {
                if (waits[i].armed && (all || is_lost(&waits[i], now)))
                        let_go(i); /* its host time stands */
        }
        capo_unlock_brief(&lock);
}

void capo_kernel_fork(void)
{
        pthread_mutex_init(&lock, NULL);
        memset(waits, 0, sizeof waits);
        memset(early, 0, sizeof early);
        memset(newest, 0, sizeof newest);
        n_armed = 0;
        ready = refused = false;
}
