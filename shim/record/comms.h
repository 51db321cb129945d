/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of communicators, read without a lock. Entries are never taken out; a destroyed communicator's entry loses
 * its handle, because NCCL uses addresses again. Who fills it: shim/nccl/comm.c.
 */
#ifndef CAPO_COMMS_H
#define CAPO_COMMS_H

#include "shim/record/recorder.h"

/** capo_comm_known() - the communicator of @handle, or NULL; never makes one. */
struct capo_comm *capo_comm_known(const void *handle);

/** capo_comm_by_hash() - by NCCL's commHash, as a plugin told it; NULL when none did. */
struct capo_comm *capo_comm_by_hash(uint64_t comm_hash);

/** capo_comm_same() - is the communicator numbered @id one of those with this hash? Several ranks of one process are. */
bool capo_comm_same(uint16_t id, uint64_t comm_hash);

/**
 * capo_comm_new() - an entry to be filled, zeroed; NULL when there is no memory
 * From memory of our own: the job's allocator is not ours to call from inside its NCCL calls. Under the caller's lock.
 */
struct capo_comm *capo_comm_new(void);

/** capo_comm_enter() - @comm is whole: find it by its handle from now on. Under the caller's lock. */
void capo_comm_enter(struct capo_comm *comm);

/** capo_comm_name_hash() - find @comm by @hash, too; it never changes after. Under a lock of the caller's. */
void capo_comm_name_hash(struct capo_comm *comm, uint64_t hash);

/** capo_comm_new_id() - a place in the segment. Return: its id; 0, and a line once, when there is no memory. */
uint16_t capo_comm_new_id(void);

/** capo_comm_change(), capo_comm_changed() - change what the log says about @comm: between these two, under the
 * segment's lock. NULL for one without an id. */
struct capo_seg_comm *capo_comm_change(const struct capo_comm *comm);
void capo_comm_changed(struct capo_seg_comm *entry);

void capo_comms_fork(void);

#endif
