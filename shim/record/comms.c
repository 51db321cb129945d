/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "capo/msg.h"
#include "shim/record/comms.h"
#include "shim/record/recorder.h"

#define CHAINS  1024u
#define REST_NS 1000000000u
#define OF_ONE  64512u /* ids that one communicator has to itself */

static _Atomic(struct capo_comm *) chains[CHAINS];
/* Those that a plugin reported, by NCCL's hash. A plugin reports under another lock than the one
 * under which communicators come and go, so these chains have their own. */
static _Atomic(struct capo_comm *) by_hash[256];
static pthread_mutex_t hash_lock = PTHREAD_MUTEX_INITIALIZER;

static struct capo_comm none = {.n_ranks = 1, .rank = -1, .device = -1, .gpu_wait = UINT32_MAX};

struct capo_comm *capo_comm_none(void) { return &none; }

/* The dead, oldest first. Under the caller's lock, like everything that changes the table. */
static struct {
        struct capo_comm *first, *last;
} dead;

static unsigned chain_of(const void *handle)
{
        return (unsigned)(XXH3_64bits(&handle, sizeof handle) % CHAINS);
}

struct capo_comm *capo_comm_known(const void *handle)
{
        struct capo_comm *c = atomic_load_explicit(&chains[chain_of(handle)], memory_order_acquire);

        while (c && __atomic_load_n(&c->handle, __ATOMIC_ACQUIRE) != handle)
                c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE);
        return c;
}

static uint64_t hash_of(const struct capo_comm *comm)
{
        return __atomic_load_n(&comm->comm_hash, __ATOMIC_RELAXED);
}

struct capo_comm *capo_comm_by_hash(uint64_t comm_hash)
{
        struct capo_comm *likely_ones[] = {capo_tls.comm, capo_tls.comm_before,
                                           capo_tls.group_comm};

        if (!comm_hash)
                return NULL;
        for (size_t i = 0; i < N_ELEMENTS(likely_ones); i++) {
                if (likely_ones[i] && hash_of(likely_ones[i]) == comm_hash)
                        return likely_ones[i];
        }
        for (struct capo_comm *c = atomic_load_explicit(&by_hash[comm_hash % N_ELEMENTS(by_hash)],
                                                        memory_order_acquire);
             c; c = __atomic_load_n(&c->next_by_hash, __ATOMIC_ACQUIRE)) {
                if (hash_of(c) == comm_hash && __atomic_load_n(&c->handle, __ATOMIC_RELAXED))
                        return c;
        }
        return NULL;
}

bool capo_comm_same(uint16_t id, uint64_t comm_hash)
{
        for (struct capo_comm *c = atomic_load_explicit(&by_hash[comm_hash % N_ELEMENTS(by_hash)],
                                                        memory_order_acquire);
             c; c = __atomic_load_n(&c->next_by_hash, __ATOMIC_ACQUIRE)) {
                if (c->id == id)
                        return hash_of(c) == comm_hash;
        }
        return false;
}

void capo_comm_enter(struct capo_comm *comm)
{
        _Atomic(struct capo_comm *) *chain = &chains[chain_of(comm->handle)];

        __atomic_store_n(&comm->next, atomic_load_explicit(chain, memory_order_relaxed),
                         __ATOMIC_RELEASE);
        atomic_store_explicit(chain, comm, memory_order_release);
}

/* Take @comm out of the chain that begins at @chain; @next: where in an entry the next one stands.
 */
static void unchain_comm(_Atomic(struct capo_comm *) *chain, const struct capo_comm *comm,
                         size_t next)
{
#define NEXT(c) (struct capo_comm **)((char *)(c) + next)
        struct capo_comm *c = atomic_load_explicit(chain, memory_order_relaxed),
                         *after = *NEXT(comm);

        if (c == comm) {
                atomic_store_explicit(chain, after, memory_order_release);
                return;
        }
        while (c && *NEXT(c) != comm)
                c = *NEXT(c);
        if (c)
                __atomic_store_n(NEXT(c), after, __ATOMIC_RELEASE);
#undef NEXT
}

void capo_comm_leave(struct capo_comm *comm)
{
        const void *handle = comm->handle;

        if (!handle)
                return;
        unchain_comm(&chains[chain_of(handle)], comm, offsetof(struct capo_comm, next));
        capo_lock(&hash_lock);
        __atomic_store_n(&comm->handle, NULL, __ATOMIC_RELAXED);
        if (comm->comm_hash)
                unchain_comm(&by_hash[comm->comm_hash % N_ELEMENTS(by_hash)], comm,
                             offsetof(struct capo_comm, next_by_hash));
        capo_unlock(&hash_lock);
        comm->died = capo_clock_mono();
        comm->next_dead = NULL;
        if (dead.last)
                dead.last->next_dead = comm;
        else
                dead.first = comm;
        dead.last = comm;
}

void capo_comm_name_hash(struct capo_comm *comm, uint64_t hash)
{
        _Atomic(struct capo_comm *) *chain = &by_hash[hash % N_ELEMENTS(by_hash)];

        capo_lock(&hash_lock);
        if (!comm->comm_hash && comm->handle) {
                __atomic_store_n(&comm->comm_hash, hash, __ATOMIC_RELAXED);
                __atomic_store_n(&comm->next_by_hash,
                                 atomic_load_explicit(chain, memory_order_relaxed),
                                 __ATOMIC_RELEASE);
                atomic_store_explicit(chain, comm, memory_order_release);
        }
        capo_unlock(&hash_lock);
}

static struct capo_seg_comm *log_entry(const struct capo_comm *comm)
{
        return comm->id ? capo_area_at(&capo_seg, CAPO_AREA_COMMS, comm->id - 1) : NULL;
}

struct capo_comm *capo_comm_numbered(uint16_t id)
{
        const struct capo_seg_comm *entry =
                id ? capo_area_at(&capo_seg, CAPO_AREA_COMMS, id - 1) : NULL;
        uint64_t handle = entry ? __atomic_load_n(&entry->log.handle, __ATOMIC_RELAXED) : 0;
        struct capo_comm *comm = handle ? capo_comm_known((const void *)(uintptr_t)handle) : NULL;

        return comm && comm->id == id ? comm : NULL;
}

struct capo_seg_comm *capo_comm_change(const struct capo_comm *comm)
{
        capo_lock(&capo_seg.lock);
        return log_entry(comm);
}

void capo_comm_changed(struct capo_seg_comm *entry)
{
        if (entry)
                entry->stamp++;
        capo_unlock(&capo_seg.lock);
}

static uint16_t new_id(void)
{
        struct capo_area *area = &capo_seg.header->areas[CAPO_AREA_COMMS];
        uint16_t id = 0;

        capo_lock(&capo_seg.lock);
        if (capo_area_commit(&capo_seg, CAPO_AREA_COMMS, area->used + 1) == 0) {
                atomic_store_explicit(&area->used, area->used + 1, memory_order_release);
                id = (uint16_t)area->used;
        }
        capo_unlock(&capo_seg.lock);
        if (!id)
                capo_warn_once(
                        "no memory for another communicator; its calls are recorded without one");
        return id;
}

/* Those that share ids, by what is alike. */
static struct alike {
        const void *lib;
        uint32_t n_ranks;
        int rank, device;
        uint16_t id;
} alikes[65535 - OF_ONE];
static unsigned n_alike;

bool capo_comm_name_id(struct capo_comm *comm)
{
        if (capo_seg.header->areas[CAPO_AREA_COMMS].used < OF_ONE) {
                comm->id = new_id();
                return false;
        }
        capo_warn_once("more than %u communicators: from here on those of one size share a number",
                       OF_ONE);
        comm->uid = 0;
        for (unsigned i = 0; i < n_alike; i++) {
                const struct alike *a = &alikes[i];

                if (a->lib == comm->lib && a->n_ranks == comm->n_ranks && a->rank == comm->rank &&
                    a->device == comm->device) {
                        comm->id = a->id;
                        return true;
                }
        }
        comm->id = new_id();
        if (comm->id && n_alike < N_ELEMENTS(alikes))
                alikes[n_alike++] = (struct alike){comm->lib, comm->n_ranks, comm->rank,
                                                   comm->device, comm->id};
        return false;
}

/* The one that died first, if it has rested; else a place that nobody has had. */
static struct capo_comm *alloc_comm(void)
{
        static struct capo_comm *block;
        static unsigned used, in_block;

        if (dead.first && capo_clock_mono() - dead.first->died > REST_NS) {
                struct capo_comm *again = dead.first;

                dead.first = again->next_dead;
                if (!dead.first)
                        dead.last = NULL;
                return again;
        }
        if (used == in_block) {
                in_block = 256;
                used = 0;
                block = capo_shim_alloc(in_block * sizeof *block);
                if (!block)
                        in_block = 0;
        }
        return block ? &block[used++] : NULL;
}

struct capo_comm *capo_comm_new(const struct capo_comm *what)
{
        const size_t from = offsetof(struct capo_comm, lib),
                     to = offsetof(struct capo_comm, comm_hash);
        struct capo_comm *comm = alloc_comm();

        if (!comm)
                return NULL;
        memcpy((char *)comm + from, (const char *)what + from, to - from);
        __atomic_store_n(&comm->comm_hash, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&comm->handle, what->handle, __ATOMIC_RELEASE);
        return comm;
}

void capo_comms_fork(void)
{
        for (unsigned i = 0; i < CHAINS; i++)
                atomic_store_explicit(&chains[i], NULL, memory_order_relaxed);
        for (unsigned i = 0; i < N_ELEMENTS(by_hash); i++)
                atomic_store_explicit(&by_hash[i], NULL, memory_order_relaxed);
        pthread_mutex_init(&hash_lock, NULL);
        dead.first = dead.last = NULL;
        n_alike = 0;
}
