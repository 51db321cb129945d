/* SPDX-License-Identifier: Apache-2.0 */
/* Replays all known calls. Each stream of each process is a queue; the call at its head runs; a
 * collective ends when every member of its communicator has it at a head. What remains when nothing
 * can go on is stuck, for whatever reason: a missing rank, a different order, a different call.
 * Waiting of hosts is not modelled: a rank waits if its stream does. */
#include "capo/call_ids.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "analysis/hang/culprits.h"

enum play_state {
        IDLE,
        ACTIVE,    /* at the head of its queue */
        DONE,      /* finished on its own rank */
        STATE = 3, /* mask of the states above */
        ENDED = 4, /* on the GPU: this call or a later one on its stream ended */
        HELD = 8,  /* this call or an earlier one on its stream was seen running */
};

struct play_queue {
        uint32_t process, stream;
        uint32_t at, n;
        uint32_t *call; /* indices over all processes */
        uint32_t ended; /* this many, from the first, ended or have a later call that did */
        bool held;      /* one of them was seen running */
};

/* An entry by number. Not an array indexed by it: one damaged number would make that huge. */
struct play_number {
        uint32_t seq;
        uint32_t at; /* index in play.call */
};

struct play_member {
        uint32_t reached; /* newest number that was at a head */
        uint32_t through; /* newest number that is done */
        uint32_t entered, opened;
        uint32_t n;
        struct play_number *of; /* its last calls by number, each number once */
};

struct play_comm {
        uint32_t retired, newest;
        struct play_member *members;
        uint32_t differed; /* newest call that ended although its ranks disagreed; 0: none */
        bool whole_p2p;
};

struct play {
        const struct capo_hang_job *job;
        bool lenient, any_p2p;
        uint32_t n_calls;
        const struct capo_hang_call **call;
        uint32_t *process; /* owner of each call */
        uint32_t *mate;    /* the other half of a send or receive; NULL: there are none */
        uint8_t *state;
        struct play_comm *comms;
        struct play_queue *queues;
        uint32_t n_queues;
};

/* Did NCCL accept the call, or may it still? */
static bool call_is_taken(const struct capo_hang_call *c)
{
        return c->comm != CAPO_HANG_NONE && c->member != CAPO_HANG_NONE &&
               capo_hang_taken(c->result);
}

static struct play_member *member_of(const struct play *p, const struct capo_hang_call *c)
{
        return &p->comms[c->comm].members[c->member];
}

/* The index of @seq in m->of, or of the next higher number. */
static uint32_t place_of(const struct play_member *m, uint32_t seq)
{
        uint32_t low = 0, high = m->n;

        if (m->n && seq >= m->of->seq && seq - m->of->seq < m->n &&
            m->of[seq - m->of->seq].seq == seq)
                return seq - m->of->seq; /* normally no number is missing */
        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (m->of[middle].seq < seq)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* The index of call @seq of the member; CAPO_HANG_NONE: not among its last calls. */
static uint32_t index_at(const struct play_member *m, uint32_t seq)
{
        uint32_t i = place_of(m, seq);

        return i < m->n && m->of[i].seq == seq ? m->of[i].at : CAPO_HANG_NONE;
}

static const struct capo_hang_call *call_at(const struct play *p, const struct play_member *m,
                                            uint32_t seq)
{
        uint32_t at = index_at(m, seq);

        return at != CAPO_HANG_NONE ? p->call[at] : NULL;
}

static bool call_is_played(const struct play *p, const struct capo_hang_call *c)
{
        if (!call_is_taken(c) || c->where == CAPO_HANG_OPEN)
                return false;
        return is_collective(c) || (is_p2p(c) && p->comms[c->comm].whole_p2p);
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

                        CAPO_SORT(m->of, m->n, by_number);
                        for (uint32_t of = 0; of < m->n; of++) { /* the last entry of a number */
                                n -= n && m->of[n - 1].seq == m->of[of].seq;
                                m->of[n++] = m->of[of];
                        }
                        m->n = n;
                }
        }
}

/* Do the ranks that entered call @seq of @comm disagree on what it is? *@ended: it ended on the GPUs
 * of all. */
static bool find_mismatch(const struct play *p, uint32_t comm, uint32_t seq, bool *ended)
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

/* The lowest number >= @seq that occurs in the last calls of any member; UINT32_MAX: none. */
static uint32_t next_seq(const struct play *p, uint32_t comm, uint32_t seq)
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

/* Lower @seq below the first number above @from on which members disagree. find_mismatch()
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
                uint32_t next = next_seq(p, comm, from + 1);

                if (next > seq)
                        return seq;
                if (find_mismatch(p, comm, next, &ended))
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
        CAPO_SORT(half, n, by_pair);
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
                uint32_t next = next_seq(p, comm, c->retired + 1);

                next = next > c->retired + 2 ? next - 1 : c->retired + 1;
                c->retired = next < all ? next : all;
                return true;
        }
        if (find_mismatch(p, comm, c->retired + 1, &ended)) {
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

        f->mismatch = find_mismatch(p, comm, f->seq, &ended);
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
        make_room(&p);
        index_member_calls(&p);
        for (uint32_t i = 0; i < job->n_comms; i++)
                begin_at(&p, i);
        line_up(&p);
        pair_up(&p);
        play_queues(&p);
        collect_leftovers(&p, out);
        for (uint32_t i = 0; i < job->n_comms; i++) {
                for (uint32_t k = 0; k < job->comms[i].n_members; k++)
                        free(p.comms[i].members[k].of);
                free(p.comms[i].members);
        }
        for (uint32_t i = 0; i < p.n_queues; i++)
                free(p.queues[i].call);
        xfree(p.queues, p.comms, p.state, p.mate, p.process, p.call);
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
