/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom: made of what cannot go on (waits.c) and of communicators that are being made
 * or ended. */
#ifndef CAPO_HANG_GRAPH_H
#define CAPO_HANG_GRAPH_H

#include "analysis/hang/hang_verdict.h"

/* Who does not come. */
struct hang_missed {
        uint32_t process;
        enum capo_hang_stand stand;
        bool left; /* it has destroyed or aborted the communicator */
};

/* All of @in, which are processes, wait for all of @on. */
struct hang_node {
        enum capo_hang_kind kind; /* MISSING, P2P, BIRTH: what it is when one of @on has no reason
                                     to stay away */
        uint32_t comm, seq;
        const struct capo_hang_call *call; /* of one that waits; NULL not known */
        bool mismatch;
        uint32_t unseen; /* ranks without a log that may be meant */
        uint32_t *in;    /* of a birth they ascend */
        struct hang_missed *on;
        uint32_t n_in, n_on;
        uint64_t last_ns; /* when the last of @in began to wait */
};

struct hang_graph {
        const struct capo_hang_job *job;
        struct capo_hang_waits waits;
        struct hang_node *nodes;
        uint32_t n_nodes;
        bool *waits_for; /* by process: something, that is not only ranks without a log */
        bool *wanted;    /* somebody waits for it */
        bool *leads_out; /* following what it waits for ends at somebody who waits for nothing */
};

/** capo_hang_graph() - of the waits whose last rank began to wait at @until_ns or before. Return:
 * 0; -ENOMEM. capo_hang_graph_finish() in any case. */
int capo_hang_graph(const struct capo_hang_job *job, bool lenient, uint64_t until_ns,
                    struct hang_graph *g);
void capo_hang_graph_finish(struct hang_graph *g);

/** capo_hang_ends() - somebody waits for @process, and it waits for nobody. */
static inline bool capo_hang_ends(const struct hang_graph *g, uint32_t process)
{
        return g->wanted[process] && !g->waits_for[process];
}

/** capo_hang_gone() - @process is no more, and was gone before it had waited for long itself. */
bool capo_hang_gone(const struct capo_hang_job *job, uint32_t process);

/** capo_hang_active_ns() - when @process last began or ended a call. */
uint64_t capo_hang_active_ns(const struct capo_hang_process *p);

/** capo_hang_inside() - the call that the host of @p is in; NULL none. */
const struct capo_hang_call *capo_hang_inside(const struct capo_hang_process *p);

/** capo_hang_is_birth() - it makes a communicator or ends one: all of its ranks take part. */
bool capo_hang_is_birth(const struct capo_hang_call *c);

#endif
