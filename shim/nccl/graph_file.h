/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL_GRAPH_FILE for one communicator only. NCCL reads the variable each time it makes one and fails where the file
 * names other GPUs, so here it is in the environment only while the communicator of all ranks is made, and every other
 * communicator is searched for as if there were no file.
 *
 * All ranks of a communicator must have the file or none on a machine; what is asked is therefore only what they share:
 * the number of ranks, whether the call waits, and facts of the machine.
 */
#ifndef CAPO_SHIM_GRAPH_FILE_H
#define CAPO_SHIM_GRAPH_FILE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "shim/record/nccl_abi.h"
#include "shim/nccl/real.h"

enum capo_graph_state { CAPO_GRAPH_UNKNOWN = 0, CAPO_GRAPH_NONE, CAPO_GRAPH_GIVEN };
extern _Atomic int capo_graph_state;

bool capo_graph_enter_slow(int n_ranks, const ncclConfig_t *config, const struct capo_nccl *lib);
void capo_graph_leave(void);
void capo_graph_group_slow(void);
bool capo_graph_group_end_slow(void);

static inline bool capo_graph_possible(void)
{
        return atomic_load_explicit(&capo_graph_state, memory_order_acquire) != CAPO_GRAPH_NONE;
}

/**
 * capo_graph_enter() - before NCCL makes a communicator
 * @n_ranks: -1: not known (Split, Shrink, Grow): never the one of all ranks
 * @lib:     the NCCL that will
 *
 * Return: whether capo_graph_leave() must follow when NCCL is done. Never in a group: the group's end decides.
 */
static inline bool capo_graph_enter(int n_ranks, const ncclConfig_t *config, const struct capo_nccl *lib)
{
        return capo_graph_possible() && capo_graph_enter_slow(n_ranks, config, lib);
}

static inline void capo_graph_group_begin(void)
{
        if (capo_graph_possible())
                capo_graph_group_slow();
}

/** capo_graph_group_end() - before NCCL ends a group. Return: as capo_graph_enter(). */
static inline bool capo_graph_group_end(void)
{
        return capo_graph_possible() && capo_graph_group_end_slow();
}

#endif
