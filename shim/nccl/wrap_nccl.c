/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrappers. wrap_set.h makes one function per row of nccl_calls.def; it is included once for
 * the names the dynamic linker binds (which NCCL they lead to is decided per caller), and once per
 * copy of NCCL for callers that asked dlsym for a function of exactly that copy. Written by hand
 * here is only what creates a communicator, ends one, or opens and closes groups.
 */
#include "capo/call_ids.h"
#include "shim/nccl/call_override.h"
#include "shim/nccl/comm.h"
#include "shim/record/left.h"

/* no colour of a split: those are not negative */
enum { COLOR_SHRINK = -1000001, COLOR_GROW = -1000002 };

/* Nothing is known but where NCCL puts it. */
static struct capo_creation begin_creation(ncclComm_t *where, struct capo_nccl *lib)
{
        return (struct capo_creation){
                .where = where, .lib = lib, .rank = -1, .n_ranks = -1, .device = -1, .color = -1};
}

/* One without a parent. @id NULL: not known. @grown: neither its new ranks
 * nor its old ones can say what NCCL's hash of it will be. */
static struct capo_creation create_first(struct capo_nccl *lib, ncclComm_t *where,
                                         const ncclUniqueId *id, int n_ranks, int rank,
                                         const ncclConfig_t *config, bool grown)
{
        struct capo_creation creation = begin_creation(where, lib);

        creation.uid = id ? capo_uid_of(id) : 0;
        creation.nccl_hash = id ? capo_override_hash(id) : 0;
        creation.n_ranks = n_ranks;
        creation.rank = rank;
        creation.apart = grown;
        capo_comm_config(&creation, config);
        return creation;
}

/* Of Split, Shrink and Grow. @n_ranks: -1 not known. */
static struct capo_creation create_child(struct capo_comm *parent, ncclComm_t *where, int color,
                                         int n_ranks, const ncclConfig_t *config)
{
        struct capo_creation creation = begin_creation(where, parent->lib);

        creation.parent = parent;
        creation.apart = parent->apart || color == COLOR_GROW;
        creation.uid = capo_uid_child(parent->uid, parent->children++, color);
        if (color >= 0) /* a split: what a shrink's and a grow's is, is not worked out */
                creation.nccl_hash =
                        capo_override_hash_split(parent->nccl_hash, (int)parent->children, color);
        creation.color = color < 0 ? -1 : color;
        creation.n_ranks = n_ranks;
        capo_comm_config(&creation, config);
        return creation;
}

/* As create_child(); the new communicator has @n_excluded ranks less. */
static struct capo_creation create_shrunk(struct capo_comm *parent, ncclComm_t *where,
                                          int n_excluded, const ncclConfig_t *config)
{
        int n_ranks = (int)parent->n_ranks - n_excluded;

        return create_child(parent, where, COLOR_SHRINK,
                            parent->n_ranks && n_excluded >= 0 && n_ranks > 0 ? n_ranks : -1,
                            config);
}

/* Was this thread's call left without a return? Asked by all but NCCL's code, which it calls. */
static bool was_left(struct capo_tls *t, const void *frame)
{
        const struct capo_site_entry *e;
        const void *at;

        if (capo_left(t->inside, frame, &at))
                return true;
        if (!at || at == t->caller)
                return false;
        if (!t->sites)
                return true;
        e = capo_site_entry(t, at, t->inside);
        return e->caller != at || e->frame != t->inside;
}

struct capo_nccl *capo_lib_within(struct capo_tls *t, int which, const void *caller)
{
        struct capo_nccl *lib = !t->inside                ? NULL
                                : t->comm && t->comm->lib ? t->comm->lib
                                                          : t->lib_of_none;

        if (which >= 0)
                return &capo_nccl_copies[which];
        if (!lib && capo_locked() && capo_nccl_copies[0].ncclGetVersion)
                lib = &capo_nccl_copies[0];
        /* NCCL's call of its own name goes where it came from; so one that must wait for no lock */
        return lib && ((capo_nccl_own(lib, caller) && !capo_nccl_beyond(caller)) || capo_locked())
                       ? lib
                       : capo_lib(t, which, caller);
}

static bool is_of_nccl(const void *code, const void *lib) { return capo_nccl_own(lib, code); }

bool capo_call_passes(struct capo_tls *t, int which, const void *caller, const void *frame,
                      struct capo_nccl **into)
{
        if (unlikely(t->inside)) {
                *into = capo_lib_within(t, which, caller);
                if (capo_nccl_own(*into, caller))
                        return true;
                if (!was_left(t, frame)) {
                        /* NCCL's own call, by another library that wraps it, or a signal's handler
                         */
                        if (capo_seg.header && !capo_site_through(is_of_nccl, *into))
                                atomic_fetch_add_explicit(&capo_seg.header->dropped, 1,
                                                          memory_order_relaxed);
                        return true;
                }
                capo_call_left(t);
        }
        if (unlikely(capo_nccl_beyond(caller))) {
                *into = capo_lib(t, which, caller);
                return true;
        }
        t->caller = caller;
        t->inside = frame;
        atomic_signal_fence(
                memory_order_seq_cst); /* what a handler calls from here on meets no lock of ours */
        if (capo_recording(t)) {
                t->caller = caller;
                t->inside = frame; /* which a child that was made by clone() has just forgotten */
                return false;
        }
        t->inside = NULL;
        *into = capo_lib(t, which, caller);
        return true;
}

/* The long way of the table's calls: nested, of a thread without a record, or unlike the last. */
#define PARAMS(...) (int which, const void *caller, const void *frame, __VA_ARGS__)
#define CALL(name, params, args, id, comm_, stream_, ...)                                          \
        static __attribute__((noinline, cold)) ncclResult_t rare_##name PARAMS params              \
        {                                                                                          \
                const struct capo_what what = {__VA_ARGS__};                                       \
                struct capo_tls *t = &capo_tls;                                                    \
                struct capo_nccl *into;                                                            \
                struct capo_record *r;                                                             \
                ncclResult_t rc;                                                                   \
                                                                                                   \
                if (capo_call_passes(t, which, caller, frame, &into))                              \
                        return capo_override_unrecorded(t, into, (void *)comm_)->name args;        \
                if (what.config)                                                                   \
                        capo_config_take(t, what.config);                                          \
                r = capo_call_begin_rare(t, (void *)comm_, (void *)stream_, which, CAPO_CALL_##id, \
                                         &what, caller, frame);                                    \
                rc = (t->comm->into ? t->comm->into : t->lib_of_none)->name args;                  \
                capo_call_end(t, r, capo_clock_ticks(), rc, what.other, (void *)stream_);          \
                t->config = NULL;                                                                  \
                t->tag = 0;                                                                        \
                return rc;                                                                         \
        }
#define HAND(name, params, args)
#define PASS(type, name, params, args, missing)
#include "capo/nccl_calls.def"

/* The record of a call that is neither a collective nor p2p, made by hand. */
static void put_record(struct capo_tls *t, unsigned id, const struct capo_comm *comm,
                       uint64_t begin, ncclResult_t result, const void *caller, const void *frame)
{
        struct capo_record r = {
                .t_begin = begin,
                .t_end = capo_clock_ticks(),
                .peer = -1,
                .comm = comm ? comm->id : 0,
                .site = (uint16_t)capo_site_here(t, caller, frame),
                .call = (uint8_t)id,
                .type = NO_TYPE,
                .op = NO_OP,
                .result = (int8_t)result,
                .clock = CAPO_CLOCK_HOST,
                .flags = result == ncclInProgress ? CAPO_RECORD_ASYNC : 0,
                .thread = (uint16_t)t->thread,
        };

        capo_record_put(t, r);
}

/* Where put_record() will put it: another process sees what it is in (core/log/unfinished.h). A
 * group tells by its members. */
static void show_record(struct capo_tls *t)
{
        if (t->head < t->limit || capo_ring_room(t))
                t->ring->records[t->head & t->mask] = t->spare_record;
}

/* Into the real library and out: between these two nothing is recorded on this thread. */
static uint64_t enter_nccl(struct capo_tls *t, struct capo_nccl *lib, struct capo_comm *comm,
                           unsigned id)
{
        t->lib_of_none = lib;
        t->comm_before = t->comm;
        t->comm = comm ? comm : capo_comm_none();
        t->spare = true;
        t->spare_record = (struct capo_record){.t_begin = capo_clock_ticks(),
                                               .peer = -1,
                                               .comm = t->comm->id,
                                               .call = (uint8_t)id,
                                               .type = NO_TYPE,
                                               .op = NO_OP,
                                               .thread = (uint16_t)t->thread};
        if (id != CAPO_CALL_GROUP)
                show_record(t);
        return t->spare_record.t_begin;
}

static void restore_comm(struct capo_tls *t)
{
        t->spare = false;
        t->comm = t->comm_before;
}

/* The end of a call made by hand: only now may a signal's handler record one of its own. */
static ncclResult_t finish_call(struct capo_tls *t, ncclResult_t rc)
{
        atomic_signal_fence(memory_order_seq_cst);
        t->inside = NULL;
        return rc;
}

static void leave_nccl(struct capo_tls *t)
{
        restore_comm(t);
        t->algo_proto = t->channels = 0;
        if (!t->group_depth)
                t->rule = 0;
}

static ncclResult_t hand_ncclGetUniqueId(int which, const void *caller, const void *frame,
                                         ncclUniqueId *uniqueId)
{
        struct capo_tls *t = &capo_tls;
        ncclResult_t rc = capo_lib_within(t, which, caller)->ncclGetUniqueId(uniqueId);

        if (rc == ncclSuccess && uniqueId) {
                t->unique_hash =
                        capo_uid_of(uniqueId); /* ncclCommInitAll makes its id through here */
                t->unique_nccl = capo_override_hash(uniqueId);
        }
        return rc;
}

/* The common end of everything that makes a communicator. */
static ncclResult_t finish_new_comm(struct capo_tls *t, const struct capo_creation *creation,
                                    unsigned id, uint64_t begin, ncclResult_t rc,
                                    const void *caller, const void *frame)
{
        struct capo_comm *comm;

        leave_nccl(t);
        comm = capo_comm_created(t, creation, rc);
        put_record(t, id, comm ? comm : creation->parent, begin, rc, caller, frame);
        return finish_call(t, rc);
}

/* Which communicator the call that stands at the head is about to make: it has no number yet. */
static void show_creation(struct capo_tls *t, const struct capo_creation *creation)
{
        t->spare_record.stream = (uint32_t)(creation->uid ^ creation->uid >> 32);
        t->spare_record.peer = creation->rank;
        t->spare_record.bytes = creation->n_ranks > 0 ? (uint64_t)creation->n_ranks : 0;
        show_record(t);
}

/* What makes a communicator, where @recordable holds; @of: struct capo_creation. */
#define CREATE(name, id, recordable, params, args, of)                                           \
        static ncclResult_t hand_##name PARAMS params                                            \
        {                                                                                        \
                struct capo_tls *t = &capo_tls;                                                  \
                struct capo_nccl *lib;                                                           \
                struct capo_creation creation;                                                   \
                uint64_t begin;                                                                  \
                                                                                                 \
                if (!(recordable))                                                               \
                        return capo_lib_within(t, which, caller)->name args;                     \
                if (capo_call_passes(t, which, caller, frame, &lib))                             \
                        return lib->name args;                                                   \
                lib = capo_lib(t, which, caller);                                                \
                creation = of;                                                                   \
                begin = enter_nccl(t, creation.lib, creation.parent, id);                        \
                show_creation(t, &creation);                                                     \
                return finish_new_comm(t, &creation, id, begin, creation.lib->name args, caller, \
                                       frame);                                                   \
        }
CREATE(ncclCommInitRank, CAPO_CALL_COMMINIT, true,
       (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank), (comm, nranks, commId, rank),
       create_first(lib, comm, &commId, nranks, rank, NULL, false))
CREATE(ncclCommInitRankConfig, CAPO_CALL_COMMINIT, true,
       (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config),
       (comm, nranks, commId, rank, config),
       create_first(lib, comm, &commId, nranks, rank, config, false))
/* the same ids in the same order on every rank */
CREATE(ncclCommInitRankScalable, CAPO_CALL_COMMINIT, true,
       (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds,
        ncclConfig_t *config),
       (newcomm, nranks, myrank, nId, commIds, config),
       create_first(lib, newcomm, nId > 0 ? commIds : NULL, nranks, myrank, config, false))
#define PARENT capo_comm_find(t, comm, which, caller)
CREATE(ncclCommSplit, CAPO_CALL_COMMSPLIT, comm,
       (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config),
       (comm, color, key, newcomm, config), create_child(PARENT, newcomm, color, -1, config))
CREATE(ncclCommShrink, CAPO_CALL_COMMSHRINK, comm,
       (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm,
        ncclConfig_t *config, int shrinkFlags),
       (comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags),
       create_shrunk(PARENT, newcomm, excludeRanksCount, config))
/* a new rank has no parent */
CREATE(ncclCommGrow, CAPO_CALL_COMMGROW, true,
       (ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank, ncclComm_t *newcomm,
        ncclConfig_t *config),
       (comm, nRanks, uniqueId, rank, newcomm, config),
       comm ? create_child(PARENT, newcomm, COLOR_GROW, nRanks, config)
            : create_first(lib, newcomm, uniqueId, nRanks, rank, config, true))
#undef PARENT

static ncclResult_t hand_ncclCommInitAll(int which, const void *caller, const void *frame,
                                         ncclComm_t *comm, int ndev, const int *devlist)
{
        struct capo_tls *t = &capo_tls;
        struct capo_comm *first = NULL;
        struct capo_creation creation;
        struct capo_nccl *lib;
        ncclResult_t rc;
        uint64_t begin;

        if (capo_call_passes(t, which, caller, frame, &lib))
                return lib->ncclCommInitAll(comm, ndev, devlist);
        lib = capo_lib(t, which, caller);
        creation = begin_creation(comm, lib);
        t->unique_hash = t->unique_nccl = 0;
        begin = enter_nccl(t, lib, NULL, CAPO_CALL_COMMINIT);
        rc = lib->ncclCommInitAll(comm, ndev, devlist);
        leave_nccl(t);
        creation.uid = t->unique_hash
                               ? t->unique_hash
                               : capo_uid_child((uintptr_t)comm ^ begin, (uint32_t)getpid(), ndev);
        creation.nccl_hash = t->unique_nccl;
        creation.n_ranks = ndev;
        capo_comm_config(&creation, NULL);
        for (int i = 0; i < ndev && comm && rc == ncclSuccess; i++) {
                struct capo_comm *c;

                creation.where = &comm[i];
                creation.rank = i;
                creation.device = devlist ? devlist[i] : i;
                c = capo_comm_created(t, &creation, rc);
                if (i == 0)
                        first = c;
        }
        put_record(t, CAPO_CALL_COMMINIT, first, begin, rc, caller, frame);
        return finish_call(t, rc);
}

/* The end of a communicator, or the beginning of it. */
#define ENDING(name, id, dies, aborted)                                                   \
        static ncclResult_t hand_##name(int which, const void *caller, const void *frame, \
                                        ncclComm_t comm)                                  \
        {                                                                                 \
                struct capo_tls *t = &capo_tls;                                           \
                struct capo_nccl *into;                                                   \
                struct capo_comm *c;                                                      \
                ncclResult_t rc;                                                          \
                uint64_t begin;                                                           \
                                                                                          \
                if (!comm)                                                                \
                        return capo_lib_within(t, which, caller)->name(comm);             \
                if (capo_call_passes(t, which, caller, frame, &into))                     \
                        return into->name(comm);                                          \
                c = capo_comm_find(t, comm, which, caller);                               \
                into = c->lib ? c->lib : capo_lib(t, which, caller);                      \
                begin = enter_nccl(t, into, c, id);                                       \
                rc = into->name(comm);                                                    \
                leave_nccl(t);                                                            \
                put_record(t, id, c, begin, rc, caller, frame);                           \
                if ((dies) && c->lib && (rc == ncclSuccess || rc == ncclInProgress))      \
                        capo_comm_destroyed(c, aborted);                                  \
                return finish_call(t, rc);                                                \
        }
ENDING(ncclCommFinalize, CAPO_CALL_COMMFINALIZE, false, false)
ENDING(ncclCommDestroy, CAPO_CALL_COMMDESTROY, true, false)
ENDING(ncclCommAbort, CAPO_CALL_COMMABORT, true, true)

/* Asked over and over for non-blocking communicators, by NCCL itself too. */
static ncclResult_t hand_ncclCommGetAsyncError(int which, const void *caller, const void *frame,
                                               ncclComm_t comm, ncclResult_t *asyncError)
{
        struct capo_tls *t = &capo_tls;
        ncclResult_t rc =
                capo_lib_within(t, which, caller)->ncclCommGetAsyncError(comm, asyncError);

        if (unlikely(atomic_load_explicit(&capo_comms_pending, memory_order_relaxed)) &&
            rc == ncclSuccess && !t->inside && asyncError && *asyncError == ncclSuccess &&
            capo_recording(t)) {
                struct capo_comm *c = capo_comm_known(comm);

                if (c && c->pending)
                        capo_comm_settled(t, c);
        }
        return rc;
}

static ncclResult_t hand_ncclGroupStart(int which, const void *caller, const void *frame)
{
        struct capo_tls *t = &capo_tls;
        struct capo_nccl *lib;
        uint64_t begin;
        ncclResult_t rc;

        if (capo_call_passes(t, which, caller, frame, &lib))
                return lib->ncclGroupStart();
        lib = capo_lib(t, which, caller);
        begin = enter_nccl(t, lib, NULL, CAPO_CALL_GROUP);
        rc = lib->ncclGroupStart();
        restore_comm(t);
        if (rc == ncclSuccess && t->group_depth++ == 0)
                capo_group_begin(t, begin, capo_site_here(t, caller, frame));
        return finish_call(t, rc);
}

static ncclResult_t end_of(struct capo_nccl *lib, bool simulate, ncclSimInfo_t *sim)
{
        return simulate ? lib->ncclGroupSimulateEnd(sim) : lib->ncclGroupEnd();
}

/* Both ways to end a group. To simulate it makes none of its calls; but NCCL makes them where it is
 * given no place for its answer, and where communicators do not block, which it then says
 * (group.cc, 2.22.3 to 2.30.7). */
static ncclResult_t group_end(int which, const void *caller, const void *frame, bool simulate,
                              ncclSimInfo_t *sim)
{
        struct capo_tls *t = &capo_tls;
        struct capo_group_gpu gpu;
        struct capo_nccl *lib;
        ncclResult_t rc;

        if (t->group_depth == 0)
                return end_of(capo_lib_within(t, which, caller), simulate, sim);
        if (capo_call_passes(t, which, caller, frame, &lib))
                return end_of(lib, simulate, sim);
        lib = capo_lib(t, which, caller);
        if (t->group_depth > 1) {
                t->group_depth--;
                enter_nccl(t, lib, NULL, CAPO_CALL_GROUP);
                rc = end_of(lib, simulate, sim);
                restore_comm(t);
                return finish_call(t, rc);
        }
        gpu.n = 0;
        if (unlikely(atomic_load_explicit(&capo_gpu_on, memory_order_acquire)) &&
            t->group_members && !sim)
                capo_group_time(t, &gpu);
        atomic_store_explicit(&t->ring->closing, enter_nccl(t, lib, NULL, CAPO_CALL_GROUP),
                              memory_order_relaxed);
        t->simulates = sim;
        rc = end_of(lib, simulate, sim);
        t->simulates = false;
        atomic_store_explicit(&t->ring->closing, 0, memory_order_relaxed);
        restore_comm(t);
        t->group_depth = 0;
        if (sim && rc != ncclInProgress)
                capo_group_forget(t);
        else
                capo_group_end(t, &gpu, rc, capo_clock_ticks());
        if (unlikely(t->n_creations))
                capo_comm_group_over(t, rc);
        return finish_call(t, rc);
}

static ncclResult_t hand_ncclGroupEnd(int which, const void *caller, const void *frame)
{
        return group_end(which, caller, frame, false, NULL);
}

static ncclResult_t hand_ncclGroupSimulateEnd(int which, const void *caller, const void *frame,
                                              ncclSimInfo_t *simInfo)
{
        return group_end(which, caller, frame, true, simInfo);
}

/* ---- the sets ---- */

#define SET_LINKAGE    CAPO_EXPORT
#define SET_NAME(name) name
#define SET_WHICH      (-1)
#include "shim/nccl/wrap_set.h"

#define SET_LINKAGE    static
#define SET_NAME(name) copy0_##name
#define SET_WHICH      0
#include "shim/nccl/wrap_set.h"

#define SET_LINKAGE    static
#define SET_NAME(name) copy1_##name
#define SET_WHICH      1
#include "shim/nccl/wrap_set.h"

#define SET_LINKAGE    static
#define SET_NAME(name) copy2_##name
#define SET_WHICH      2
#include "shim/nccl/wrap_set.h"

#define SET_LINKAGE    static
#define SET_NAME(name) copy3_##name
#define SET_WHICH      3
#include "shim/nccl/wrap_set.h"

void *capo_wrapper_of(const char *name, int number)
{
        static const struct {
                const char *name;
                void *wrapper[CAPO_NCCL_COPIES];
        } rows[] = {
#define ROW(name)                                                           \
        {#name,                                                             \
         {(void *)copy0_##name, (void *)copy1_##name, (void *)copy2_##name, \
          (void *)copy3_##name}},
#define CALL(name, params, args, id, comm, stream, ...) ROW(name)
#define HAND(name, params, args)                        ROW(name)
#define PASS(type, name, params, args, missing)         ROW(name)
#include "capo/nccl_calls.def"
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                if (!strcmp(rows[i].name, name))
                        return rows[i].wrapper[number];
        }
        return NULL;
}
