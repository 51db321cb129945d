/* SPDX-License-Identifier: Apache-2.0 */
/* The hot path. A wrapped call is: two readings of the time-stamp counter, one look at thread-local
 * state, one 64-byte store into the thread's ring, one release store of its head. No lock, no
 * allocation, no system call, no division.
 *
 *      wrapper   capo_call_begin()  ->  real call  ->  capo_call_end()       inline, here
 *      rare      first call of a thread, an unknown communicator, a new call site, a full ring, GPU
 *                samples                    out of line: start.c, rings.c, record.c, site.c, gpu.c, nccl/comm.c
 *
 * Only the outermost call of a thread counts (inside): NCCL calls its own public names. Inside an
 * open group calls are written to the ring but not published (head is held back) until the group
 * ends, so that what plugins learn about them meanwhile (seam.h) can still be filled in.
 *
 * A call may be left by longjmp, or its thread be cancelled in it: the next call of the thread,
 * which lies no deeper in the stack, or the thread's end finds that out. A signal's handler may
 * call NCCL inside a call. The call that was left, and the handler's inside another, are counted as
 * dropped. */
#pragma once

#include "capo/record.h"
#include "core/log/segment_calls.h"
#include "shim/record/state.h"

enum { NO_TYPE = 255, NO_OP = 255, USER_OP = 254 };

/* What a row of nccl_calls.def says about its call. */
struct capo_what {
        uint64_t count;
        int type, op, peer;
        bool per_rank;                  /* the size is count x type x ranks */
        bool p2p;                       /* has its own sequence */
        bool other;                     /* neither collective nor p2p: seq 0 */
        const ncclCollConfig_t *config; /* how it is to be done; NULL: as NCCL likes */
};

/* What a call of NCCL EP or NCCL M2N was asked for, which its call site says once. */
struct capo_call_asked {
        unsigned (*text)(const struct capo_call_asked *asked, char *line, unsigned room); /* as
                capo_config_text(); NULL: nothing */
        int number[6];
        uint8_t kernel; /* capo_record.algo_proto */
};

struct capo_site_entry {
        const void *caller;
        const void *frame;
        uint32_t site;
} __attribute__((aligned(32))); /* one cache line each */
#define CAPO_SITE_CACHE 64

struct capo_gpu_call { /* the GPU's part of a call under way */
        int32_t slot;  /* -1: not timed */
        bool captured;
};

/* The GPU's part of a group that ends: of the first member, and where it is one call of several
 * ranks, of each (of so many). */
#define CAPO_GROUP_TIMED 16
struct capo_group_gpu {
        struct capo_gpu_call call[CAPO_GROUP_TIMED];
        uint32_t n; /* calls that are set; 0: nothing is timed */
};

/* All the state a thread has. Initial-exec: one instruction away. That room is scarce: glibc has
 * 1664 bytes for all libraries that a process loads late, and as a tuner plugin without the preload
 * this one is loaded late (tests/exports). */
struct capo_tls {
        const void *inside; /* the wrapped call it is in, by the caller's stack (CFA) there; NULL in
                               none */
        const void *caller; /* who made that call, where it went the long way */
        uint32_t ready;     /* this thread has a ring: record */
        struct capo_ring *ring;
        uint64_t head;          /* records written; published ones are ring->head */
        uint64_t limit;         /* head may go this far before capo_ring_room() looks again */
        uint32_t mask;          /* records in the ring - 1 */
        uint32_t thread;        /* our number */
        struct capo_comm *comm; /* of the call under way, or the last one; never NULL while ready */
        struct capo_comm *comm_before; /* while a communicator is made or ends, or a group */
        struct capo_nccl *lib_of_none; /* the library a call without a communicator went into */
        union {
                struct {
                        uint16_t rule;                /* what the tuner said of it */
                        uint8_t algo_proto, channels; /* what the profiler said of it */
                        uint16_t group_depth;
                        bool gpu;   /* something is in gpu_call */
                        bool spare; /* the record in the making is the spare one, not of the ring */
                };
                uint64_t unusual; /* all of these at a glance */
        };
        struct capo_gpu_call gpu_call;
        struct capo_record spare_record;
        bool rules_differ;
        bool simulates;      /* a group that is ended only to hear how long it would take */
        uint32_t kernel_nth; /* GPU stamps may come: the nth call of kernel_hash's; 0 none */
        uint64_t kernel_hash;
        /* the open group */
        uint32_t group;
        uint64_t group_begin; /* ticks */
        uint64_t group_head;  /* head when it was opened: the first of its members */
        uint64_t group_bytes;
        struct capo_comm *group_comm; /* of its first member */
        uint32_t group_seq;
        uint32_t group_members;
        void *group_stream;
        struct {
                struct capo_comm *comm;
                void *stream;
        } group_of[CAPO_GROUP_TIMED]; /* its first members */
        int group_cluster;            /* cgaClusterSize of its first member, INT_MIN none
                                         (shim/nccl/call_override.c) */
        uint16_t group_site;
        uint8_t group_call;
        uint8_t group_kind;             /* capo_record.channels of the group */
        bool group_tagged;              /* members not published yet have their tags in gpu_ns */
        bool group_mixed;               /* several communicators */
        bool group_uids;                /* and not ranks of one: their uids differ */
        bool group_alike;               /* one collective, each member for another rank of it */
        struct capo_record group_first; /* its first member */
        uint32_t n_creations; /* communicators whose handle appears when the group ends (comm.c) */
        uint32_t no_ring;     /* calls until a ring is asked for again */
        bool no_larger;       /* there is no larger ring for this thread */
        /* caches */
        const ncclCollConfig_t *config; /* of the call under way, where that asks for something */
        uint64_t config_hash;           /* of what it asks for */
        const struct capo_call_asked *asked; /* the same of NCCL EP and NCCL M2N */
        uint64_t tag;         /* the profiler's, of the call under way: shim/nccl/tag.h */
        uint64_t unique_hash; /* of the last ncclUniqueId this thread saw made */
        uint64_t unique_nccl; /* NCCL's own hash of it */
        const void *lib_caller[8];
        struct capo_nccl *lib[8];
        uint32_t site_misses;
        struct capo_site_entry *sites; /* CAPO_SITE_CACHE of them, while ready */
};
static_assert(offsetof(struct capo_tls, spare) + 1 - offsetof(struct capo_tls, unusual) ==
                      sizeof(uint64_t),
              "all of it");
extern __thread struct capo_tls capo_tls __attribute__((tls_model("initial-exec")));

/* start.c */
bool capo_thread_start(struct capo_tls *t);

/* rings.c
 *
 * capo_ring_take()  - false when there is no memory for another ring
 * capo_ring_room()  - is there room for one more? Looks at the tail, wakes the drain when half is
 *                     full
 * capo_record_put() - a whole record, at head; dropped and counted where there is no room
 * capo_call_left()  - the call this thread was in will never return
 * capo_thread_end() - the thread exits: its ring is free when it is empty */
bool capo_ring_take(struct capo_tls *t);
bool capo_ring_room(struct capo_tls *t);
void capo_record_put(struct capo_tls *t, struct capo_record r);
void capo_call_left(struct capo_tls *t);
void capo_thread_end(void);

/* What is before head is for others to read. */
static inline void capo_ring_publish(struct capo_tls *t)
{
        atomic_store_explicit(&t->ring->head, t->head, memory_order_release);
}

/* The record at head is whole. */
static inline void capo_ring_advance(struct capo_tls *t)
{
        t->head++;
        if (!t->group_depth)
                capo_ring_publish(t);
}

/* record.c */
void capo_call_end_unusual(struct capo_tls *t, ncclResult_t result, bool other, void *stream);
void capo_group_begin(struct capo_tls *t, uint64_t begin, uint32_t site);
void capo_group_time(struct capo_tls *t, struct capo_group_gpu *gpu);
void capo_group_end(struct capo_tls *t, const struct capo_group_gpu *gpu, ncclResult_t result,
                    uint64_t end);
void capo_group_forget(struct capo_tls *t);

/* site.c
 *
 * capo_site_through() - the way up this thread's stack comes, within a few frames, through code for
 * which @is holds, or through a wrapper of ours. Not by what a signal interrupted. False where it
 * is not known. */
uint32_t capo_site_find(struct capo_tls *t, const void *caller, const void *frame);
bool capo_site_through(bool (*is)(const void *code, const void *arg), const void *arg);

/* config.c. A call that asks for something of its own (algorithm, CTAs, ...) comes from a place of
 * its own: what it asked is said with the place, once, and the record needs no room for it.
 *
 * capo_config_take()  - the call under way has @config; t->config and t->tag are set where that
 *                       asks for something, until the call ends
 * capo_config_text()  - writes a line "config: algSelection=... minCTAs=..." with its newline and
 *                       without a zero behind it; returns its bytes, 0 when nothing is asked or
 *                       there is no room */
void capo_config_take(struct capo_tls *t, const ncclCollConfig_t *config);
unsigned capo_config_text(const ncclCollConfig_t *config, char *text, unsigned room);

/* kernel_stamps.c: false when the record is to go on at once (it may have got its stamps already) */
bool capo_kernel_wait(uint64_t comm_hash, uint32_t nth, struct capo_record *r);
/* struct capo_seam's kernel */
struct capo_seam_kernel;
void capo_comm_kernel(const struct capo_seam_kernel *kernel);

/* gpu.c */
struct capo_gpu_call capo_gpu_begin(struct capo_comm *comm, void *stream, unsigned call,
                                    uint64_t bytes);
void capo_gpu_end(struct capo_tls *t, int32_t slot, void *stream, struct capo_record r);

static inline uint32_t capo_fold(const void *stream)
{
        uint64_t v = (uintptr_t)stream;

        return (uint32_t)(v ^ v >> 32);
}

/* Bytes of an element; a table, as the type is no constant. Unknown types count as bytes. */
static inline uint64_t capo_bytes(const struct capo_what *w, uint32_t n_ranks)
{
        static const uint8_t shift[16] = {0, 0, 2, 2, 3, 3, 1, 2, 3, 1, 0, 0};
        uint64_t bytes = w->count << shift[w->type & 15]; /* NO_TYPE: the last */

        return w->per_rank ? bytes * n_ranks : bytes;
}

static inline struct capo_site_entry *capo_site_entry(struct capo_tls *t, const void *caller,
                                                      const void *frame)
{
        return &t->sites[((uintptr_t)caller ^ (uintptr_t)frame >> 4) % CAPO_SITE_CACHE];
}

static inline uint64_t capo_asked_hash(const struct capo_call_asked *asked)
{
        uint64_t hash = 0;

        for (size_t i = 0; i < N_ELEMENTS(asked->number); i++)
                hash = (hash ^ (unsigned)asked->number[i]) * 0x9e3779b97f4a7c15u;
        return hash;
}

/* The wrapper's call site: return address and how deep the stack is, C's and Python's. */
static inline uint32_t capo_site_here(struct capo_tls *t, const void *caller, const void *frame)
{
        struct capo_site_entry *e;

        if (unlikely(atomic_load_explicit(&capo_python_seen, memory_order_acquire)))
                frame = (const void *)((uintptr_t)frame ^ capo_python_place());
        if (unlikely(t->config))
                frame = (const void *)((uintptr_t)frame ^ t->config_hash);
        if (unlikely(t->asked))
                frame = (const void *)((uintptr_t)frame ^ capo_asked_hash(t->asked));
        e = capo_site_entry(t, caller, frame);
        if (likely(e->caller == caller && e->frame == frame))
                return e->site;
        return capo_site_find(t, caller, frame);
}

/* The record of the call under way. */
static inline struct capo_record *capo_call_record(struct capo_tls *t)
{
        return t->spare ? &t->spare_record : &t->ring->records[t->head & t->mask];
}

static inline bool capo_recording(struct capo_tls *t)
{
        return (likely(t->ready) &&
                likely(atomic_load_explicit(&capo_life.state, memory_order_relaxed))) ||
               capo_thread_start(t);
}

/* One word of a record: @r's fields in the one that has @offset, to their place in @to. A record is
 * stored by eight of these: fields of a few bytes, put together on the stack and then copied, would
 * be read by loads wider than the stores that still wait in the store buffer, which takes longer
 * than all the rest. One word at a time, so that few pieces are in registers at once. From the list
 * of fields; the offsets are the struct's own. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define CAPO_FIELD_SHIFT(offset, size) (8 * ((offset) % 8))
#else
#define CAPO_FIELD_SHIFT(offset, size) (64 - 8 * ((offset) % 8 + (size)))
#endif
typedef uint64_t __attribute__((may_alias)) capo_record_word;
static inline __attribute__((always_inline)) void capo_record_store(struct capo_record *to,
                                                                    size_t offset,
                                                                    struct capo_record r)
{
        uint64_t word = 0;

#define CAPO_FIELD(type, name, kept)                                               \
        static_assert(offsetof(struct capo_record, name) % 8 + sizeof(type) <= 8,  \
                      #name " in one word");                                       \
        if (offsetof(struct capo_record, name) / 8 == offset / 8)                  \
                word |= ((uint64_t)r.name & UINT64_MAX >> (64 - 8 * sizeof(type))) \
                        << CAPO_FIELD_SHIFT(offsetof(struct capo_record, name), sizeof(type));
#include "capo/record_fields.def"
        /* atomic: or the compiler gathers them into larger pieces after all */
        __atomic_store_n((capo_record_word *)to + offset / 8, word, __ATOMIC_RELAXED);
}
#define CAPO_RECORD_STORE(to, field, ...)                          \
        capo_record_store(to, offsetof(struct capo_record, field), \
                          (struct capo_record){__VA_ARGS__})

/* A call has two ways. The short one is for a call like one before: same place in the program, same
 * communicator as this thread's last call, room in the ring, no GPU events; its wrapper does what
 * is below and calls nothing but the real function, so that the arguments stay in their registers.
 * All else goes the long way (rare_*() in wrap_nccl.c). */
static inline __attribute__((always_inline)) bool capo_call_usual(struct capo_tls *t,
                                                                  ncclComm_t handle,
                                                                  const void *caller,
                                                                  const void *frame)
{
        struct capo_site_entry *e = capo_site_entry(t, caller, frame);

        if (unlikely(t->inside))
                return false;
        t->inside = frame;
        /* From here on a signal's handler finds the thread in a call. What was looked at before,
         * one that makes a call of its own would have changed: the room, the last communicator. */
        atomic_signal_fence(memory_order_seq_cst);
        if (likely(t->head < t->limit /* no thread without a ring passes here */) &&
            likely(handle && __atomic_load_n(&t->comm->handle, __ATOMIC_RELAXED) == handle) &&
            likely(e->caller == caller) && likely(e->frame == frame) &&
            likely(atomic_load_explicit(&capo_life.short_way, memory_order_relaxed)))
                return true;
        atomic_signal_fence(memory_order_seq_cst);
        t->inside = NULL;
        return false;
}

/* All that is known of the call is written where it will stand in the ring, before the call:
 * nothing of it has to be kept in registers through the call, and afterwards only the end is added.
 * Nobody looks there until head has passed. */
static inline __attribute__((always_inline)) void capo_call_compose(
        struct capo_tls *t, struct capo_record *r, struct capo_comm *comm, void *stream,
        unsigned id, const struct capo_what *w, uint32_t site)
{
        if (!w->other)
                __atomic_store_n(&comm->stream, stream, __ATOMIC_RELAXED);
        CAPO_RECORD_STORE(r, bytes, .bytes = capo_bytes(w, comm->n_ranks));
        CAPO_RECORD_STORE(r, seq, .stream = capo_fold(stream),
                          .seq = w->other ? 0
                                 : w->p2p ? ++comm->p2p_seq
                                          : ++comm->seq);
        CAPO_RECORD_STORE(r, peer, .peer = w->peer);
        CAPO_RECORD_STORE(r, comm, .comm = comm->id, .site = (uint16_t)site, .call = (uint8_t)id,
                          .type = (uint8_t)w->type);
        CAPO_RECORD_STORE(r, op,
                          .op = likely((unsigned)w->op <= 4 || w->op == NO_OP) ? (uint8_t)w->op
                                                                               : USER_OP,
                          .clock = CAPO_CLOCK_HOST, .thread = (uint16_t)t->thread);
        CAPO_RECORD_STORE(r, gpu_ns, .gpu_ns = 0);
}

/* The short way, after capo_call_usual(). */
static inline __attribute__((always_inline)) struct capo_record *capo_call_begin(
        struct capo_tls *t, struct capo_comm *comm, void *stream, unsigned id,
        const struct capo_what *w, const void *caller, const void *frame)
{
        struct capo_record *r = &t->ring->records[t->head & t->mask];

        __asm__("" : "+r"(r)); /* compute it once, keep it in one register */
        capo_call_compose(t, r, comm, stream, id, w, capo_site_entry(t, caller, frame)->site);
        r->t_begin = capo_clock_read();
        return r;
}

static inline __attribute__((always_inline)) void capo_call_end(struct capo_tls *t,
                                                                struct capo_record *r, uint64_t end,
                                                                ncclResult_t result, bool other,
                                                                void *stream)
{
        r->t_end = end;
        if (unlikely(t->unusual || result != ncclSuccess)) {
                capo_call_end_unusual(t, result, other, stream);
        } else {
                t->head++;
                atomic_store_explicit(&t->ring->head, t->head, memory_order_release);
        }
        atomic_signal_fence(memory_order_seq_cst);
        t->inside = NULL;
}

/* The long way: begin a recorded call on t->comm. The caller has asked capo_call_passes(). */
static inline struct capo_record *capo_call_begin_long(struct capo_tls *t, void *stream,
                                                       unsigned id, const struct capo_what *w,
                                                       const void *caller, const void *frame)
{
        struct capo_record *r;

        t->spare = t->head >= t->limit && !capo_ring_room(t);
        r = t->spare ? &t->spare_record : &t->ring->records[t->head & t->mask];
        capo_call_compose(t, r, t->comm, stream, id, w, capo_site_here(t, caller, frame));
        if (atomic_load_explicit(&capo_gpu_on, memory_order_acquire) && !w->other &&
            !t->group_depth) {
                t->gpu_call = capo_gpu_begin(t->comm, stream, id, r->bytes);
                t->gpu = t->gpu_call.slot >= 0 || t->gpu_call.captured;
        }
        r->t_begin = capo_clock_ticks();
        return r;
}
