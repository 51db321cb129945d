/* SPDX-License-Identifier: Apache-2.0 */
/* The table of communicators, read without a lock. A destroyed communicator's entry is taken out,
 * still leads on to what came after it, and becomes another one's after REST_NS at the earliest: a
 * reader that stood on it for longer may have strayed into another chain, so what it did not find
 * is looked for again under the lock before anybody believes it. Who fills it: shim/nccl/comm.c. */
#pragma once

#include "shim/record/state.h"

/** capo_comm_known() - the communicator of @handle, or NULL; never makes one. */
struct capo_comm *capo_comm_known(const void *handle);

/** capo_comm_by_hash() - by NCCL's commHash, as a plugin reported it; NULL when none did. */
struct capo_comm *capo_comm_by_hash(uint64_t comm_hash);

/** capo_comm_numbered() - the communicator with @id; NULL: it is gone, or several have it. */
struct capo_comm *capo_comm_numbered(uint16_t id);

/** capo_comm_same() - has the communicator @id this hash? Several ranks of a process may. */
bool capo_comm_same(uint16_t id, uint64_t comm_hash);

/** capo_comm_new() - an entry for the communicator that is as @what says, in no chain yet; NULL
 * when there is no memory From memory of our own: the job's allocator is not ours to call from
 * inside its NCCL calls. Under the caller's lock. */
struct capo_comm *capo_comm_new(const struct capo_comm *what);

/** capo_comm_enter() - @comm is whole: find it by its handle from now on. Under the caller's lock.
 */
void capo_comm_enter(struct capo_comm *comm);

/** capo_comm_name_hash() - find @comm by @hash too, if it has none and lives. Under any lock. */
void capo_comm_name_hash(struct capo_comm *comm, uint64_t hash);

/** capo_comm_leave() - @comm is no more, and reused later. Under capo_comm_enter()'s lock. */
void capo_comm_leave(struct capo_comm *comm);

/** capo_comm_name_id() - give @comm, whose size, rank and device are known, its id: a place in the
 * segment
 *
 * Ids are 16 bits. After the 64,512th communicator of the process all that are alike (size, rank,
 * device, library) share one, and its uid is 0: what they do is counted, but joined with no other
 * rank's. Return: true when it is one of those and has been described before. Without memory the id
 * is 0, and a line says so once. */
bool capo_comm_name_id(struct capo_comm *comm);

/** capo_comm_change(), capo_comm_changed() - change what the log says about @comm: between these
 * two, under the segment's lock. NULL for one without an id. */
struct capo_seg_comm *capo_comm_change(const struct capo_comm *comm);
void capo_comm_changed(struct capo_seg_comm *entry);

void capo_comms_fork(void);
