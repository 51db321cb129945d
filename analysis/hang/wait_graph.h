/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank waits for which: built from calls that cannot go on (waits.c) and from communicators
 * that are being created or destroyed. */
#pragma once

#include "analysis/hang/hang_verdict.h"

/* A rank that others wait for. */
struct hang_missed {
        uint32_t process;
        uint32_t member; /* of the communicator; CAPO_HANG_NONE not known */
        enum capo_hang_stand stand;
        bool left; /* it destroyed or aborted the communicator */
};

/* All processes in @in wait for all in @on. */
struct hang_node {
        enum capo_hang_kind kind; /* MISSING, P2P, CREATION: the verdict if one of @on waits for
                                     nothing itself */
        uint32_t comm, seq;
        const struct capo_hang_call *call; /* of one that waits; NULL not known */
        bool mismatch;
        const struct capo_hang_call *unlike; /* P2P: the other half, if that has another size */
        uint32_t unseen;                     /* ranks without a log that may be the missing ones */
        uint32_t *in;                        /* ascending for CREATION */
        struct hang_missed *on;
        uint32_t n_ranks_in; /* ranks of the communicator: a process can have several */
        uint32_t n_in, n_on;
        uint64_t last_ns; /* when the last of @in began to wait */
};

struct hang_graph {
        const struct capo_hang_job *job;
        struct capo_hang_waits waits;
        struct hang_node *nodes;
        uint32_t n_nodes;
        bool *waits_for; /* by process: it waits for something other than ranks without a log */
        bool *wanted;    /* another process waits for it */
        bool *leads_out; /* the chain of waiting from it ends at a process that waits for nothing */
};

/** capo_hang_graph() - of waits whose last rank began to wait at @until_ns or before. Call
 * capo_hang_graph_finish(). */
void capo_hang_graph(const struct capo_hang_job *job, bool lenient, uint64_t until_ns,
                     struct hang_graph *g);
void capo_hang_graph_finish(struct hang_graph *g);

/** capo_hang_ends() - do others wait for @process, while it waits for none? */
static inline bool capo_hang_ends(const struct hang_graph *g, uint32_t process)
{
        return g->wanted[process] && !g->waits_for[process];
}

/** capo_hang_gone() - has @process ended, and did it before it had waited for long itself? */
bool capo_hang_gone(const struct capo_hang_job *job, uint32_t process);

/** capo_hang_active_ns() - when @p last began or ended a call. */
uint64_t capo_hang_active_ns(const struct capo_hang_process *p);

/** capo_hang_inside() - the call that the host of @p is in; NULL: none. */
const struct capo_hang_call *capo_hang_inside(const struct capo_hang_process *p);

/** capo_hang_is_lifecycle() - does it create or destroy a communicator, so that all of its ranks
 * take part? */
bool capo_hang_is_lifecycle(const struct capo_hang_call *c);
