/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "capo/msg.h"
#include "shim/record/comms.h"

#define CHAINS 1024u

static _Atomic(struct capo_comm *) chains[CHAINS];
static _Atomic(struct capo_comm *) by_hash[256]; /* those that a plugin told of, by NCCL's hash */

static struct capo_comm none = {.n_ranks = 1, .rank = -1, .device = -1, .gpu_wait = UINT32_MAX};

struct capo_comm *capo_comm_none(void)
{
        return &none;
}

static unsigned chain_of(const void *handle)
{
        return (unsigned)(XXH3_64bits(&handle, sizeof handle) % CHAINS);
}

struct capo_comm *capo_comm_known(const void *handle)
{
        struct capo_comm *c = atomic_load_explicit(&chains[chain_of(handle)], memory_order_acquire);

        while (c && __atomic_load_n(&c->handle, __ATOMIC_RELAXED) != handle)
                c = c->next;
        return c;
}

struct capo_comm *capo_comm_by_hash(uint64_t comm_hash)
{
        struct capo_comm *likely_ones[] = {capo_tls.comm, capo_tls.comm_before, capo_tls.group_comm};

        if (!comm_hash)
                return NULL;
        for (size_t i = 0; i < N_ELEMENTS(likely_ones); i++) {
                if (likely_ones[i] && likely_ones[i]->comm_hash == comm_hash)
                        return likely_ones[i];
        }
        for (struct capo_comm *c =
                     atomic_load_explicit(&by_hash[comm_hash % N_ELEMENTS(by_hash)], memory_order_acquire);
             c; c = c->next_by_hash) {
                if (c->comm_hash == comm_hash && c->handle)
                        return c;
        }
        return NULL;
}

bool capo_comm_same(uint16_t id, uint64_t comm_hash)
{
        for (struct capo_comm *c =
                     atomic_load_explicit(&by_hash[comm_hash % N_ELEMENTS(by_hash)], memory_order_acquire);
             c; c = c->next_by_hash) {
                if (c->id == id)
                        return c->comm_hash == comm_hash;
        }
        return false;
}

void capo_comm_enter(struct capo_comm *comm)
{
        _Atomic(struct capo_comm *) *chain = &chains[chain_of(comm->handle)];

        comm->next = atomic_load_explicit(chain, memory_order_relaxed);
        atomic_store_explicit(chain, comm, memory_order_release);
}

void capo_comm_name_hash(struct capo_comm *comm, uint64_t hash)
{
        _Atomic(struct capo_comm *) *chain = &by_hash[hash % N_ELEMENTS(by_hash)];

        comm->comm_hash = hash;
        comm->next_by_hash = atomic_load_explicit(chain, memory_order_relaxed);
        atomic_store_explicit(chain, comm, memory_order_release);
}

static struct capo_seg_comm *log_entry(const struct capo_comm *comm)
{
        return comm->id ? capo_area_at(&capo_seg, CAPO_AREA_COMMS, comm->id - 1) : NULL;
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

uint16_t capo_comm_new_id(void)
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
                capo_warn_once("no memory for another communicator; its calls are recorded without one");
        return id;
}

struct capo_comm *capo_comm_new(void)
{
        static struct capo_comm *block;
        static unsigned used, in_block;

        if (used == in_block) {
                in_block = 256;
                used = 0;
                block = capo_shim_alloc(in_block * sizeof *block);
                if (!block)
                        in_block = 0;
        }
        return block ? &block[used++] : NULL;
}

void capo_comms_fork(void)
{
        for (unsigned i = 0; i < CHAINS; i++)
                atomic_store_explicit(&chains[i], NULL, memory_order_relaxed);
        for (unsigned i = 0; i < N_ELEMENTS(by_hash); i++)
                atomic_store_explicit(&by_hash[i], NULL, memory_order_relaxed);
}
