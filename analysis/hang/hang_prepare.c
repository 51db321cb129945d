/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares the replay: sorts the last calls of each process by stream and those of each member by
 * number, and pairs each send with its receive. */
#include "capo/call_ids.h"
#include "core/base/among.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "analysis/hang/hang_play.h"

/* A rank that has completed such a collective proves that all ranks have entered it. */
static bool binds_all(const struct capo_hang_call *c)
{
        enum capo_call_kind kind = capo_call_kind(c->call);

        return kind == CAPO_KIND_ALLREDUCE || kind == CAPO_KIND_ALLGATHER ||
               kind == CAPO_KIND_REDUCESCATTER || kind == CAPO_KIND_ALLTOALL ||
               (kind == CAPO_KIND_EXCHANGE && c->bytes && !capo_ran_half(c->algo_proto));
}

/* ---- the calls ---- */

CAPO_ORDERED(by_number, struct play_number, CAPO_ORDER(a->seq, b->seq), CAPO_ORDER(a->at, b->at));

/* What each member has begun, and its last calls by number. */
static void index_member_calls(struct play *p)
{
        for (uint32_t i = 0; i < p->n_calls; i++) {
                const struct capo_hang_call *c = p->call[i];
                struct play_member *m;

                p->any_p2p |= is_p2p(c);
                if (!call_is_taken(c) || !is_collective(c))
                        continue;
                m = member_of(p, c);
                if (c->where == CAPO_HANG_OPEN) {
                        m->opened = m->opened && m->opened < c->seq ? m->opened : c->seq;
                        continue;
                }
                m->entered = c->seq > m->entered ? c->seq : m->entered;
                *xadd(m->of, m->n) = (struct play_number){c->seq, i};
        }
        for (uint32_t i = 0; i < p->job->n_comms; i++) {
                for (uint32_t k = 0; k < p->job->comms[i].n_members; k++) {
                        struct play_member *m = &p->comms[i].members[k];
                        uint32_t n = 0;

                        if (m->n)
                                qsort(m->of, m->n, sizeof *m->of, by_number);
                        for (uint32_t of = 0; of < m->n; of++) { /* the last entry of a number */
                                n -= n && m->of[n - 1].seq == m->of[of].seq;
                                m->of[n++] = m->of[of];
                        }
                        m->n = n;
                }
        }
}

bool capo_play_mismatch(const struct play *p, uint32_t comm, uint32_t seq, bool *ended)
{
        const struct capo_hang_call *first = NULL;
        bool differs = false;

        *ended = true;
        for (uint32_t i = 0; i < p->job->comms[comm].n_members; i++) {
                const struct capo_hang_call *c = call_at(p, &p->comms[comm].members[i], seq);

                *ended &= c && c->gpu == CAPO_HANG_GPU_ENDED;
                differs |= c && first && capo_hang_differs(first, c);
                first = first ? first : c;
        }
        return differs;
}

uint32_t capo_play_next(const struct play *p, uint32_t comm, uint32_t seq)
{
        uint32_t next = UINT32_MAX;

        for (uint32_t i = 0; i < p->job->comms[comm].n_members; i++) {
                const struct play_member *m = &p->comms[comm].members[i];
                uint32_t at = place_of(m, seq);

                if (at < m->n && m->of[at].seq < next)
                        next = m->of[at].seq;
        }
        return next;
}

/* Lower @seq below the first number above @from on which members disagree. capo_play_mismatch()
 * finds the same number by number; this goes member by member, because with 10,000 members each
 * call of a number is a cache miss.
 *
 * Return: true; false: not known, a call is missing among those of the first member with calls. */
static bool agreed_up_to(const struct play *p, uint32_t comm, uint32_t from, uint32_t *seq)
{
        const struct play_member *first = NULL;

        for (uint32_t i = 0; i < p->job->comms[comm].n_members; i++) {
                const struct play_member *m = &p->comms[comm].members[i];

                first = first ? first : m->n ? m : NULL;
                if (!first || m == first)
                        continue;
                for (uint32_t k = place_of(m, from + 1); k < m->n && m->of[k].seq <= *seq; k++) {
                        const struct capo_hang_call *c = call_at(p, first, m->of[k].seq);

                        if (!c)
                                return false;
                        if (capo_hang_differs(c, p->call[m->of[k].at]))
                                *seq = m->of[k].seq - 1;
                }
        }
        return true;
}

/* If one rank's GPU has ended @seq, all ranks have entered it and all before it. That does not hold
 * for calls on which they disagreed. Returns the newest number it holds for. */
static uint32_t ended_up_to(const struct play *p, uint32_t comm, uint32_t from, uint32_t seq)
{
        uint32_t agreed = seq;
        bool ended;

        if (from >= seq)
                return from;
        if (agreed_up_to(p, comm, from, &agreed))
                return agreed;
        while (from < seq) { /* unknown calls cannot be seen to disagree */
                uint32_t next = capo_play_next(p, comm, from + 1);

                if (next > seq)
                        return seq;
                if (capo_play_mismatch(p, comm, next, &ended))
                        return next - 1;
                from = next;
        }
        return from;
}

/* The call at which the replay of @comm begins. Older calls have ended, or cannot be checked. */
static void begin_at(struct play *p, uint32_t comm)
{
        const struct capo_hang_comm *jc = &p->job->comms[comm];
        struct play_comm *c = &p->comms[comm];
        uint32_t all = UINT32_MAX, known = 0, ended = 0;

        c->whole_p2p = true;
        for (uint32_t i = 0; i < jc->n_members; i++) {
                struct play_member *m = &c->members[i];
                uint32_t before;

                m->entered =
                        jc->members[i].issued > m->entered ? jc->members[i].issued : m->entered;
                all = m->entered < all ? m->entered : all;
                c->newest = m->entered > c->newest ? m->entered : c->newest;
                before = m->n ? m->of->seq - 1 : m->entered;
                known = before > known ? before : known;
                c->whole_p2p &= jc->members[i].whole_p2p;
        }
        for (uint32_t i = 0; i < jc->n_members; i++) {
                const struct play_member *m = &c->members[i];

                for (uint32_t k = m->n; k-- > 0 && m->of[k].seq > ended;) {
                        const struct capo_hang_call *call = p->call[m->of[k].at];

                        if (call->gpu == CAPO_HANG_GPU_ENDED && binds_all(call))
                                ended = m->of[k].seq;
                }
        }
        known = ended_up_to(p, comm, known, ended);
        c->retired = all == UINT32_MAX ? 0 : known < all ? known : all;
}

/* A call that the host is in has a queue of its own, whatever its stream does. A captured call is
 * not on the stream: other calls do not wait for it. */
static uint32_t stream_of(const struct capo_hang_call *c)
{
        if (c->captured)
                return ~c->stream;
        return c->where == CAPO_HANG_RETURNED ? c->stream : UINT32_MAX - c->thread;
}

static struct play_queue *queue_of(struct play *p, uint32_t first, uint32_t process,
                                   uint32_t stream)
{
        return FIRST_OF(q, PAST_OF(p->queues, first), p->n_queues - first, q->stream == stream)
                       ?: xput(p->queues, p->n_queues, .process = process, .stream = stream);
}

/* Read each call once only: all of them together do not fit in the cache. */
static void line_up(struct play *p)
{
        uint32_t first = 0;

        for (uint32_t i = 0; i < p->n_calls; i++) {
                const struct capo_hang_call *c = p->call[i];
                struct play_queue *q;

                if (i && p->process[i] != p->process[i - 1])
                        first = p->n_queues;
                if (!call_is_played(p, c))
                        continue;
                q = queue_of(p, first, p->process[i], stream_of(c));
                *xadd(q->call, q->n) = i;
                q->held |= c->gpu == CAPO_HANG_GPU_RUNNING;
                if (q->held)
                        p->state[i] |= HELD;
                if (c->captured)
                        p->state[i] |= ENDED;
                else if (c->gpu == CAPO_HANG_GPU_ENDED)
                        q->ended = q->n;
        }
        for (uint32_t k = 0; k < p->n_queues; k++) {
                for (uint32_t i = 0; i < p->queues[k].ended; i++)
                        p->state[p->queues[k].call[i]] |= ENDED;
        }
}

/* ---- sends and receives ---- */

struct half {
        uint32_t comm, from, to; /* comm; from and to are ranks */
        bool receives;
        uint32_t call;
        uint64_t bytes;
};

CAPO_ORDERED(by_pair, struct half, CAPO_ORDER(a->comm, b->comm), CAPO_ORDER(a->from, b->from),
             CAPO_ORDER(a->to, b->to), a->receives - b->receives, CAPO_ORDER(a->call, b->call));

/* Pair the nth send of a rank to another with the nth receive there; if the numbers differ by a
 * few, sizes decide which is the extra one. */
static void pair_up(struct play *p)
{
        _cleanup_free_ struct half *half = NULL;
        uint32_t n = 0;

        if (!p->any_p2p)
                return;
        p->mate = xmalloc(p->n_calls * sizeof *p->mate);
        for (uint32_t i = 0; i < p->n_calls; i++)
                p->mate[i] = CAPO_HANG_NONE;
        for (uint32_t i = 0; i < p->n_calls; i++) {
                const struct capo_hang_call *c = p->call[i];
                int32_t me;

                if (!call_is_taken(c) || !is_p2p(c) || !p->comms[c->comm].whole_p2p)
                        continue;
                me = p->job->comms[c->comm].members[c->member].rank;
                *xadd(half, n) =
                        (struct half){.comm = c->comm,
                                      .from = (uint32_t)(c->call == CAPO_CALL_SEND ? me : c->peer),
                                      .to = (uint32_t)(c->call == CAPO_CALL_SEND ? c->peer : me),
                                      .receives = c->call == CAPO_CALL_RECV,
                                      .call = i,
                                      .bytes = c->bytes};
        }
        if (n)
                qsort(half, n, sizeof *half, by_pair);
        for (uint32_t i = 0; i < n;) {
                uint32_t s = i, r = i, end;

                for (end = i; end < n && half[end].comm == half[i].comm &&
                              half[end].from == half[i].from && half[end].to == half[i].to;)
                        r += !half[end++].receives;
                for (uint32_t to = r; s < r && to < end;) {
                        uint64_t sent = half[s].bytes, received = half[to].bytes;

                        /* is one of them the extra one? */
                        if (sent != received && s + 1 < r && half[s + 1].bytes == received) {
                                s++;
                        } else if (sent != received && to + 1 < end && half[to + 1].bytes == sent) {
                                to++;
                        } else {
                                p->mate[half[s].call] = half[to].call;
                                p->mate[half[to++].call] = half[s++].call;
                        }
                }
                i = end;
        }
}

/* ---- memory ---- */

static void make_room(struct play *p)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < p->job->n_processes; i++)
                p->n_calls += p->job->processes[i].n_calls;
        p->call = xcalloc(p->n_calls + 1, sizeof(const struct capo_hang_call *));
        p->process = xcalloc(p->n_calls + 1, sizeof *p->process);
        p->state = xcalloc(p->n_calls + 1, sizeof *p->state);
        p->comms = xcalloc(p->job->n_comms + 1, sizeof *p->comms);
        for (uint32_t i = 0; i < p->job->n_processes; i++) {
                for (uint32_t k = 0; k < p->job->processes[i].n_calls; k++, n++) {
                        p->call[n] = &p->job->processes[i].calls[k];
                        p->process[n] = i;
                }
        }
        for (uint32_t i = 0; i < p->job->n_comms; i++)
                p->comms[i].members =
                        xcalloc(p->job->comms[i].n_members + 1, sizeof(struct play_member));
}

void capo_play_tear_down(struct play *p)
{
        for (uint32_t i = 0; i < p->job->n_comms; i++) {
                for (uint32_t k = 0; k < p->job->comms[i].n_members; k++)
                        free(p->comms[i].members[k].of);
                free(p->comms[i].members);
        }
        for (uint32_t i = 0; i < p->n_queues; i++)
                free(p->queues[i].call);
        xfree(p->queues, p->comms, p->state, p->mate, p->process, p->call);
}

void capo_play_set_up(struct play *p)
{
        make_room(p);
        index_member_calls(p);
        for (uint32_t i = 0; i < p->job->n_comms; i++)
                begin_at(p, i);
        line_up(p);
        pair_up(p);
}

const char *capo_hang_differs(const struct capo_hang_call *a, const struct capo_hang_call *b)
{
        enum capo_call_kind kind = capo_call_kind(a->call);
        bool reduces = kind == CAPO_KIND_ALLREDUCE || kind == CAPO_KIND_REDUCE ||
                       kind == CAPO_KIND_REDUCESCATTER;

        if (kind != capo_call_kind(b->call))
                return "collective";
        if (kind == CAPO_KIND_EXCHANGE)
                return a->call != b->call ? "collective" : NULL;
        if (a->bytes != b->bytes)
                return "count";
        if (reduces && a->type != b->type)
                return "type";
        if (reduces && a->op != b->op)
                return "operator";
        if (a->peer != b->peer)
                return "root";
        return NULL;
}
