/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a communicator while NCCL creates it. */
#include "shim/nccl/birth.h"
#include "shim/nccl/call_override.h"

struct capo_birth capo_birth_of(ncclComm_t *where, struct capo_nccl *lib)
{
        return (struct capo_birth){
                .where = where, .lib = lib, .rank = -1, .n_ranks = -1, .device = -1, .color = -1};
}

struct capo_birth capo_birth_first(struct capo_nccl *lib, ncclComm_t *where, const ncclUniqueId *id,
                                   int n_ranks, int rank, const ncclConfig_t *config, bool grown)
{
        struct capo_birth birth = capo_birth_of(where, lib);

        birth.uid = id ? capo_uid_of(id) : 0;
        birth.nccl_hash = id ? capo_steer_hash(id) : 0;
        birth.n_ranks = n_ranks;
        birth.rank = rank;
        birth.apart = grown;
        capo_comm_config(&birth, config);
        return birth;
}

struct capo_birth capo_birth_child(struct capo_comm *parent, ncclComm_t *where, int color,
                                   int n_ranks, const ncclConfig_t *config)
{
        struct capo_birth birth = capo_birth_of(where, parent->lib);

        birth.parent = parent;
        birth.apart = parent->apart || color == COLOR_GROW;
        birth.uid = capo_uid_child(parent->uid, parent->children++, color);
        if (color >= 0) /* a split: what a shrink's and a grow's is, is not worked out */
                birth.nccl_hash =
                        capo_steer_hash_split(parent->nccl_hash, (int)parent->children, color);
        birth.color = color < 0 ? -1 : color;
        birth.n_ranks = n_ranks;
        capo_comm_config(&birth, config);
        return birth;
}
