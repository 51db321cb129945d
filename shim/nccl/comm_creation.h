/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a communicator while NCCL creates it. */
#pragma once

#include "shim/nccl/comm.h"

enum {
        COLOR_SHRINK = -1000001,
        COLOR_GROW = -1000002
}; /* no colour of a split: those are not negative */

/** capo_creation_of() - nothing is known but where NCCL puts it. */
struct capo_creation capo_creation_of(ncclComm_t *where, struct capo_nccl *lib);

/** capo_creation_first() - one without a parent. @id NULL: not known. @grown: neither its new ranks
 * nor its old ones can say what NCCL's hash of it will be. */
struct capo_creation capo_creation_first(struct capo_nccl *lib, ncclComm_t *where,
                                         const ncclUniqueId *id, int n_ranks, int rank,
                                         const ncclConfig_t *config, bool grown);

/** capo_creation_child() - of Split, Shrink and Grow. @n_ranks: -1 not known. */
struct capo_creation capo_creation_child(struct capo_comm *parent, ncclComm_t *where, int color,
                                         int n_ranks, const ncclConfig_t *config);
