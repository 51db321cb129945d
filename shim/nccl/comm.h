/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators, from creation to destruction: their names, and what tells them apart. */
#pragma once

#include "shim/nccl/real.h"
#include "shim/record/comms.h"
#include "shim/record/recorder.h"

/* What the call that makes a communicator says about it. */
struct capo_creation {
        ncclComm_t *where; /* NCCL puts the handle here, at once or at the group's end */
        struct capo_nccl *lib;
        uint64_t uid, nccl_hash; /* 0 not known */
        struct capo_comm *parent;
        int rank, n_ranks, device; /* -1 not known */
        int color;                 /* -1 none */
        bool nonblocking, apart;   /* as in struct capo_comm */
        enum capo_guest guest;     /* as there */
        char name[96];
};

/** capo_comm_created() - it returned @result; in an open group the handle may come later (NULL). */
struct capo_comm *capo_comm_created(struct capo_tls *t, const struct capo_creation *creation,
                                    ncclResult_t result);

/** capo_comm_guest() - an EP group of the communicator @parent, or its reshards, as a child of it
 * with its ranks. NCCL is never asked about @handle. Return: capo_comm_none() without memory. */
struct capo_comm *capo_comm_guest(struct capo_tls *t, struct capo_comm *parent, void *handle,
                                  enum capo_guest guest, const char *name);

/* The reshards of a communicator are found by its handle, plus one. */
static inline void *capo_m2n_key(const void *handle) { return handle ? (char *)handle + 1 : NULL; }

/** capo_comm_group_over() - look for the handles of communicators created inside the group. */
void capo_comm_group_over(struct capo_tls *t, ncclResult_t result);

/** capo_comm_destroyed() - after Destroy or Abort: the handle means nothing any more. */
void capo_comm_destroyed(struct capo_comm *comm, bool aborted);

/** capo_comm_settled() - one has left ncclInProgress: ask it what it could not say before. */
void capo_comm_settled(struct capo_tls *t, struct capo_comm *comm);

/** Communicators for which that has not happened: while there are none, nobody needs to look. */
extern _Atomic unsigned capo_comms_pending;

/** capo_comm_config() - blocking mode and name out of @config, never reading beyond its size, NULL
 * is fine; a name that only the caller, PyTorch, knows, is taken from there. */
void capo_comm_config(struct capo_creation *creation, const ncclConfig_t *config);

/** Ids, the same on all ranks, of an ncclUniqueId; of a communicator's @nth child by colour. */
uint64_t capo_uid_of(const ncclUniqueId *id);
uint64_t capo_uid_child(uint64_t parent, uint32_t nth, int color);

/** capo_comm_find() - @handle's communicator, made known if not; @which, @caller: capo_lib(). */
struct capo_comm *capo_comm_find(struct capo_tls *t, ncclComm_t handle, int which,
                                 const void *caller);

/* The library a call goes to that has no communicator: @which is the copy the wrapper was handed
 * out for (dlsym), -1 when the linker bound the caller to us. */
static inline struct capo_nccl *capo_lib(struct capo_tls *t, int which, const void *caller)
{
        unsigned at = ((uintptr_t)caller >> 2) % N_ELEMENTS(t->lib);

        if (which >= 0)
                return &capo_nccl_copies[which];
        if (likely(t->lib_caller[at] == caller))
                return t->lib[at];
        t->lib[at] = capo_nccl_of(caller);
        t->lib_caller[at] = caller;
        return t->lib[at];
}

/** capo_call_passes() - is this call not to be recorded: inside another one, or of a thread that
 * does not record? Where it is to be, the thread is in it from here on. Return: true with @into
 * set; false. */
bool capo_call_passes(struct capo_tls *t, int which, const void *caller, const void *frame,
                      struct capo_nccl **into);

/** capo_lib_within() - capo_lib() for what is not recorded and may be inside a recorded call. */
struct capo_nccl *capo_lib_within(struct capo_tls *t, int which, const void *caller);

/* The long way: begin a recorded call on @handle (NULL: none), after capo_call_passes(). */
static inline struct capo_record *capo_call_begin_rare(struct capo_tls *t, ncclComm_t handle,
                                                       void *stream, int which, unsigned id,
                                                       const struct capo_what *w,
                                                       const void *caller, const void *frame)
{
        if (!handle)
                t->lib_of_none = capo_lib(t, which, caller);
        if (!handle || __atomic_load_n(&t->comm->handle, __ATOMIC_RELAXED) != handle)
                t->comm = capo_comm_find(t, handle, which, caller);
        return capo_call_begin_long(t, stream, id, w, caller, frame);
}
