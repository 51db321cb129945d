/* SPDX-License-Identifier: Apache-2.0 */
/* When each rank started each sampled call of a communicator: a row is a call, a column a rank. It
 * is filled while logs are read. The sample is bounded: it keeps calls whose hashed number is below
 * a limit, and the limit halves when the table is full. So memory does not grow with the length of
 * the job, and all ranks keep the same calls.
 *
 * A sample of 2,048 calls does not find one freeze of seconds among a million calls. The calls with
 * the longest silences before them are therefore noted as well (capo_meet_gap()) and fetched in a
 * second reading (capo_meet_add_long()). Such a call stands only for itself; the sampled ones stand
 * for all others. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capo/call_kinds.h"

#include "capo/record.h"

#define CAPO_MEET_ABSENT UINT64_MAX
#define CAPO_MEET_LONG   32 /* number of calls noted for the silence before them */

/* One rank in one call, in ns since its log's epoch. There are many: no bytes between them. */
struct __attribute__((packed, aligned(4))) capo_meet_arrival {
        uint64_t begin;      /* CAPO_MEET_ABSENT: this rank is not in the row */
        uint64_t gpu_ns;     /* 0 not known */
        uint32_t next_after; /* so many us and 1 after `begin` its host made the next call here; 0
                                not known */
};

/* What few logs tell of it. */
struct __attribute__((packed, aligned(4))) capo_meet_told {
        uint64_t waited;    /* 1 plus the ns that its kernel waited; 0 not known */
        uint32_t gpu_after; /* so many 100 ns and 1 after `begin` the GPU began, not too late
                               (capo_record_gpu_begin()); 0 not known */
};

enum { CAPO_MEET_RECENT = 64 };

struct capo_meet_row {
        uint64_t bytes;
        uint32_t seq;
        uint32_t n_seen;
        uint32_t n_chosen; /* ranks that chose to time it (CAPO_RECORD_CHOSEN) */
        uint8_t call;
        bool mismatch; /* its kind or size differs between ranks */
        bool apart;    /* by its algorithm it ends earlier on some ranks than on others */
        bool further;  /* the next call is in the same group: the times are of the whole group */
        bool extra;    /* not in the hashed sample: noted for the silence before it */
};

/* Among calls with GPU times, one that all ranks chose to time stands only for itself. */
static inline bool capo_meet_is_chosen(const struct capo_meet_row *row)
{
        return row->n_chosen && row->n_chosen >= row->n_seen;
}

/* A silence of a rank, and the call that ended it. */
struct capo_meet_gap {
        uint64_t ns;
        uint32_t seq;
};

/* The sample of one communicator; NULL is an empty one. Only capo_meet_*() change it. It wants calls
 * whose capo_meet_hash(seq) is at most the limit, which falls as calls are added. */
struct capo_meet {
        uint32_t n_ranks, limit, n_rows, max_rows, n_slots;
        struct capo_meet_row *rows;
        struct capo_meet_arrival *arrivals;        /* [row * n_ranks + rank] */
        struct capo_meet_told *told;               /* the same; NULL: nobody told anything */
        uint32_t *slots;                           /* hash -> 1 + row */
        struct capo_meet_gap gaps[CAPO_MEET_LONG]; /* longest first; each seq once */
        uint32_t n_gaps;
        /* The last calls of the rank that is added: timed ones come later than those behind them. */
        struct capo_meet_recent {
                uint64_t begin;
                uint32_t seq, rank, group;
        } recent[CAPO_MEET_RECENT], added;
        uint64_t
                most_missed_ns; /* silences before calls that are not noted are at most this long */
};

/** capo_meet_new() - for a communicator of @n_ranks (2 or more). */
struct capo_meet *capo_meet_new(uint32_t n_ranks);
/** capo_meet_bytes() - memory of a full sample for @n_ranks ranks. */
uint64_t capo_meet_bytes(uint32_t n_ranks);
void capo_meet_free(struct capo_meet *meet);

/* Multiplication by the golden ratio: with any limit the sampled calls are spread evenly over the
 * job, and are not, say, every eighth call of each step. Calls are taken in pairs, because a
 * host-time waiting needs the call before. */
static inline uint32_t capo_meet_hash(uint32_t seq) { return (seq >> 1) * 2654435769u; }

/** capo_meet_group() - the group that a call is a member of; 0: none. */
static inline uint32_t capo_meet_group(const struct capo_record *r)
{
        return r->flags & CAPO_RECORD_MEMBER ? 1 + r->group : 0;
}

/** capo_meet_follow() - @rank's host made call @seq at @begin, in @group: it is the next one of another. Of all
 * calls, before capo_meet_add(). */
void capo_meet_follow(struct capo_meet *meet, uint32_t rank, uint32_t seq, uint64_t begin,
                      uint32_t group);

/** capo_meet_add() - one call of @rank; the times in @r are ns since its log's epoch. Calls above
 * the limit and ranks out of range are ignored. Return: a handle for capo_meet_set_gpu(); -1: not kept. */
int64_t capo_meet_add(struct capo_meet *meet, uint32_t rank, const struct capo_record *r);

/** capo_meet_gap() - a rank was silent for @ns before it made call @seq. */
void capo_meet_gap(struct capo_meet *meet, uint32_t seq, uint64_t ns);

/** capo_meet_close_gaps() - forget silences below @least ns. Return: noted calls out of sample. */
uint32_t capo_meet_close_gaps(struct capo_meet *meet, uint64_t least);

/** capo_meet_is_long() - is @seq noted? */
bool capo_meet_is_long(const struct capo_meet *meet, uint32_t seq);

/** capo_meet_add_long() - as capo_meet_add(), for noted calls whatever the limit; others are
 * ignored. Use it after the last capo_meet_add(): the sample can no longer be halved. */
int64_t capo_meet_add_long(struct capo_meet *meet, uint32_t rank, const struct capo_record *r);

/** capo_meet_set_gpu() - GPU times of a call timed in @group. Stale handles are ignored. */
void capo_meet_set_gpu(struct capo_meet *meet, int64_t handle, uint32_t seq,
                       const struct capo_record *group);

/** capo_meet_is_barrier() - is this a call that no rank can leave before all have entered? */
bool capo_meet_is_barrier(const struct capo_meet_row *row);

/** capo_meet_is_timed() - was it timed on the GPU of any rank but @but? Calls that are no barrier are
 * compared by host start times even so. */
bool capo_meet_is_timed(const struct capo_meet *meet, const struct capo_meet_row *row, int32_t but);
