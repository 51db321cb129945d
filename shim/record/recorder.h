/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot path. A wrapped call is: two readings of the time-stamp counter, one look at thread-local state, one 64-byte
 * store into the thread's ring, one release store of its head. No lock, no allocation, no system call, no division.
 *
 *      wrapper   capo_call_begin()  ->  real call  ->  capo_call_end()       inline, here
 *      rare      first call of a thread, an unknown communicator, a new call site, a full ring, GPU samples
 *                                                                 out of line: record.c, comm.c, site.c, gpu.c
 *
 * Only the outermost call of a thread counts (depth): NCCL calls its own public names. Inside an open group calls are
 * written to the ring but not published (head is held back) until the group ends, so that what plugins learn about them
 * meanwhile (seam.h) can still be filled in.
 */
#ifndef CAPO_RECORDER_H
#define CAPO_RECORDER_H

#include "core/log/segment.h"
#include "core/base/util.h"
#include "shim/nccl/real.h"
#include "shim/record/shim.h"

enum { NO_TYPE = 255, NO_OP = 255, USER_OP = 254 };

/* What a row of nccl_calls.def says about its call. */
struct capo_what {
        uint64_t count;
        int type, op, peer;
        bool per_rank; /* the size is count x type x ranks */
        bool p2p;      /* has its own sequence */
        bool other;    /* neither collective nor p2p: seq 0 */
};

/* A communicator, as the recorder knows it. Never freed: a few hundred bytes each, and late readers stay safe. */
struct capo_comm {
        void *handle; /* the ncclComm_t; NULL once destroyed (handles are used again by NCCL) */
        struct capo_nccl *lib;
        uint64_t uid;
        uint32_t seq, p2p_seq; /* of the last call; NCCL forbids concurrent calls on one communicator */
        uint32_t n_ranks;
        uint32_t gpu_wait; /* calls until the next one timed on the GPU */
        uint32_t gpu_turn; /* state of the generator of those distances */
        uint16_t id;
        _Atomic bool pending; /* non-blocking and not known to be ready */
        int rank, device;
        uint64_t begun;     /* ticks: when the call, or group, that made it began */
        uint64_t comm_hash; /* NCCL's, when a plugin told */
        struct capo_comm *next_by_hash;
        uint32_t children;      /* splits, shrinks and grows so far: the same number on all ranks */
        uint32_t n_ran;         /* collectives the profiler has named so far, with CAPO_KERNEL_TIME */
        struct capo_comm *next; /* in its hash chain */
};

struct capo_site_entry {
        const void *caller;
        const void *frame;
        uint32_t site;
};
#define CAPO_SITE_CACHE 64

struct capo_gpu_call { /* the GPU's part of a call under way */
        int32_t slot;  /* -1: not timed */
        bool captured;
};

/* All the state a thread has. Initial-exec: one instruction away. */
struct capo_tls {
        uint32_t ready; /* this thread has a ring: record */
        uint32_t depth; /* inside wrapped calls */
        struct capo_ring *ring;
        uint64_t head;          /* records written; published ones are ring->head */
        uint64_t limit;         /* head may go this far before capo_ring_check() looks again */
        uint32_t mask;          /* records in the ring - 1 */
        uint32_t thread;        /* our number */
        struct capo_comm *comm; /* of the last call: the one-entry cache */
        /* the call under way, for the seam */
        struct capo_comm *current;
        uint64_t call_begin;     /* of a call that makes or ends a communicator */
        struct capo_nccl *under; /* the library the outermost call went into */
        uint64_t t_begin;
        uint8_t current_call;
        bool current_other, current_p2p;
        uint8_t algo_proto, channels; /* what the profiler said of it */
        uint16_t rule;                /* what the tuner said of it */
        bool rules_differ;
        uint32_t kernel_nth; /* GPU stamps of this call may come: it is the nth of kernel_hash's; 0 none */
        uint64_t kernel_hash;
        /* the open group */
        uint32_t group_depth;
        uint32_t group;
        uint64_t group_begin; /* ticks */
        uint64_t group_head;  /* head when it was opened: its members are records group_head .. head - 1 */
        uint64_t group_bytes;
        struct capo_comm *group_comm; /* of its first member */
        uint32_t group_seq;
        uint32_t group_members;
        void *group_stream;
        uint16_t group_site;
        uint8_t group_call;
        bool group_mixed;  /* several communicators */
        uint32_t n_births; /* communicators whose handle appears when the group ends (comm.c) */
        uint32_t no_ring;  /* calls until a ring is asked for again */
        /* caches */
        uint64_t unique_hash; /* of the last ncclUniqueId this thread saw made */
        const void *lib_caller[8];
        struct capo_nccl *lib[8];
        uint32_t site_misses;
        struct capo_site_entry sites[CAPO_SITE_CACHE];
};
extern __thread struct capo_tls capo_tls __attribute__((tls_model("initial-exec")));

extern struct capo_segment capo_seg;
extern _Atomic bool capo_gpu_on; /* the driver is here and calls are to be timed */

/* A call under way, on the wrapper's stack. */
struct capo_call {
        struct capo_comm *comm;
        uint64_t t_begin;
        struct capo_gpu_call gpu;
        uint32_t site;
};

/* record.c */
bool capo_thread_start(struct capo_tls *t);
bool capo_ring_check(struct capo_tls *t);
void capo_publish(struct capo_tls *t);
void capo_record_put(struct capo_tls *t, const struct capo_record *r);
void capo_group_note(struct capo_tls *t, struct capo_comm *comm, unsigned id, uint64_t bytes, uint32_t seq,
                     void *stream, uint32_t site);
void capo_group_begin(struct capo_tls *t, uint64_t begin, uint32_t site);
void capo_group_end(struct capo_tls *t, struct capo_gpu_call *gpu, ncclResult_t result, uint64_t end);
void capo_wake_drain(void);

/* comm.c: see there for what each wrapper of a communicator's life tells */
struct capo_comm *capo_comm_find(struct capo_tls *t, ncclComm_t handle, int which, const void *caller);

/* site.c */
uint32_t capo_site_find(struct capo_tls *t, const void *caller, const void *frame);

/* python.c. Frames have been read, so the offsets hold: capo_python_place() may be asked. */
extern _Atomic bool capo_python_seen;

/**
 * capo_python_place() - a number that tells the places apart from which this thread's Python calls us
 *
 * From 3.11 on a Python function that calls another does not deepen the C stack, so what tells C's call sites apart
 * (return address and depth) is the same for all of a program's. Made of where the innermost 6 frames are: the user's
 * line is the third when PyTorch calls. No lock, no system call; 0 for a thread that runs no Python.
 */
uintptr_t capo_python_place(void);

/* kernel.c: false when the record is to go on at once (it may have got its stamps already) */
bool capo_kernel_wait(uint64_t comm_hash, uint32_t nth, struct capo_record *r);

/* gpu.c */
void capo_gpu_begin(struct capo_comm *comm, void *stream, struct capo_gpu_call *out);
void capo_gpu_end(struct capo_tls *t, struct capo_gpu_call *gpu, void *stream, ncclResult_t result,
                  const struct capo_record *r);

static inline uint32_t capo_fold(const void *stream)
{
        uint64_t v = (uintptr_t)stream;

        return (uint32_t)(v ^ v >> 32);
}

/* Bytes of one element; the wrapper's type is usually not a constant, so a table. Unknown types count as bytes. */
static inline uint64_t capo_bytes(const struct capo_what *w, uint32_t n_ranks)
{
        static const uint8_t shift[16] = {0, 0, 2, 2, 3, 3, 1, 2, 3, 1, 0, 0};
        uint64_t bytes = w->type == NO_TYPE ? w->count : w->count << shift[w->type & 15];

        return w->per_rank ? bytes * n_ranks : bytes;
}

static inline struct capo_site_entry *capo_site_entry(struct capo_tls *t, const void *caller, const void *frame)
{
        return &t->sites[((uintptr_t)caller ^ (uintptr_t)caller >> 7 ^ (uintptr_t)frame >> 4) % CAPO_SITE_CACHE];
}

/* The call site of the wrapper this is inlined in: return address and how deep the stack is, C's and Python's. */
static inline uint32_t capo_site_here(struct capo_tls *t, const void *caller, const void *frame)
{
        struct capo_site_entry *e;

        if (unlikely(atomic_load_explicit(&capo_python_seen, memory_order_relaxed)))
                frame = (const void *)((uintptr_t)frame ^ capo_python_place());
        e = capo_site_entry(t, caller, frame);
        if (likely(e->caller == caller && e->frame == frame))
                return e->site;
        return capo_site_find(t, caller, frame);
}

/* The library a call goes to that has no communicator: @which is the copy the wrapper was handed out for (dlsym), -1
 * when the linker bound the caller to us. */
static inline struct capo_nccl *capo_lib(struct capo_tls *t, int which, const void *caller)
{
        unsigned at = ((uintptr_t)caller >> 2) % N_ELEMENTS(t->lib);

        if (which >= 0)
                return &capo_nccl_copies[which];
        if (t->depth && t->under)
                return t->under; /* NCCL calling its own public name */
        if (likely(t->lib_caller[at] == caller))
                return t->lib[at];
        t->lib[at] = capo_nccl_of(caller);
        t->lib_caller[at] = caller;
        return t->lib[at];
}

static inline bool capo_recording(struct capo_tls *t)
{
        return likely(t->ready) || capo_thread_start(t);
}

/* The seq the call under way will have. */
static inline uint32_t capo_call_seq(const struct capo_tls *t)
{
        return t->current_other ? 0 : t->current_p2p ? t->current->p2p_seq + 1 : t->current->seq + 1;
}

/* Begin a recorded call on @handle (NULL: none). The caller has checked depth and capo_recording(). */
static inline void capo_call_begin(struct capo_tls *t, struct capo_call *c, ncclComm_t handle, void *stream, int which,
                                   unsigned id, const struct capo_what *w, const void *caller, const void *frame)
{
        struct capo_comm *comm = t->comm;

        if (unlikely(!comm || __atomic_load_n(&comm->handle, __ATOMIC_RELAXED) != handle || !handle))
                comm = capo_comm_find(t, handle, which, caller);
        c->comm = comm;
        c->site = capo_site_here(t, caller, frame);
        c->gpu = (struct capo_gpu_call){.slot = -1};
        t->under = likely(handle) ? comm->lib : capo_lib(t, which, caller);
        t->depth = 1;
        t->current = comm;
        t->current_call = (uint8_t)id;
        t->current_other = w->other;
        t->current_p2p = w->p2p;
        if (unlikely(atomic_load_explicit(&capo_gpu_on, memory_order_relaxed)) && !w->other && !t->group_depth)
                capo_gpu_begin(comm, stream, &c->gpu);
        c->t_begin = t->t_begin = capo_clock_ticks();
}

static inline void capo_call_end(struct capo_tls *t, struct capo_call *c, ncclResult_t result, unsigned id,
                                 void *stream, const struct capo_what *w)
{
        uint64_t end = capo_clock_ticks();
        struct capo_comm *comm = c->comm;
        uint64_t bytes = capo_bytes(w, comm->n_ranks);
        uint32_t seq = w->other ? 0 : w->p2p ? ++comm->p2p_seq : ++comm->seq;
        uint32_t kernel_nth = 0;
        struct capo_record *r;
        struct capo_record value = {
                .t_begin = c->t_begin,
                .t_end = end,
                .bytes = bytes,
                .stream = capo_fold(stream),
                .seq = seq,
                .peer = w->peer,
                .comm = comm->id,
                .site = (uint16_t)c->site,
                .rule = t->rule,
                .call = (uint8_t)id,
                .type = (uint8_t)w->type,
                .op = w->op > 4 && w->op != NO_OP ? USER_OP : (uint8_t)w->op,
                .result = (int8_t)result,
                .clock = CAPO_CLOCK_HOST,
                .flags = result == ncclInProgress ? CAPO_RECORD_ASYNC : 0,
                .algo_proto = t->algo_proto,
                .channels = t->channels,
                .thread = (uint16_t)t->thread,
        };

        t->depth = 0;
        if (unlikely(t->algo_proto | t->rule)) {
                kernel_nth = t->kernel_nth;
                t->kernel_nth = 0;
                t->algo_proto = t->channels = 0;
                t->rule = 0;
        }
        if (unlikely(t->group_depth) && !w->other) {
                value.group = t->group;
                value.flags |= CAPO_RECORD_MEMBER;
                value.clock = CAPO_CLOCK_NONE;
                capo_group_note(t, comm, id, bytes, seq, stream, c->site);
        } else if (unlikely(c->gpu.slot >= 0 || c->gpu.captured)) {
                if (c->gpu.captured) {
                        value.flags |= CAPO_RECORD_CAPTURED;
                        value.clock = CAPO_CLOCK_NONE;
                }
                if (c->gpu.slot >= 0) { /* the record goes on from the slot */
                        capo_gpu_end(t, &c->gpu, stream, result, &value);
                        return;
                }
        }
        if (unlikely(kernel_nth) && value.clock == CAPO_CLOCK_HOST && result == ncclSuccess &&
            capo_kernel_wait(t->kernel_hash, kernel_nth, &value))
                return; /* the record goes on when the stamps have come */
        if (unlikely(t->head >= t->limit) && !capo_ring_check(t))
                return; /* full: counted there */
        r = &t->ring->records[t->head & t->mask];
        *r = value;
        t->head++;
        if (likely(!t->group_depth))
                atomic_store_explicit(&t->ring->head, t->head, memory_order_release);
}

#endif
