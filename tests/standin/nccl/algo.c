/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives. An algorithm writes down, for one channel, the list of steps its rank takes; a
 * protocol carries the list out. A step receives a piece (or not), folds it with local data (or
 * not), stores it (or not), sends it on (or not): the same few primitives NCCL's kernels are made
 * of.
 *
 * Ring: the buffer is cut into one block per rank. In the first round block b starts at rank b+1,
 * each rank folds its own part in and passes it on, and the fold is complete at rank b; in the
 * second round the finished blocks go round once more. Reduce-scatter is the first round,
 * all-gather the second; broadcast and reduce are a chain along the ring.
 *
 * Tree: a binomial tree over ranks with rank 0 as root. Going up, a rank passes on its subtree's
 * inputs side by side, unfolded; the root folds and the result goes down. Half the hops of a ring
 * for small data, more bytes for large.
 *
 * Order. Floating-point sums depend on the order of their inputs, and a result must not change with
 * the algorithm. So the order is fixed per element, by definition: element i of an all-reduce of n
 * ranks lies in block b = the block that owns i when the whole buffer is cut into n blocks; its
 * inputs are folded left to right as b+1, b+2, ..., b (mod n). The ring does that by nature, and
 * the tree's root, having all inputs, does it on purpose; neither channels nor chunks move block
 * borders. Reduce-scatter folds block b in the same order; reduce to root r as r+1, ..., r.
 *
 * Protocols. LL: small eager messages, copied out of and into place, never waiting for the
 * receiver. Simple: large messages straight from and into the caller's buffers, sent when the
 * receiver has said where (a clear-to-send), several in flight. LL is quicker for little, Simple
 * for much.
 */
#include <stdlib.h>
#include <string.h>

#include "std.h"

struct step {
        int from, to;    /* ranks; -1: none */
        const char *src; /* local input; NULL: none */
        char *dst;       /* where the result goes; NULL: nowhere here */
        size_t n;        /* elements of the piece */
        size_t wide;     /* > 1: the piece is `wide` inputs side by side (tree) */
        bool finish;     /* the fold is complete: divide if the operator does */
        bool raw;        /* src is no user input: do not pre-multiply */
        bool fold;       /* tree root: fold the `wide` inputs at src */
        bool fence;      /* do not begin before everything sent so far has left */
        size_t at;       /* fold: the piece's first element, counted in the whole buffer */
};

struct run {
        struct chan *ch;
        const struct task *t;
        size_t size;  /* bytes per element */
        size_t chunk; /* elements per message */
        unsigned char scalar[8];
};

static struct step *add(struct chan *ch, struct step s)
{
        if (ch->n_steps == ch->room) {
                size_t room = ch->room ? 2 * ch->room : 64;
                struct step *more = realloc(ch->steps, room * sizeof *more);

                if (!more)
                        return NULL;
                ch->steps = more;
                ch->room = room;
        }
        ch->steps[ch->n_steps] = s;
        return &ch->steps[ch->n_steps++];
}

/* Part `part` of `parts` of n elements: [*at, *at + result). Earlier parts are at most one longer.
 */
static size_t slice(size_t n, size_t parts, size_t part, size_t *at)
{
        size_t each = n / parts, more = n % parts;

        *at = part * each + (part < more ? part : more);
        return each + (part < more);
}

/* This channel's part of block b when `count` elements are cut into n blocks. */
static size_t block(const struct run *r, size_t count, int n, int b, size_t *at)
{
        size_t start, off, len = slice(count, (size_t)n, (size_t)b, &start);

        len = slice(len, (size_t)r->t->channels, (size_t)r->ch->id, &off);
        *at = start + off;
        return len;
}

/* `count` is the elements of the whole: n blocks. gather: blocks are equal by definition and `out`
 * holds them all. */
static bool ring_steps(struct run *r, bool first_round, bool second_round)
{
        const struct task *t = r->t;
        struct comm *c = t->comm;
        int n = c->n, me = c->rank, next = (me + 1) % n, prev = (me + n - 1) % n;
        size_t total = t->fn == FN_ALLREDUCE ? t->count : t->count * (size_t)n, longest = 0, at;
        const char *in = t->send;
        char *out = t->recv;

        for (int b = 0; b < n; b++) {
                size_t len = block(r, total, n, b, &at);

                longest = len > longest ? len : longest;
        }
        for (size_t lo = 0; lo < longest; lo += r->chunk) {
                for (int k = 0; first_round && k < n; k++) {
                        int b = (me - 1 - k + 2 * n) % n;
                        size_t len = block(r, total, n, b, &at), m;
                        bool last = k == n - 1;
                        char *dst = NULL;

                        if (lo >= len)
                                continue;
                        m = len - lo < r->chunk ? len - lo : r->chunk;
                        if (last) { /* block `me` is complete here */
                                size_t off = at + lo;

                                if (t->fn == FN_REDUCESCATTER)
                                        off -= (size_t)me * t->count;
                                dst = out + off * r->size;
                        }
                        if (!add(r->ch, (struct step){.from = k ? prev : -1,
                                                      .to = last && !second_round ? -1 : next,
                                                      .src = in + (at + lo) * r->size,
                                                      .dst = dst,
                                                      .n = m,
                                                      .finish = last}))
                                return false;
                }
                for (int k = first_round ? 1 : 0; second_round && k < n; k++) {
                        int b = (me - k + n) % n;
                        size_t len = block(r, total, n, b, &at), m;
                        struct step s = {.from = k ? prev : -1, .to = k == n - 1 ? -1 : next};

                        if (lo >= len)
                                continue;
                        m = len - lo < r->chunk ? len - lo : r->chunk;
                        s.n = m;
                        s.dst = out + (at + lo) * r->size;
                        if (!k) { /* all-gather: my own block, from where the caller has it */
                                s.src = in + (at + lo - (size_t)me * t->count) * r->size;
                                s.raw = true;
                        }
                        if (!add(r->ch, s))
                                return false;
                }
        }
        return true;
}

/* A chain along the ring: broadcast starts at the root, reduce ends there. */
static bool chain_steps(struct run *r, bool folding)
{
        const struct task *t = r->t;
        int n = t->comm->n, me = t->comm->rank, next = (me + 1) % n, prev = (me + n - 1) % n;
        int place = folding ? (me - t->peer - 1 + 2 * n) % n : (me - t->peer + n) % n;
        size_t at, len = slice(t->count, (size_t)t->channels, (size_t)r->ch->id, &at);

        for (size_t lo = 0; lo < len; lo += r->chunk) {
                size_t off = (at + lo) * r->size;
                bool last = place == n - 1, mine = !place;
                struct step s = {.from = mine ? -1 : prev,
                                 .to = last ? -1 : next,
                                 .n = len - lo < r->chunk ? len - lo : r->chunk,
                                 .finish = folding && last};

                if (folding || mine)
                        s.src = (const char *)t->send + off;
                if (folding ? last : true)
                        s.dst = (char *)t->recv + off;
                s.raw = !folding;
                if (!add(r->ch, s))
                        return false;
        }
        return true;
}

static bool tree_steps(struct run *r)
{
        const struct task *t = r->t;
        struct comm *c = t->comm;
        int n = c->n, me = c->rank, low = me ? me & -me : 1 << 16,
            subtree = low < n - me ? low : n - me;
        size_t piece = (size_t)subtree * r->chunk * r->size, used = 0;
        size_t at, len = slice(t->count, (size_t)t->channels, (size_t)r->ch->id, &at);
        struct chan *ch = r->ch;

        if (ch->scratch_bytes < piece * DEPTH) {
                free(ch->scratch);
                ch->scratch_bytes = piece * DEPTH;
                ch->scratch = malloc(ch->scratch_bytes);
                if (!ch->scratch) {
                        ch->scratch_bytes = 0;
                        return false;
                }
        }
        for (size_t lo = 0; lo < len; lo += r->chunk, used++) {
                size_t m = len - lo < r->chunk ? len - lo : r->chunk, off = (at + lo) * r->size;
                char *area = (char *)ch->scratch + used % DEPTH * piece;
                bool fence = used && used % DEPTH == 0;
                char *out = (char *)t->recv + off;

                /* My own input first, then the children's: the area then is the subtree in rank
                 * order. */
                if (!add(ch, (struct step){.from = -1,
                                           .to = -1,
                                           .src = (const char *)t->send + off,
                                           .dst = area,
                                           .n = m,
                                           .fence = fence}))
                        return false;
                for (int d = 1; d < low && me + d < n; d *= 2) {
                        int wide = d < n - me - d ? d : n - me - d;

                        if (!add(ch, (struct step){.from = me + d,
                                                   .to = -1,
                                                   .dst = area + (size_t)d * m * r->size,
                                                   .n = m,
                                                   .wide = (size_t)wide}))
                                return false;
                }
                if (me) {
                        if (!add(ch, (struct step){.from = -1,
                                                   .to = me - low,
                                                   .src = area,
                                                   .n = m,
                                                   .wide = (size_t)subtree,
                                                   .raw = true}) ||
                            !add(ch, (struct step){.from = me - low, .to = -1, .dst = out, .n = m}))
                                return false;
                } else if (!add(ch, (struct step){.from = -1,
                                                  .to = -1,
                                                  .src = area,
                                                  .dst = out,
                                                  .n = m,
                                                  .wide = (size_t)n,
                                                  .fold = true,
                                                  .at = at + lo})) {
                        return false;
                }
                for (int d = 1 << 14; d; d /= 2)
                        if (d < low && me + d < n &&
                            !add(ch, (struct step){.from = -1,
                                                   .to = me + d,
                                                   .src = out,
                                                   .n = m,
                                                   .raw = true}))
                                return false;
        }
        return true;
}

/* The tree's root: every element in the order of the block that owns it, which is the order of the
 * ring. */
static void fold_wide(const struct run *r, const struct step *s)
{
        const struct task *t = r->t;
        size_t one = s->n * r->size, pos = s->at;
        int n = t->comm->n;

        for (int b = 0; b < n && pos < s->at + s->n; b++) {
                size_t begin, end, len = slice(t->count, (size_t)n, (size_t)b, &begin);
                const char *src = s->src + (pos - s->at) * r->size;
                char *dst = s->dst + (pos - s->at) * r->size;

                end = begin + len < s->at + s->n ? begin + len : s->at + s->n;
                if (pos >= end)
                        continue;
                memcpy(dst, src + (size_t)((b + 1) % n) * one, (end - pos) * r->size);
                for (int k = 2; k <= n; k++)
                        reduce(t->type, t->op.fold, dst, dst, src + (size_t)((b + k) % n) * one,
                               end - pos);
                pos = end;
        }
        if (t->op.divide)
                reduce_divide(t->type, s->dst, s->dst, t->op.divide, s->n);
}

/* --- carrying the list out --- */

static size_t step_bytes(const struct run *r, const struct step *s)
{
        return s->n * (s->wide > 1 ? s->wide : 1) * r->size;
}

static ncclResult_t carry_out(struct run *r)
{
        struct chan *ch = r->ch;
        const struct task *t = r->t;
        bool simple = t->proto == PROTO_SIMPLE;
        struct {
                struct req req;
                unsigned char *buffer; /* where the message lands */
                int forwarded;         /* 1 + index of the send that still reads the slot */
        } in[DEPTH];
        struct req out[DEPTH];
        size_t next = 0, posted = 0, taken = 0, sent = 0;
        ncclResult_t e;

        for (int i = 0; i < DEPTH; i++) {
                in[i].forwarded = 0;
                out[i].done = true;
                out[i].error = 0;
        }
        for (size_t i = 0; i < ch->n_steps; i++) {
                struct step *s = &ch->steps[i];
                size_t bytes = step_bytes(r, s);
                const char *have; /* the piece as it now is */

                if (s->fence) {
                        for (int k = 0; k < DEPTH; k++)
                                if (!out[k].done && (e = net_wait(ch, &out[k])))
                                        return e;
                }
                /* Receive ahead: the next messages have a place before they come. */
                if (next < i)
                        next = i;
                while (next < ch->n_steps && posted - taken < DEPTH &&
                       !(next > i && ch->steps[next].fence)) {
                        struct step *ahead = &ch->steps[next];
                        int slot = (int)(posted % DEPTH);
                        struct peer_link *p;

                        if (ahead->from < 0) {
                                next++;
                                continue;
                        }
                        if (in[slot].forwarded) {
                                struct req *busy = &out[in[slot].forwarded - 1];

                                if (!busy->done) {
                                        /* Two ahead are owed: a ring in which each waits for the
                                         * next to clear a place would stand still otherwise. More
                                         * can wait. */
                                        if (posted - taken >= 2)
                                                break;
                                        if ((e = net_wait(ch, busy)))
                                                return e;
                                }
                                in[slot].forwarded = 0;
                        }
                        p = &ch->peers[ahead->from];
                        in[slot].buffer = simple && ahead->dst && !ahead->src
                                                  ? (unsigned char *)ahead->dst
                                                  : ch->recv_slots + (size_t)slot * ch->slot_bytes;
                        if (step_bytes(r, ahead) > ch->slot_bytes &&
                            in[slot].buffer != (unsigned char *)ahead->dst)
                                in[slot].buffer =
                                        (unsigned char *)
                                                ahead->dst; /* tree: wide pieces land in place */
                        e = net_recv(ch, ahead->from, KIND_DATA, p->received, in[slot].buffer,
                                     step_bytes(r, ahead), &in[slot].req);
                        if (!e && simple)
                                e = net_inject(ch, ahead->from, KIND_CLEAR, p->received);
                        if (e)
                                return e;
                        p->received++;
                        posted++;
                        next++;
                }
                have = s->src;
                if (s->from >= 0) {
                        int slot = (int)(taken++ % DEPTH);
                        unsigned char *got = in[slot].buffer;

                        if ((e = net_wait(ch, &in[slot].req)))
                                return e;
                        if (in[slot].req.bytes != bytes)
                                return fail(
                                        t->comm, ncclInvalidUsage,
                                        "rank %d: ranks do not agree on the size of a collective",
                                        t->comm->rank);
                        if (s->src) {
                                void *to = s->dst ? (void *)s->dst : got;
                                const void *local = s->src;

                                if (t->op.pre) { /* the send slots' last page is room for one scaled
                                                    piece */
                                        unsigned char *room =
                                                ch->send_slots + DEPTH * ch->slot_bytes;

                                        reduce_scale(t->type, room, s->src, r->scalar, s->n);
                                        local = room;
                                }
                                reduce(t->type, t->op.fold, to, got, local, s->n);
                                if (s->finish && t->op.divide)
                                        reduce_divide(t->type, to, to, t->op.divide, s->n);
                                have = to;
                        } else if (s->dst && (unsigned char *)s->dst != got) {
                                memcpy(s->dst, got, bytes);
                                have = s->dst;
                        } else {
                                have = (char *)got;
                        }
                        if (s->to >= 0 && simple && have == (char *)got &&
                            got != (unsigned char *)s->dst)
                                in[slot].forwarded = 1 + (int)(sent % DEPTH);
                } else if (s->fold) {
                        fold_wide(r, s);
                        have = s->dst;
                } else if (s->dst && s->src != s->dst) {
                        if (t->op.pre && !s->raw)
                                reduce_scale(t->type, s->dst, s->src, r->scalar, s->n);
                        else
                                memcpy(s->dst, s->src, bytes);
                        have = s->dst;
                }
                if (s->to >= 0) {
                        struct req *req = &out[sent % DEPTH];
                        struct peer_link *p = &ch->peers[s->to];
                        bool scale = s->from < 0 && t->op.pre && !s->raw;

                        if (!req->done && (e = net_wait(ch, req)))
                                return e;
                        if (req->error)
                                return ncclRemoteError;
                        if ((!simple || scale) && bytes <= ch->slot_bytes) {
                                unsigned char *copy =
                                        ch->send_slots + sent % DEPTH * ch->slot_bytes;

                                if (scale)
                                        reduce_scale(t->type, copy, have, r->scalar, s->n);
                                else
                                        memcpy(copy, have, bytes);
                                have = (char *)copy;
                        }
                        if (simple) {
                                struct req clear;
                                unsigned char byte;

                                if ((e = net_recv(ch, s->to, KIND_CLEAR, p->sent, &byte, 1,
                                                  &clear)) ||
                                    (e = net_wait(ch, &clear)))
                                        return e;
                        }
                        if ((e = net_send(ch, s->to, KIND_DATA, p->sent, have, bytes, req)))
                                return e;
                        p->sent++;
                        sent++;
                }
        }
        for (int k = 0; k < DEPTH; k++)
                if ((e = net_wait(ch, &out[k])))
                        return e;
        return ncclSuccess;
}

ncclResult_t run_collective(struct chan *ch, const struct task *t)
{
        struct run r = {.ch = ch, .t = t, .size = type_bytes(t->type)};
        size_t message = t->proto == PROTO_LL ? LL_CHUNK : t->chunk;
        bool ok;

        r.chunk = message / r.size;
        if (t->op.pre)
                memcpy(r.scalar, t->op.scalar_at ? t->op.scalar_at : t->op.scalar, r.size);
        if (ch->slot_bytes < message) {
                free(ch->recv_slots);
                free(ch->send_slots);
                ch->slot_bytes = message;
                ch->recv_slots = malloc(DEPTH * message);
                ch->send_slots = malloc((DEPTH + 1) * message);
                if (!ch->recv_slots || !ch->send_slots) {
                        ch->slot_bytes = 0;
                        return fail(t->comm, ncclSystemError, "out of memory");
                }
        }
        ch->n_steps = 0;
        switch ((int)t->fn) {
        case FN_ALLREDUCE:
                ok = t->algo == ALGO_TREE ? tree_steps(&r) : ring_steps(&r, true, true);
                break;
        case FN_REDUCESCATTER: ok = ring_steps(&r, true, false); break;
        case FN_ALLGATHER: ok = ring_steps(&r, false, true); break;
        case FN_BROADCAST: ok = chain_steps(&r, false); break;
        case FN_REDUCE: ok = chain_steps(&r, true); break;
        default: return fail(t->comm, ncclInternalError, "collective %d has no algorithm", t->fn);
        }
        if (!ok)
                return fail(t->comm, ncclSystemError, "out of memory");
        return carry_out(&r);
}
