/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of all ranks as queues: hang_prepare.c builds them, waits.c replays them. Private to
 * these two. */
#pragma once

#include "core/base/calls.h"
#include "analysis/hang/hang_verdict.h"

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

static inline bool is_p2p(const struct capo_hang_call *c)
{
        return capo_call_kind(c->call) == CAPO_KIND_P2P;
}

static inline bool is_collective(const struct capo_hang_call *c)
{
        return c->seq && capo_call_is_collective(c->call);
}

/* Did NCCL accept the call, or may it still? */
static inline bool call_is_taken(const struct capo_hang_call *c)
{
        return c->comm != CAPO_HANG_NONE && c->member != CAPO_HANG_NONE &&
               capo_hang_taken(c->result);
}

static inline struct play_member *member_of(const struct play *p, const struct capo_hang_call *c)
{
        return &p->comms[c->comm].members[c->member];
}

/* The index of @seq in m->of, or of the next higher number. */
static inline uint32_t place_of(const struct play_member *m, uint32_t seq)
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
static inline uint32_t index_at(const struct play_member *m, uint32_t seq)
{
        uint32_t i = place_of(m, seq);

        return i < m->n && m->of[i].seq == seq ? m->of[i].at : CAPO_HANG_NONE;
}

static inline const struct capo_hang_call *call_at(const struct play *p,
                                                   const struct play_member *m, uint32_t seq)
{
        uint32_t at = index_at(m, seq);

        return at != CAPO_HANG_NONE ? p->call[at] : NULL;
}

static inline bool call_is_played(const struct play *p, const struct capo_hang_call *c)
{
        if (!call_is_taken(c) || c->where == CAPO_HANG_OPEN)
                return false;
        return is_collective(c) || (is_p2p(c) && p->comms[c->comm].whole_p2p);
}

/** capo_play_mismatch() - do the ranks that entered call @seq of @comm disagree on what it is?
 * *@ended: it ended on the GPUs of all. */
bool capo_play_mismatch(const struct play *p, uint32_t comm, uint32_t seq, bool *ended);

/** capo_play_next() - the lowest number >= @seq that occurs in the last calls of any member;
 * UINT32_MAX: none. */
uint32_t capo_play_next(const struct play *p, uint32_t comm, uint32_t seq);

/** capo_play_set_up() - build the queues; @p->job and @p->lenient must be set. Call
 * capo_play_tear_down() after it. */
void capo_play_set_up(struct play *p);
void capo_play_tear_down(struct play *p);
