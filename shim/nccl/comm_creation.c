/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a communicator while NCCL creates it. */
#include "shim/nccl/comm_creation.h"
#include "shim/nccl/call_override.h"

struct capo_creation capo_creation_of(ncclComm_t *where, struct capo_nccl *lib)
{
        return (struct capo_creation){
                .where = where, .lib = lib, .rank = -1, .n_ranks = -1, .device = -1, .color = -1};
}

struct capo_creation capo_creation_first(struct capo_nccl *lib, ncclComm_t *where,
                                         const ncclUniqueId *id, int n_ranks, int rank,
                                         const ncclConfig_t *config, bool grown)
{
        struct capo_creation creation = capo_creation_of(where, lib);

        creation.uid = id ? capo_uid_of(id) : 0;
        creation.nccl_hash = id ? capo_override_hash(id) : 0;
        creation.n_ranks = n_ranks;
        creation.rank = rank;
        creation.apart = grown;
        capo_comm_config(&creation, config);
        return creation;
}

struct capo_creation capo_creation_child(struct capo_comm *parent, ncclComm_t *where, int color,
                                         int n_ranks, const ncclConfig_t *config)
{
        struct capo_creation creation = capo_creation_of(where, parent->lib);

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
