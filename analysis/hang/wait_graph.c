/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/call_ids.h"
#include "core/base/among.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "analysis/hang/culprits.h"
#include "analysis/hang/wait_graph.h"

uint64_t capo_hang_active_ns(const struct capo_hang_process *p)
{
        return MOST_OF(c, p->calls, p->n_calls, c->end_ns > c->begin_ns ? c->end_ns : c->begin_ns);
}

const struct capo_hang_call *capo_hang_inside(const struct capo_hang_process *p)
{
        return LAST_OF(c, p->calls, p->n_calls,
                       c->where == CAPO_HANG_HOST || c->where == CAPO_HANG_ENDING);
}

bool capo_hang_gone(const struct capo_hang_job *job, uint32_t process)
{
        const struct capo_hang_process *p = &job->processes[process];

        if (p->life == CAPO_HANG_EXITED)
                return true;
        return p->life == CAPO_HANG_KILLED && p->end_ns < capo_hang_active_ns(p) + job->after_ns;
}

/* ---- nodes ---- */

/* The latest time at which collective @seq of @comm can have begun, of which there is no record:
 * when the next one with a record did. Without a next one it was not recorded, or waits for its GPU
 * time, if one before it is younger than the oldest record. Else it is older than all records. */
static uint64_t begun_before(const struct capo_hang_process *p, uint32_t comm, uint32_t seq)
{
        const struct capo_hang_call *next = NULL;
        uint64_t before_ns = 0;

        for (uint32_t i = 0; i < p->n_calls; i++) {
                const struct capo_hang_call *c = &p->calls[i];

                if (c->comm != comm || !is_collective(c))
                        continue;
                if (c->seq > seq && (!next || c->seq < next->seq))
                        next = c;
                if (c->seq < seq && c->begin_ns > before_ns)
                        before_ns = c->begin_ns;
        }
        return next                                     ? next->begin_ns
               : p->known_ns && before_ns > p->known_ns ? capo_hang_active_ns(p)
                                                        : p->known_ns;
}

/* Add a process to @n->in, once even if it has several ranks of the communicator. */
static void node_in(const struct hang_graph *g, struct hang_node *n, uint32_t process,
                    const struct capo_hang_call *call)
{
        uint64_t at_ns =
                call ? call->begin_ns : begun_before(&g->job->processes[process], n->comm, n->seq);

        if (at_ns > n->last_ns)
                n->last_ns = at_ns;
        if (!n->call)
                n->call = call;
        n->n_ranks_in++;
        if (n->n_in && n->in[n->n_in - 1] == process)
                return;
        *xadd(n->in, n->n_in) = process;
}

static void node_on(struct hang_node *n, uint32_t process, uint32_t member,
                    enum capo_hang_stand stand, bool left)
{
        *xadd(n->on, n->n_on) = (struct hang_missed){process, member, stand, left};
}

static void add_front(struct hang_graph *g, uint32_t comm)
{
        const struct capo_hang_front *f = &g->waits.fronts[comm];
        const struct capo_hang_comm *c = &g->job->comms[comm];
        struct hang_node *n;

        if (!f->seq || !f->n[CAPO_STAND_IN])
                return;
        n = xput(g->nodes, g->n_nodes, .kind = CAPO_HANG_MISSING, .comm = comm, .seq = f->seq,
                 .unseen = f->unseen, .mismatch = f->mismatch);
        for (uint32_t i = 0; i < c->n_members; i++) {
                uint32_t process = c->members[i].process;

                if (f->stand[i] == CAPO_STAND_IN && !capo_hang_gone(g->job, process))
                        node_in(g, n, process, f->call[i]);
                else if (f->stand[i] < CAPO_STAND_IN)
                        node_on(n, process, i, f->stand[i], c->members[i].dead);
        }
}

static void add_pair(struct hang_graph *g, const struct capo_hang_pair *pair)
{
        const struct capo_hang_comm *c = &g->job->comms[pair->call->comm];
        const struct capo_hang_member *m =
                FIRST_OF(of, c->members, c->n_members, of->rank == pair->call->peer);
        struct hang_node *n;

        if (capo_hang_gone(g->job, pair->process))
                return;
        n = xput(g->nodes, g->n_nodes, .kind = CAPO_HANG_P2P, .comm = pair->call->comm,
                 .seq = pair->call->seq, .unseen = pair->peer == CAPO_HANG_NONE,
                 .unlike = pair->unlike, .mismatch = pair->unlike != NULL);
        node_in(g, n, pair->process, pair->call);
        if (pair->unlike)
                node_in(g, n, pair->peer, pair->unlike);
        if (pair->peer == CAPO_HANG_NONE || pair->unlike)
                return;
        node_on(n, pair->peer, m ? (uint32_t)(m - c->members) : CAPO_HANG_NONE, pair->stand,
                m && m->dead);
}

bool capo_hang_is_lifecycle(const struct capo_hang_call *c)
{
        switch (c->call) {
        case CAPO_CALL_COMMINIT:
        case CAPO_CALL_COMMSPLIT:
        case CAPO_CALL_COMMSHRINK:
        case CAPO_CALL_COMMGROW:
        case CAPO_CALL_EPCREATEGROUP:
        case CAPO_CALL_COMMFINALIZE:
        case CAPO_CALL_COMMDESTROY: return true;
        default: return false;
        }
}

/* The call that creates or destroys a communicator which the host of @process is in, or stuck in: its
 * creation failed, because another rank died, and only cleanup calls followed; or its last call began
 * one without waiting for it, and not all ranks have. */
static const struct capo_hang_call *lifecycle_call_of(const struct capo_hang_job *job,
                                                      uint32_t process)
{
        const struct capo_hang_process *p = &job->processes[process];
        const struct capo_hang_call *c = capo_hang_inside(p), *last;

        if (c)
                return capo_hang_is_lifecycle(c) && !capo_hang_gone(job, process) ? c : NULL;
        last = LAST_OF(of, p->calls, p->n_calls,
                       of->call != CAPO_CALL_COMMFINALIZE && of->call != CAPO_CALL_COMMDESTROY &&
                               of->call != CAPO_CALL_COMMABORT);
        if (last && capo_hang_is_lifecycle(last) && last->result == CAPO_NCCL_REMOTE_ERROR)
                return last;
        last = hang_last(p);
        return last && last->call == CAPO_CALL_COMMINIT && last->result == CAPO_NCCL_IN_PROGRESS &&
                               last->comm != CAPO_HANG_NONE && !capo_hang_gone(job, process) &&
                               job->comms[last->comm].n_ranks >
                                       (int32_t)job->comms[last->comm].n_members
                       ? last
                       : NULL;
}

CAPO_ORDERED(by_process, uint32_t, CAPO_ORDER(*a, *b));

static bool takes_part(const struct hang_node *n, uint32_t process)
{
        return bsearch(&process, n->in, n->n_in, sizeof *n->in, by_process) != NULL;
}

/* Should member @m of the parent take part in @c, and does not? A shrink is made without ranks that
 * are gone. */
static bool is_absent(const struct hang_graph *g, const struct hang_node *n,
                      const struct capo_hang_call *c, const struct capo_hang_member *m)
{
        bool ends = c->call == CAPO_CALL_COMMFINALIZE || c->call == CAPO_CALL_COMMDESTROY,
             gone = g->job->processes[m->process].life > CAPO_HANG_STOPPED;

        return !takes_part(n, m->process) && !m->dead &&
               !(gone && c->call == CAPO_CALL_COMMSHRINK) &&
               (ends || m->splits <= g->job->comms[c->comm].members[c->member].splits);
}

static bool is_member(const struct capo_hang_comm *c, uint32_t process)
{
        return ANY_OF(m, c->members, c->n_members, m->process == process);
}

/* Processes that are not in @c->comm have to take part, too: newcomers, or all that are left. Where
 * there are more of them than are wanted, it is not known which. */
static void add_absent_others(struct hang_graph *g, struct hang_node *n,
                              const struct capo_hang_call *c, uint32_t wanted)
{
        const struct capo_hang_job *job = g->job;
        uint32_t others = 0;

        for (uint32_t i = 0; i < job->n_processes; i++)
                others += !is_member(&job->comms[c->comm], i);
        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_hang_call *in = capo_hang_inside(&job->processes[i]);

                if (is_member(&job->comms[c->comm], i) || (in && in->call == c->call))
                        continue;
                if (others == wanted)
                        node_on(n, i, CAPO_HANG_NONE, CAPO_STAND_MISSING, false);
                else
                        n->unseen = wanted;
        }
}

/* Add every rank that should take part and does not. If a shrink leaves out some of them, it is not
 * known which. */
static void add_absent_ranks(struct hang_graph *g, struct hang_node *n,
                             const struct capo_hang_call *c)
{
        const struct capo_hang_job *job = g->job;
        _cleanup_free_ bool *has = xcalloc(job->n_processes + 1, sizeof *has); /* made it already */
        const struct capo_hang_comm *comm = c->comm != CAPO_HANG_NONE ? &job->comms[c->comm] : NULL;

        if (!comm &&
            c->bytes != job->n_processes) { /* which processes should take part is not known */
                n->unseen = c->bytes > n->n_in ? (uint32_t)c->bytes - n->n_in : 0;
                return;
        }
        for (uint32_t i = 0; !comm && i < job->n_comms; i++) {
                const struct capo_hang_comm *of = &job->comms[i];

                for (uint32_t k = 0; k < of->n_members; k++)
                        has[of->members[k].process] |=
                                (uint32_t)(of->uid ^ of->uid >> 32) == c->stream;
        }
        for (uint32_t i = 0; !comm && i < job->n_processes; i++) {
                if (job->processes[i].stale)
                        n->unseen++;
                else if (!takes_part(n, i) && !has[i])
                        node_on(n, i, CAPO_HANG_NONE, CAPO_STAND_MISSING, false);
        }
        if (comm && c->call == CAPO_CALL_COMMSHRINK && c->bytes &&
            COUNT_OF(m, comm->members, comm->n_members, is_absent(g, n, c, m)) + n->n_in > c->bytes)
                return;
        for (uint32_t i = 0; comm && i < comm->n_members; i++) {
                if (is_absent(g, n, c, &comm->members[i]))
                        node_on(n, comm->members[i].process, i, CAPO_STAND_MISSING, false);
        }
        if (comm && c->call == CAPO_CALL_COMMGROW && c->bytes > comm->n_members)
                add_absent_others(g, n, c, (uint32_t)c->bytes - comm->n_members);
        else if (comm && c->call == CAPO_CALL_COMMINIT)
                add_absent_others(g, n, c, (uint32_t)comm->n_ranks - comm->n_members);
        else if (comm && c->call != CAPO_CALL_COMMSHRINK && comm->n_ranks > 0 &&
                 (uint32_t)comm->n_ranks > comm->n_members)
                n->unseen = (uint32_t)comm->n_ranks - comm->n_members;
}

static void add_lifecycle_calls(struct hang_graph *g)
{
        uint32_t first = g->n_nodes;

        for (uint32_t i = 0; i < g->job->n_processes; i++) {
                const struct capo_hang_call *c = lifecycle_call_of(g->job, i);
                struct hang_node *n;

                if (!c)
                        continue;
                /* the same call on the same communicator, or the same id */
                n = FIRST_OF(of, PAST_OF(g->nodes, first), g->n_nodes - first,
                             of->call->comm == c->comm && of->call->call == c->call &&
                                     (c->comm != CAPO_HANG_NONE ||
                                      (c->stream && c->stream == of->call->stream)));
                n = n ?: xput(g->nodes, g->n_nodes, .kind = CAPO_HANG_CREATION, .comm = c->comm);
                node_in(g, n, i, c);
        }
        for (uint32_t k = first; k < g->n_nodes; k++)
                add_absent_ranks(g, &g->nodes[k], g->nodes[k].call);
}

/* ---- the graph ---- */

static void mark_waits(struct hang_graph *g)
{
        bool changed = true;

        for (const struct hang_node *n = g->nodes; n < PAST_OF(g->nodes, g->n_nodes); n++) {
                /* A process with several GPUs can be in the call with one and owe it with another:
                 * then it is what the call waits for. */
                for (uint32_t i = 0; i < n->n_in && n->n_on; i++) {
                        if (!ANY_OF(on, n->on, n->n_on, on->process == n->in[i]))
                                g->waits_for[n->in[i]] = true;
                }
                for (uint32_t i = 0; i < n->n_on && n->n_in; i++)
                        g->wanted[n->on[i].process] = true;
        }
        while (changed) {
                changed = false;
                for (const struct hang_node *n = g->nodes; n < PAST_OF(g->nodes, g->n_nodes); n++) {
                        bool out = ANY_OF(on, n->on, n->n_on,
                                          !g->waits_for[on->process] || g->leads_out[on->process]);

                        for (uint32_t i = 0; i < n->n_in && out; i++) {
                                changed |= !g->leads_out[n->in[i]];
                                g->leads_out[n->in[i]] = true;
                        }
                }
        }
}

static void drop_young(struct hang_graph *g, uint64_t until_ns)
{
        uint32_t n = 0;

        for (uint32_t k = 0; k < g->n_nodes; k++) {
                if (g->nodes[k].last_ns <= until_ns) {
                        g->nodes[n++] = g->nodes[k];
                        continue;
                }
                free(g->nodes[k].in);
                free(g->nodes[k].on);
        }
        g->n_nodes = n;
}

void capo_hang_graph(const struct capo_hang_job *job, bool lenient, uint64_t until_ns,
                     struct hang_graph *g)
{
        *g = (struct hang_graph){.job = job,
                                 .waits_for = xcalloc(job->n_processes + 1, sizeof(bool)),
                                 .wanted = xcalloc(job->n_processes + 1, sizeof(bool)),
                                 .leads_out = xcalloc(job->n_processes + 1, sizeof(bool))};
        capo_hang_play(job, lenient, &g->waits);
        for (uint32_t i = 0; i < job->n_comms; i++)
                add_front(g, i);
        for (uint32_t i = 0; i < g->waits.n_pairs; i++)
                add_pair(g, &g->waits.pairs[i]);
        add_lifecycle_calls(g);
        drop_young(g, until_ns);
        mark_waits(g);
}

void capo_hang_graph_finish(struct hang_graph *g)
{
        for (uint32_t k = 0; k < g->n_nodes; k++) {
                free(g->nodes[k].in);
                free(g->nodes[k].on);
        }
        xfree(g->nodes, g->waits_for, g->wanted, g->leads_out);
        capo_hang_waits_finish(&g->waits);
        *g = (struct hang_graph){0};
}
