/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's init runs while its communicator is being made, so before capo knows the handle, and
 * names no handle. What it reported is kept here, and a communicator takes what was reported since
 * its own init began: by its own thread if that spoke, else (NCCL makes communicators of a group
 * and non-blocking ones on threads of its own) the only one that fits in size and rank. When
 * several fit, unknown is better than wrong. Ranks of one communicator in one process share its
 * hash. */

#include "shim/nccl/reported.h"
#include "shim/record/comms.h"

static struct reported {
        struct capo_seam_comm what;
        char name[96];
        const void *thread; /* who said it */
        uint64_t when;      /* ticks; 0 the place is empty */
} reported_comms[64];
static pthread_mutex_t reported_lock = PTHREAD_MUTEX_INITIALIZER;

static bool matches_comm(const struct capo_seam_comm *reported, const struct capo_comm *comm)
{
        return (reported->n_ranks < 0 || comm->n_ranks == 0 ||
                (uint32_t)reported->n_ranks == comm->n_ranks) &&
               (reported->rank < 0 || comm->rank < 0 || reported->rank == comm->rank);
}

/* Called with reported_lock held. */
static void update_comm(struct capo_comm *comm, const struct reported *reported)
{
        struct capo_seg_comm *entry;

        if (reported->what.comm_hash)
                capo_comm_name_hash(comm, reported->what.comm_hash);
        entry = capo_comm_change(comm);
        if (entry) {
                entry->log.comm_hash = comm->comm_hash;
                if (reported->what.n_nodes > 0)
                        entry->log.n_nodes = reported->what.n_nodes;
                if (reported->what.min_local > 0)
                        entry->log.min_local = reported->what.min_local;
                if (reported->what.max_local > 0)
                        entry->log.max_local = reported->what.max_local;
                if (reported->what.tuned)
                        entry->log.flags |= CAPO_COMM_TUNED;
                if (!entry->name[0])
                        memcpy(entry->name, reported->name, sizeof reported->name);
        }
        capo_comm_changed(entry);
}

/* A communicator has just been added: was it reported? */
void capo_comm_claim(struct capo_comm *comm)
{
        struct reported *mine = NULL, *other = NULL;
        bool several = false;

        capo_lock(&reported_lock);
        for (size_t i = 0; i < N_ELEMENTS(reported_comms); i++) {
                struct reported *reported = &reported_comms[i];

                if (reported->when < comm->begun || !reported->when ||
                    !matches_comm(&reported->what, comm))
                        continue;
                if (reported->thread == &capo_tls)
                        mine = !mine || reported->when > mine->when ? reported : mine;
                several |= other && other->what.comm_hash != reported->what.comm_hash;
                other = reported;
        }
        if (mine || (other && !several))
                update_comm(comm, mine ? mine : other);
        capo_unlock(&reported_lock);
}

static bool same_comm(const struct capo_seam_comm *a, const struct capo_seam_comm *b)
{
        return a->comm_hash == b->comm_hash && (a->rank < 0 || b->rank < 0 || a->rank == b->rank);
}

/* The place of @what: where another plugin reported the same one, else the oldest. */
static struct reported *find_reported(const struct capo_seam_comm *what)
{
        struct reported *oldest = &reported_comms[0];

        for (size_t i = 0; i < N_ELEMENTS(reported_comms); i++) {
                if (reported_comms[i].when && what->comm_hash &&
                    same_comm(&reported_comms[i].what, what))
                        return &reported_comms[i];
                if (reported_comms[i].when < oldest->when)
                        oldest = &reported_comms[i];
        }
        *oldest = (struct reported){.what = {.n_nodes = -1,
                                             .min_local = -1,
                                             .max_local = -1,
                                             .n_ranks = -1,
                                             .rank = -1}};
        return oldest;
}

void capo_comm_reported(const struct capo_seam_comm *what)
{
        struct capo_comm *comm;
        struct reported *reported;

        if (atomic_load(&capo_life.state) != CAPO_SHIM_ON)
                return;
        capo_lock(&reported_lock);
        reported = find_reported(what);
        reported->thread = &capo_tls;
        reported->when = capo_clock_ticks();
        reported->what.comm_hash = what->comm_hash;
        reported->what.tuned |= what->tuned;
        reported->what.n_ranks = what->n_ranks > 0 ? what->n_ranks : reported->what.n_ranks;
        reported->what.rank = what->rank >= 0 ? what->rank : reported->what.rank;
        reported->what.n_nodes = what->n_nodes > 0 ? what->n_nodes : reported->what.n_nodes;
        reported->what.min_local = what->min_local > 0 ? what->min_local : reported->what.min_local;
        reported->what.max_local = what->max_local > 0 ? what->max_local : reported->what.max_local;
        if (what->name)
                snprintf(reported->name, sizeof reported->name, "%s", what->name);
        comm = what->comm_hash ? capo_comm_by_hash(what->comm_hash) : NULL;
        if (comm && matches_comm(&reported->what, comm)) /* a non-blocking one that was claimed
                                                        already, of which more is reported now */
                update_comm(comm, reported);
        capo_unlock(&reported_lock);
}

void capo_reported_fork(void)
{
        memset(reported_comms, 0, sizeof reported_comms);
        pthread_mutex_init(&reported_lock, NULL);
}
