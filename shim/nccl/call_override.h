/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that a profile's rule turns into their Config twins (NCCL 2.31): what no tuner plugin
 * reaches - symmetric kernels, the number of CTAs, clusters, copy engines. Communicators without
 * such a rule keep the plain pointers in their `into`, and cost nothing. */
#pragma once

#include "shim/nccl/real.h"
#include "shim/record/comms.h"

struct capo_tls;

/** capo_override_hash() - the number NCCL gives a communicator made of @id;
 * capo_override_hash_split() - the @nth child (1 the first) of
 * @parent's that a split with @color makes. As releases 2.31 and 2.32 work them out (src/init.cc,
 * src/include/bitops.h): every rank comes to the same by itself. A later release that does
 * otherwise has no communicator of that number, and nothing is turned. */
uint64_t capo_override_hash(const ncclUniqueId *id);
uint64_t capo_override_hash_split(uint64_t parent, int nth, int color);

/** capo_override_settle() - @comm is ready for calls: the tuner was asked if it ever will be. */
void capo_override_settle(struct capo_comm *comm);

/** capo_override_unrecorded() - where a call goes that cannot be recorded: as on other ranks. */
struct capo_nccl *capo_override_unrecorded(const struct capo_tls *t, struct capo_nccl *into,
                                           const void *handle);
