/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin's init runs while its communicator is being made, so before capo knows the handle, and
 * names no handle. What it told is kept here, and a communicator takes what was told since its own
 * init began: by its own thread if that spoke, else (NCCL makes communicators of a group and
 * non-blocking ones on threads of its own) the only one that fits in size and rank. When several
 * fit, unknown is better than wrong. Ranks of one communicator in one process share its hash.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "shim/nccl/told.h"
#include "shim/record/comms.h"

static struct told {
        struct capo_seam_comm what;
        char name[96];
        const void *thread; /* who said it */
        uint64_t when;      /* ticks; 0 the place is empty */
} tolds[64];
static pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;

static bool matches_comm(const struct capo_seam_comm *told, const struct capo_comm *comm)
{
        return (told->n_ranks < 0 || comm->n_ranks == 0 ||
                (uint32_t)told->n_ranks == comm->n_ranks) &&
               (told->rank < 0 || comm->rank < 0 || told->rank == comm->rank);
}

/* Called with told_lock held. */
static void update_comm(struct capo_comm *comm, const struct told *told)
{
        struct capo_seg_comm *entry;

        if (told->what.comm_hash)
                capo_comm_name_hash(comm, told->what.comm_hash);
        entry = capo_comm_change(comm);
        if (entry) {
                entry->log.comm_hash = comm->comm_hash;
                if (told->what.n_nodes > 0)
                        entry->log.n_nodes = told->what.n_nodes;
                if (told->what.min_local > 0)
                        entry->log.min_local = told->what.min_local;
                if (told->what.max_local > 0)
                        entry->log.max_local = told->what.max_local;
                if (told->what.tuned)
                        entry->log.flags |= CAPO_COMM_TUNED;
                if (!entry->name[0])
                        memcpy(entry->name, told->name, sizeof told->name);
        }
        capo_comm_changed(entry);
}

/* A communicator has just been added: was it told of? */
void capo_comm_claim(struct capo_comm *comm)
{
        struct told *mine = NULL, *other = NULL;
        bool several = false;

        capo_lock(&told_lock);
        for (size_t i = 0; i < N_ELEMENTS(tolds); i++) {
                struct told *told = &tolds[i];

                if (told->when < comm->begun || !told->when || !matches_comm(&told->what, comm))
                        continue;
                if (told->thread == &capo_tls)
                        mine = !mine || told->when > mine->when ? told : mine;
                several |= other && other->what.comm_hash != told->what.comm_hash;
                other = told;
        }
        if (mine || (other && !several))
                update_comm(comm, mine ? mine : other);
        capo_unlock(&told_lock);
}

static bool same_comm(const struct capo_seam_comm *a, const struct capo_seam_comm *b)
{
        return a->comm_hash == b->comm_hash && (a->rank < 0 || b->rank < 0 || a->rank == b->rank);
}

/* The place of @what: where another plugin told of the same, else the oldest. */
static struct told *told_place(const struct capo_seam_comm *what)
{
        struct told *oldest = &tolds[0];

        for (size_t i = 0; i < N_ELEMENTS(tolds); i++) {
                if (tolds[i].when && what->comm_hash && same_comm(&tolds[i].what, what))
                        return &tolds[i];
                if (tolds[i].when < oldest->when)
                        oldest = &tolds[i];
        }
        *oldest = (struct told){.what = {.n_nodes = -1,
                                         .min_local = -1,
                                         .max_local = -1,
                                         .n_ranks = -1,
                                         .rank = -1}};
        return oldest;
}

void capo_comm_told(const struct capo_seam_comm *what)
{
        struct capo_comm *comm;
        struct told *told;

        if (atomic_load(&capo_life.state) != CAPO_SHIM_ON)
                return;
        capo_lock(&told_lock);
        told = told_place(what);
        told->thread = &capo_tls;
        told->when = capo_clock_ticks();
        told->what.comm_hash = what->comm_hash;
        told->what.tuned |= what->tuned;
        told->what.n_ranks = what->n_ranks > 0 ? what->n_ranks : told->what.n_ranks;
        told->what.rank = what->rank >= 0 ? what->rank : told->what.rank;
        told->what.n_nodes = what->n_nodes > 0 ? what->n_nodes : told->what.n_nodes;
        told->what.min_local = what->min_local > 0 ? what->min_local : told->what.min_local;
        told->what.max_local = what->max_local > 0 ? what->max_local : told->what.max_local;
        if (what->name)
                snprintf(told->name, sizeof told->name, "%s", what->name);
        comm = what->comm_hash ? capo_comm_by_hash(what->comm_hash) : NULL;
        if (comm && matches_comm(&told->what, comm)) /* a non-blocking one that was claimed already,
                                                        of which more is told now */
                update_comm(comm, told);
        capo_unlock(&told_lock);
}

void capo_told_fork(void)
{
        memset(tolds, 0, sizeof tolds);
        pthread_mutex_init(&told_lock, NULL);
}
