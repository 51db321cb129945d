/* SPDX-License-Identifier: Apache-2.0 */
/* Replays all known calls. Each stream of each process is a queue; the call at its head runs; a
 * collective ends when every member of its communicator has it at a head. What remains when nothing
 * can go on is stuck, for whatever reason: a missing rank, a different order, a different call.
 * Waiting of hosts is not modelled: a rank waits if its stream does. */
#include "capo/call_ids.h"
#include "core/base/among.h"
#include "core/base/xalloc.h"
#include "analysis/hang/hang_play.h"

enum { LENIENT_BYTES = 16 << 20 };

/* ---- replay ---- */

/* Can its rank be through with it although others have not come? Its data may be in buffers. */
static bool may_be_through(const struct play *p, uint32_t i)
{
        const struct capo_hang_call *c = p->call[i];
        bool root = c->comm != CAPO_HANG_NONE &&
                    p->job->comms[c->comm].members[c->member].rank == c->peer;

        if (!p->lenient || p->state[i] & HELD || c->where != CAPO_HANG_RETURNED ||
            c->bytes > LENIENT_BYTES)
                return false;
        switch (capo_call_kind(c->call)) {
        case CAPO_KIND_BROADCAST:
        case CAPO_KIND_SCATTER: return root;
        case CAPO_KIND_REDUCE:
        case CAPO_KIND_GATHER: return !root;
        case CAPO_KIND_P2P: return c->call == CAPO_CALL_SEND;
        default: return false;
        }
}

static bool is_held(const struct play *p, uint32_t i)
{
        return !(p->state[i] & ENDED) &&
               (p->state[i] & HELD || p->call[i]->gpu >= CAPO_HANG_GPU_RUNNING);
}

/* A send and its receive have other sizes, and one is not seen to end. NCCL does not compare the
 * sizes: the larger half waits for ever. */
static bool differ_in_size(const struct play *p, uint32_t i)
{
        uint32_t mate = p->mate[i];

        return p->call[i]->bytes != p->call[mate]->bytes && (is_held(p, i) || is_held(p, mate));
}

static void set_state(struct play *p, uint32_t i, enum play_state state)
{
        p->state[i] = (uint8_t)((p->state[i] & ~STATE) | state);
}

/* Advance a call at a head as far as possible. Return: it is done. */
static bool step_call(struct play *p, uint32_t i, bool *changed)
{
        const struct capo_hang_call *c = p->call[i];
        bool through = p->state[i] & ENDED || may_be_through(p, i);
        struct play_member *m = member_of(p, c);
        uint32_t retired = p->comms[c->comm].retired,
                 done = m->through > retired ? m->through : retired;

        if ((p->state[i] & STATE) == DONE)
                return true;
        if (is_p2p(c)) {
                uint32_t mate = p->mate[i];

                if (through || (mate != CAPO_HANG_NONE && (p->state[mate] & STATE) != IDLE &&
                                !differ_in_size(p, i)))
                        set_state(p, i, DONE);
                else if ((p->state[i] & STATE) == IDLE)
                        set_state(p, i, ACTIVE);
                else
                        return false;
                *changed = true;
                return (p->state[i] & STATE) == DONE;
        }
        /* calls of one communicator run one after the other, whatever their streams; a captured one
         * says nothing about those before it */
        if (c->seq <= retired ||
            (through && ((p->state[i] & ENDED && !c->captured) || c->seq <= done + 1))) {
                m->reached = c->seq > m->reached ? c->seq : m->reached;
                m->through = c->seq > m->through ? c->seq : m->through;
                set_state(p, i, DONE);
                *changed = true;
                return true;
        }
        if (c->seq == retired + 1 && (p->state[i] & STATE) == IDLE) {
                m->reached = c->seq > m->reached ? c->seq : m->reached;
                set_state(p, i, ACTIVE);
                *changed = true;
        }
        return false;
}

/* Advance by one launch: a call, or all calls of a group on this stream. */
static void advance_queue(struct play *p, struct play_queue *q, bool *changed)
{
        while (q->at < q->n) {
                uint32_t group = p->call[q->call[q->at]]->group, end = q->at + 1;
                bool done = true;

                while (group && end < q->n && p->call[q->call[end]]->group == group)
                        end++;
                for (uint32_t i = q->at; i < end; i++)
                        done &= step_call(p, q->call[i], changed);
                if (!done)
                        return;
                q->at = end;
        }
}

static bool is_at(const struct play *p, const struct play_member *m, uint32_t seq)
{
        return m->reached >= seq ||
               (m->entered >= seq && !call_at(p, m, seq) /* not among its last calls */);
}

static bool retire_seq(struct play *p, uint32_t comm)
{
        struct play_comm *c = &p->comms[comm];
        uint32_t all = c->newest;
        bool ended, known = false;

        if (c->retired >= c->newest)
                return false;
        for (uint32_t i = 0; i < p->job->comms[comm].n_members; i++) {
                const struct play_member *m = &c->members[i];
                uint32_t at = m->reached > m->entered ? m->reached : m->entered;

                if (!is_at(p, m, c->retired + 1))
                        return false;
                known |= call_at(p, m, c->retired + 1) != NULL;
                all = at < all ? at : all;
        }
        if (!known) { /* only counted: skip all of these at once, however many a log claims */
                uint32_t next = capo_play_next(p, comm, c->retired + 1);

                next = next > c->retired + 2 ? next - 1 : c->retired + 1;
                c->retired = next < all ? next : all;
                return true;
        }
        if (capo_play_mismatch(p, comm, c->retired + 1, &ended)) {
                if (!ended)
                        return false;
                c->differed = c->retired + 1;
        }
        c->retired++;
        return true;
}

static void play_queues(struct play *p)
{
        bool changed = true;

        while (changed) {
                changed = false;
                for (struct play_queue *q = p->queues; q < PAST_OF(p->queues, p->n_queues); q++)
                        advance_queue(p, q, &changed);
                for (uint32_t i = 0; i < p->job->n_comms; i++) {
                        while (retire_seq(p, i))
                                changed = true;
                }
        }
}

/* ---- what remains ---- */

/* Is call @i not done, with nothing before it on its stream? */
static bool is_at_head(const struct play *p, uint32_t i)
{
        for (const struct play_queue *q = p->queues; q < PAST_OF(p->queues, p->n_queues); q++) {
                uint32_t group;

                if (q->process != p->process[i] || q->at == q->n)
                        continue;
                group = p->call[q->call[q->at]]->group;
                for (uint32_t n = q->at; n < q->n; n++) {
                        if (n != q->at && (!group || p->call[q->call[n]]->group != group))
                                break;
                        if (q->call[n] == i)
                                return (p->state[i] & STATE) != DONE;
                }
        }
        return false;
}

static enum capo_hang_stand stand_of(const struct play *p, uint32_t comm, uint32_t i, uint32_t seq)
{
        const struct capo_hang_member *jm = &p->job->comms[comm].members[i];
        const struct play_member *m = &p->comms[comm].members[i];
        const uint32_t at = index_at(m, seq);

        if (m->entered < seq)
                return m->opened && m->opened <= seq ? CAPO_STAND_OPENED : CAPO_STAND_MISSING;
        if (jm->dead || m->reached > seq)
                return CAPO_STAND_THROUGH;
        if (!is_at(p, m, seq) && (at == CAPO_HANG_NONE || !is_at_head(p, at)))
                return CAPO_STAND_BEHIND;
        return at != CAPO_HANG_NONE && (p->state[at] & STATE) == DONE ? CAPO_STAND_THROUGH
                                                                      : CAPO_STAND_IN;
}

/* Ranks can be through with a call that another one has not entered: a root whose data is buffered,
 * a rank that has sent its part. They then wait in a later call, which that rank has not entered
 * either. Return: the number of that call; 0: none. */
static uint32_t find_later_wait(const struct play *p, uint32_t comm, uint32_t seq)
{
        uint32_t found = 0;

        for (uint32_t i = 0; i < p->job->comms[comm].n_members; i++) {
                const struct play_member *m = &p->comms[comm].members[i];

                if (stand_of(p, comm, i, seq) != CAPO_STAND_THROUGH)
                        continue;
                for (uint32_t k = place_of(m, seq + 1); k < m->n; k++) {
                        if ((p->state[m->of[k].at] & STATE) == DONE)
                                continue;
                        if (is_at_head(p, m->of[k].at) && (!found || m->of[k].seq < found))
                                found = m->of[k].seq;
                        break;
                }
        }
        return found;
}

static void fill_front(const struct play *p, uint32_t comm, struct capo_hang_front *f)
{
        const struct capo_hang_comm *jc = &p->job->comms[comm];
        bool ended;

        f->mismatch = capo_play_mismatch(p, comm, f->seq, &ended);
        memset(f->n, 0, sizeof f->n);
        for (uint32_t i = 0; i < jc->n_members; i++) {
                f->stand[i] = (uint8_t)stand_of(p, comm, i, f->seq);
                f->call[i] = call_at(p, &p->comms[comm].members[i], f->seq);
                f->n[f->stand[i]]++;
        }
}

static void front_of(const struct play *p, uint32_t comm, struct capo_hang_front *f)
{
        const struct capo_hang_comm *jc = &p->job->comms[comm];
        const struct play_comm *c = &p->comms[comm];
        uint32_t later;

        f->differed = c->differed;
        if (c->retired >= c->newest)
                return;
        f->stand = xcalloc(jc->n_members + 1, sizeof *f->stand);
        f->call = xcalloc(jc->n_members + 1, sizeof(const struct capo_hang_call *));
        f->seq = c->retired + 1;
        f->unseen = jc->n_ranks > 0 && (uint32_t)jc->n_ranks > jc->n_members
                            ? (uint32_t)jc->n_ranks - jc->n_members
                            : 0;
        fill_front(p, comm, f);
        if (!f->n[CAPO_STAND_IN] && f->n[CAPO_STAND_MISSING] + f->n[CAPO_STAND_OPENED] &&
            (later = find_later_wait(p, comm, f->seq))) {
                f->seq = later;
                fill_front(p, comm, f);
        }
}

static void collect_leftovers(const struct play *p, struct capo_hang_waits *w)
{
        for (uint32_t i = 0; i < p->n_calls; i++) {
                const struct capo_hang_call *c = p->call[i];
                uint32_t mate = p->mate ? p->mate[i] : CAPO_HANG_NONE;
                const struct capo_hang_call *half = mate != CAPO_HANG_NONE ? p->call[mate] : NULL;
                const struct capo_hang_member *peer;

                if (call_is_taken(c) && is_p2p(c) && !p->comms[c->comm].whole_p2p)
                        w->p2p_unknown = true;
                if (c->call == CAPO_CALL_RECV && half && half->bytes != c->bytes &&
                    (p->state[i] & p->state[mate] & ENDED) &&
                    (!w->unlike.call || c->begin_ns > w->unlike.call->begin_ns))
                        w->unlike = (struct capo_hang_pair){.process = p->process[i],
                                                            .peer = p->process[mate],
                                                            .call = c,
                                                            .unlike = half};
                if (!call_is_played(p, c) || !is_p2p(c) || (p->state[i] & STATE) != ACTIVE)
                        continue;
                peer = FIRST_OF(m, p->job->comms[c->comm].members, p->job->comms[c->comm].n_members,
                                m->rank == c->peer);
                *xadd(w->pairs, w->n_pairs) = (struct capo_hang_pair){
                        .process = p->process[i],
                        .peer = peer ? peer->process : CAPO_HANG_NONE,
                        .call = c,
                        .unlike = half && (p->state[mate] & STATE) != IDLE && differ_in_size(p, i)
                                          ? half
                                          : NULL,
                        .stand = !half                           ? CAPO_STAND_MISSING
                                 : half->where == CAPO_HANG_OPEN ? CAPO_STAND_OPENED
                                                                 : CAPO_STAND_BEHIND};
        }
        for (uint32_t i = 0; i < p->job->n_comms; i++)
                front_of(p, i, &w->fronts[i]);
}

void capo_hang_play(const struct capo_hang_job *job, bool lenient, struct capo_hang_waits *out)
{
        struct play p = {.job = job, .lenient = lenient};

        *out = (struct capo_hang_waits){.fronts = xcalloc(job->n_comms + 1, sizeof *out->fronts),
                                        .n_comms = job->n_comms};
        capo_play_set_up(&p);
        play_queues(&p);
        collect_leftovers(&p, out);
        capo_play_tear_down(&p);
}

void capo_hang_waits_finish(struct capo_hang_waits *w)
{
        for (uint32_t i = 0; i < w->n_comms; i++) {
                free(w->fronts[i].stand);
                free(w->fronts[i].call);
        }
        xfree(w->fronts, w->pairs);
        *w = (struct capo_hang_waits){0};
}
