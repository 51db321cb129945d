/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators. A wrapped call has a handle and needs an entry: first the thread's last one (recorder.h), else a hash
 * table that is read without a lock. Entries are never taken out; a destroyed communicator's entry loses its handle,
 * because NCCL uses addresses again.
 *
 * The uid is what lets a report join ranks. Every rank must come to the same number by itself:
 *      CommInitRank*      hash of the 128-byte ncclUniqueId all ranks were given
 *      CommInitAll        the id NCCL makes inside (its call comes through our ncclGetUniqueId), else a random number:
 *                         all its ranks are in this process anyway
 *      Split, Shrink      hash of the parent's uid, how many children the parent had before, and the colour: collective
 *                         calls on one communicator come in one order on all ranks
 *      Grow               as Shrink for old ranks; new ranks, who know no parent, hash the ncclUniqueId: they are
 *                         joined with the others by NCCL's own commHash where a plugin was told it
 *      unknown            made before capo looked or by a door it does not see: 0
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "capo/msg.h"
#include "shim/nccl/comm.h"
#include "shim/record/start.h"

#define CHAINS 1024u

static _Atomic(struct capo_comm *) chains[CHAINS];
static _Atomic(struct capo_comm *) by_hash[256]; /* those that a plugin told of, by NCCL's hash */
_Atomic unsigned capo_comms_pending;

static struct capo_comm none = {.n_ranks = 1, .rank = -1, .device = -1, .gpu_wait = UINT32_MAX};
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* Births whose handle is not there yet; one list for all threads: it is short and rare. */
static struct {
        struct capo_birth birth;
        const struct capo_tls *thread;
} waiting[64];

struct capo_comm *capo_comm_none(void)
{
        return &none;
}

uint64_t capo_uid_of(const ncclUniqueId *id)
{
        uint64_t uid = XXH3_64bits(id, sizeof *id);

        return uid ? uid : 1;
}

uint64_t capo_uid_child(uint64_t parent, uint32_t nth, int color)
{
        uint64_t key[3] = {parent, nth, (uint64_t)(int64_t)color};
        uint64_t uid = XXH3_64bits(key, sizeof key);

        return parent == 0 ? 0 : uid ? uid : 1;
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

/* ---- names ---- */

/* CAPO_COMM_NAMES: lines "uid-or-ordinal name". The uid as the report prints it (hex), the ordinal decimal, 1 the
 * process' first communicator. */
static void name_from_file(const struct capo_comm *comm, char *name, size_t room)
{
        const char *path = capo_shim_env()->comm_names;
        _cleanup_close_ int fd = -1;
        char text[8192], *line, *next;
        ssize_t n;

        if (!*path)
                return;
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        if (n < 0) {
                capo_warn_once("%s: communicator names cannot be read: %s", path, strerror(errno));
                return;
        }
        text[n] = 0;
        for (line = text; line && *line; line = next) {
                char key[40], value[96], *end;
                unsigned long long number;

                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                if (*line == '#' || sscanf(line, "%39s %95[^\n]", key, value) != 2)
                        continue;
                number = strtoull(key, &end, strlen(key) == 16 ? 16 : 10);
                if (*end || (number != comm->uid && number != comm->id))
                        continue;
                snprintf(name, room, "%s", value);
                return;
        }
}

void capo_comm_config(struct capo_birth *birth, const ncclConfig_t *config)
{
        if (!config || config->size < offsetof(ncclConfig_t, cgaClusterSize) || config->magic != CAPO_NCCL_CONFIG_MAGIC)
                return;
        birth->nonblocking = config->blocking == 0;
        if (config->size >= offsetof(ncclConfig_t, commName) + sizeof config->commName && config->commName) {
                strncpy(birth->name, config->commName, sizeof birth->name - 1);
                for (char *p = birth->name; *p; p++) {
                        if ((unsigned char)*p < 32)
                                *p = ' ';
                }
        }
}

/* ---- birth, change, death ---- */

static struct capo_seg_comm *log_entry(const struct capo_comm *comm)
{
        return comm->id ? capo_area_at(&capo_seg, CAPO_AREA_COMMS, comm->id - 1) : NULL;
}

/* Change what the log says about @comm: between these two, under the segment's lock. */
static struct capo_seg_comm *change_begin(const struct capo_comm *comm)
{
        pthread_mutex_lock(&capo_seg.lock);
        return log_entry(comm);
}

static void change_end(struct capo_seg_comm *entry)
{
        if (entry)
                entry->stamp++;
        pthread_mutex_unlock(&capo_seg.lock);
}

/* Ask NCCL itself. Nested, so that nothing of it is recorded. */
static void ask(struct capo_tls *t, struct capo_comm *comm, struct capo_nccl *lib)
{
        uint32_t depth = t->depth;
        int v;

        t->depth = 1;
        if (comm->n_ranks == 0 && lib->ncclCommCount(comm->handle, &v) == ncclSuccess && v > 0)
                comm->n_ranks = (uint32_t)v;
        if (comm->rank < 0 && lib->ncclCommUserRank(comm->handle, &v) == ncclSuccess)
                comm->rank = v;
        if (comm->device < 0 && lib->ncclCommCuDevice(comm->handle, &v) == ncclSuccess)
                comm->device = v;
        t->depth = depth;
        capo_gpu_describe(comm->device);
}

static void describe(const struct capo_comm *comm, const struct capo_birth *birth)
{
        struct capo_seg_comm *entry = change_begin(comm);

        if (entry) {
                entry->log.rank = comm->rank;
                entry->log.n_ranks = comm->n_ranks ? (int32_t)comm->n_ranks : -1;
                entry->log.device = comm->device;
                entry->log.comm_hash = comm->comm_hash;
                if (birth) {
                        entry->log.id = comm->id;
                        entry->log.parent = birth->parent ? birth->parent->id : 0;
                        entry->log.color = birth->color;
                        entry->log.n_nodes = entry->log.min_local = entry->log.max_local = -1;
                        entry->log.uid = comm->uid;
                        entry->log.t_birth = capo_clock_ticks();
                        entry->log.handle = (uintptr_t)comm->handle;
                        entry->log.library = (uint16_t)comm->lib->number;
                        entry->log.flags = birth->nonblocking ? CAPO_COMM_NONBLOCKING : 0;
                        memcpy(entry->name, birth->name, sizeof birth->name);
                        name_from_file(comm, entry->name, sizeof entry->name);
                }
        }
        change_end(entry);
}

static uint16_t new_id(void)
{
        struct capo_area *area = &capo_seg.header->areas[CAPO_AREA_COMMS];
        uint16_t id = 0;

        pthread_mutex_lock(&capo_seg.lock);
        if (capo_area_commit(&capo_seg, CAPO_AREA_COMMS, area->used + 1) == 0) {
                atomic_store_explicit(&area->used, area->used + 1, memory_order_release);
                id = (uint16_t)area->used;
        }
        pthread_mutex_unlock(&capo_seg.lock);
        if (!id)
                capo_warn_once("no memory for another communicator; its calls are recorded without one");
        return id;
}

/* An entry from memory of our own: the job's allocator is not ours to call from inside its NCCL calls. */
static struct capo_comm *new_entry(void)
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

static void claim(struct capo_comm *comm);

static struct capo_comm *add(struct capo_tls *t, const struct capo_birth *birth, ncclComm_t handle, bool in_progress,
                             uint64_t begun)
{
        unsigned chain = chain_of(handle);
        struct capo_comm *c, *old;

        capo_gpu_look();
        pthread_mutex_lock(&table_lock);
        old = capo_comm_known(handle);
        if (old)
                __atomic_store_n(&old->handle, NULL, __ATOMIC_RELAXED); /* NCCL gave the address out again */
        c = new_entry();
        if (!c) {
                pthread_mutex_unlock(&table_lock);
                return capo_comm_none();
        }
        *c = (struct capo_comm){
                .handle = handle,
                .lib = birth->lib,
                .uid = birth->uid,
                .n_ranks = birth->n_ranks > 0 ? (uint32_t)birth->n_ranks : 0,
                .rank = birth->rank,
                .device = birth->device,
                .pending = in_progress,
                .begun = begun,
                .id = new_id(),
                .gpu_wait = 1,
                .next = atomic_load_explicit(&chains[chain], memory_order_relaxed),
        };
        if (in_progress)
                atomic_fetch_add(&capo_comms_pending, 1);
        else
                ask(t, c, birth->lib);
        atomic_store_explicit(&chains[chain], c, memory_order_release);
        pthread_mutex_unlock(&table_lock);
        describe(c, birth);
        claim(c);
        return c;
}

struct capo_comm *capo_comm_born(struct capo_tls *t, const struct capo_birth *birth, ncclResult_t result)
{
        if (result != ncclSuccess && result != ncclInProgress)
                return NULL;
        if (!t->group_depth)
                return *birth->where
                               ? add(t, birth, *birth->where, result == ncclInProgress, capo_call_record(t)->t_begin)
                               : NULL;
        pthread_mutex_lock(&table_lock);
        for (size_t i = 0; i < N_ELEMENTS(waiting); i++) {
                if (!waiting[i].thread) {
                        waiting[i].birth = *birth;
                        waiting[i].thread = t;
                        t->n_births++;
                        break;
                }
        }
        pthread_mutex_unlock(&table_lock);
        return NULL;
}

void capo_comm_group_over(struct capo_tls *t, ncclResult_t result)
{
        for (size_t i = 0; i < N_ELEMENTS(waiting) && t->n_births; i++) {
                struct capo_birth birth;

                pthread_mutex_lock(&table_lock);
                if (waiting[i].thread != t) {
                        pthread_mutex_unlock(&table_lock);
                        continue;
                }
                birth = waiting[i].birth;
                waiting[i].thread = NULL;
                pthread_mutex_unlock(&table_lock);
                t->n_births--;
                if ((result == ncclSuccess || result == ncclInProgress) && *birth.where)
                        add(t, &birth, *birth.where, result == ncclInProgress, t->group_begin);
        }
        t->n_births = 0;
}

void capo_comm_settled(struct capo_tls *t, struct capo_comm *comm)
{
        comm->pending = false;
        atomic_fetch_sub(&capo_comms_pending, 1);
        ask(t, comm, comm->lib);
        describe(comm, NULL);
        if (!comm->comm_hash)
                claim(comm);
}

void capo_comm_died(struct capo_comm *comm, bool aborted)
{
        struct capo_seg_comm *entry;

        if (!comm->id)
                return;
        entry = change_begin(comm);
        entry->log.t_death = capo_clock_ticks();
        if (aborted)
                entry->log.flags |= CAPO_COMM_ABORTED;
        change_end(entry);
        if (comm->pending)
                atomic_fetch_sub(&capo_comms_pending, 1);
        comm->pending = false;
        __atomic_store_n(&comm->handle, NULL, __ATOMIC_RELAXED);
}

/* Out of line of capo_call_begin(): not the communicator of the last call. */
struct capo_comm *capo_comm_find(struct capo_tls *t, ncclComm_t handle, int which, const void *caller)
{
        struct capo_comm *c;
        int saved = errno;

        if (!handle) {
                c = capo_comm_none();
        } else {
                c = capo_comm_known(handle);
                if (!c) {
                        struct capo_birth birth = {.lib = capo_lib(t, which, caller),
                                                   .rank = -1,
                                                   .n_ranks = -1,
                                                   .device = -1,
                                                   .color = -1};

                        c = add(t, &birth, handle, false, capo_clock_ticks());
                }
        }
        errno = saved;
        return c;
}

/* ---- what plugins tell ---- */

/*
 * A plugin's init runs while its communicator is being made, so before capo knows the handle, and names no handle. What
 * it told is kept here, and a communicator takes what was told since its own init began: by its own thread if that
 * spoke, else (NCCL makes communicators of a group and non-blocking ones on threads of its own) the only one that fits
 * in size and rank. When several fit, unknown is better than wrong. Ranks of one communicator in one process share its
 * hash.
 */
static struct told {
        struct capo_seam_comm what;
        char name[96];
        const void *thread; /* who said it */
        uint64_t when;      /* ticks; 0 the place is empty */
} tolds[64];
static pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;

static bool fits(const struct capo_seam_comm *told, const struct capo_comm *comm)
{
        return (told->n_ranks < 0 || comm->n_ranks == 0 || (uint32_t)told->n_ranks == comm->n_ranks) &&
               (told->rank < 0 || comm->rank < 0 || told->rank == comm->rank);
}

/* Called with told_lock held. */
static void apply(struct capo_comm *comm, const struct told *told)
{
        _Atomic(struct capo_comm *) *chain = &by_hash[told->what.comm_hash % N_ELEMENTS(by_hash)];
        struct capo_seg_comm *entry;

        if (told->what.comm_hash && !comm->comm_hash) { /* it never changes after */
                comm->comm_hash = told->what.comm_hash;
                comm->next_by_hash = atomic_load_explicit(chain, memory_order_relaxed);
                atomic_store_explicit(chain, comm, memory_order_release);
        }
        entry = change_begin(comm);
        if (entry) {
                entry->log.comm_hash = comm->comm_hash;
                if (told->what.n_nodes > 0)
                        entry->log.n_nodes = told->what.n_nodes;
                if (told->what.min_local > 0)
                        entry->log.min_local = told->what.min_local;
                if (told->what.max_local > 0)
                        entry->log.max_local = told->what.max_local;
                if (told->what.tuned)
                        entry->log.flags |= CAPO_COMM_TUNED;
                if (!entry->name[0])
                        memcpy(entry->name, told->name, sizeof told->name);
        }
        change_end(entry);
}

/* A communicator has just been added: was it told of? */
static void claim(struct capo_comm *comm)
{
        struct told *mine = NULL, *other = NULL;
        bool several = false;

        pthread_mutex_lock(&told_lock);
        for (size_t i = 0; i < N_ELEMENTS(tolds); i++) {
                struct told *told = &tolds[i];

                if (told->when < comm->begun || !told->when || !fits(&told->what, comm))
                        continue;
                if (told->thread == &capo_tls)
                        mine = !mine || told->when > mine->when ? told : mine;
                several |= other && other->what.comm_hash != told->what.comm_hash;
                other = told;
        }
        if (mine || (other && !several))
                apply(comm, mine ? mine : other);
        pthread_mutex_unlock(&told_lock);
}

static bool same_comm(const struct capo_seam_comm *a, const struct capo_seam_comm *b)
{
        return a->comm_hash == b->comm_hash && (a->rank < 0 || b->rank < 0 || a->rank == b->rank);
}

/* The place of @what: where another plugin told of the same, else the oldest. */
static struct told *told_place(const struct capo_seam_comm *what)
{
        struct told *oldest = &tolds[0];

        for (size_t i = 0; i < N_ELEMENTS(tolds); i++) {
                if (tolds[i].when && what->comm_hash && same_comm(&tolds[i].what, what))
                        return &tolds[i];
                if (tolds[i].when < oldest->when)
                        oldest = &tolds[i];
        }
        *oldest = (struct told){.what = {.n_nodes = -1, .min_local = -1, .max_local = -1, .n_ranks = -1, .rank = -1}};
        return oldest;
}

void capo_comm_told(const struct capo_seam_comm *what)
{
        struct capo_comm *comm;
        struct told *told;

        if (atomic_load(&capo_shim_state) != CAPO_SHIM_ON)
                return;
        pthread_mutex_lock(&told_lock);
        told = told_place(what);
        told->thread = &capo_tls;
        told->when = capo_clock_ticks();
        told->what.comm_hash = what->comm_hash;
        told->what.tuned |= what->tuned;
        told->what.n_ranks = what->n_ranks > 0 ? what->n_ranks : told->what.n_ranks;
        told->what.rank = what->rank >= 0 ? what->rank : told->what.rank;
        told->what.n_nodes = what->n_nodes > 0 ? what->n_nodes : told->what.n_nodes;
        told->what.min_local = what->min_local > 0 ? what->min_local : told->what.min_local;
        told->what.max_local = what->max_local > 0 ? what->max_local : told->what.max_local;
        if (what->name)
                snprintf(told->name, sizeof told->name, "%s", what->name);
        comm = what->comm_hash ? capo_comm_by_hash(what->comm_hash) : NULL;
        if (comm &&
            fits(&told->what, comm)) /* a non-blocking one that was claimed already, of which more is told now */
                apply(comm, told);
        pthread_mutex_unlock(&told_lock);
}

void capo_comm_fork(void)
{
        for (unsigned i = 0; i < CHAINS; i++)
                atomic_store_explicit(&chains[i], NULL, memory_order_relaxed);
        for (unsigned i = 0; i < N_ELEMENTS(by_hash); i++)
                atomic_store_explicit(&by_hash[i], NULL, memory_order_relaxed);
        memset(waiting, 0, sizeof waiting);
        atomic_store(&capo_comms_pending, 0);
        memset(tolds, 0, sizeof tolds);
        pthread_mutex_init(&table_lock, NULL);
        pthread_mutex_init(&told_lock, NULL);
}
