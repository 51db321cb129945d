/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: from birth to death, their names, and how they are told apart on every rank. */
#ifndef CAPO_COMM_H
#define CAPO_COMM_H

#include "capo/seam.h"
#include "shim/record/recorder.h"

/* What the call that makes a communicator says about it. */
struct capo_birth {
        ncclComm_t *where; /* NCCL puts the handle here, at once or at the group's end */
        struct capo_nccl *lib;
        uint64_t uid;
        struct capo_comm *parent;
        int rank, n_ranks, device; /* -1 not known */
        int color;                 /* -1 none */
        bool nonblocking;
        char name[96];
};

/** capo_comm_born() - the call returned @result; in an open group the handle may come only at its end (NULL). */
struct capo_comm *capo_comm_born(struct capo_tls *t, const struct capo_birth *birth, ncclResult_t result);

/** capo_comm_group_over() - look where the handles of births inside the group have appeared. */
void capo_comm_group_over(struct capo_tls *t, ncclResult_t result);

/** capo_comm_died() - after Destroy or Abort: the handle means nothing any more. */
void capo_comm_died(struct capo_comm *comm, bool aborted);

/** capo_comm_settled() - a non-blocking communicator left ncclInProgress: ask it what it could not say before. */
void capo_comm_settled(struct capo_tls *t, struct capo_comm *comm);

/** Communicators for which that has not happened: while there are none, nobody needs to look. */
extern _Atomic unsigned capo_comms_pending;

/** capo_comm_config() - name and blocking mode out of @config, never reading beyond its size; NULL is fine. */
void capo_comm_config(struct capo_birth *birth, const ncclConfig_t *config);

/** capo_comm_known() - the communicator of @handle, or NULL; never makes one. */
struct capo_comm *capo_comm_known(const void *handle);

/** capo_comm_by_hash() - by NCCL's commHash, as a plugin told it; NULL when none did. */
struct capo_comm *capo_comm_by_hash(uint64_t comm_hash);

/** capo_comm_none() - stands for "no communicator": id 0. */
struct capo_comm *capo_comm_none(void);

/** Ids that are the same on all ranks: of an ncclUniqueId; and of the @nth child of a communicator, by colour. */
uint64_t capo_uid_of(const ncclUniqueId *id);
uint64_t capo_uid_child(uint64_t parent, uint32_t nth, int color);

/* struct capo_seam */
void capo_comm_told(const struct capo_seam_comm *told);
void capo_comm_kernel(uint64_t comm_hash, uint32_t nth, uint64_t begin_ns, uint64_t end_ns); /* kernel.c */

void capo_comm_fork(void);

#endif
