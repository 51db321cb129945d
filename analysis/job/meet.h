/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When each rank was in each sampled call of a communicator, gathered while logs stream by: a row
 * is a call, a column a rank. The sample is bounded (calls whose hashed number is below a limit
 * that halves when the table is full), so memory does not grow with the length of the job, and
 * every rank keeps the same calls.
 *
 * A freeze of seconds in a long job is in one call of a million, which no sample of 2,048 would
 * find: besides, the calls before which some rank was silent longest are noted while logs go by
 * (capo_meet_gap()) and fetched in a second reading (capo_meet_add_long()). They stand for
 * themselves alone, the others for all others.
 */
#ifndef CAPO_MEET_H
#define CAPO_MEET_H

#include <stdbool.h>
#include <stdint.h>

#include "capo/call_kinds.h"

struct capo_record;

#define CAPO_MEET_ABSENT UINT64_MAX
#define CAPO_MEET_LONG   32 /* so many calls behind the longest silences */

/* When one rank was in one call. All ns since the epoch of the log they come from. */
struct capo_meet_arrival {
        uint64_t begin;  /* CAPO_MEET_ABSENT: this rank is not in the row */
        uint64_t gpu_ns; /* 0 not known */
        uint64_t waited; /* 1 and the ns that its kernel waited; 0 not known */
};

struct capo_meet_row {
        uint64_t bytes;
        uint32_t seq;
        uint32_t n_seen;
        uint8_t call;
        bool mismatch; /* its kind or size differs between ranks */
        bool chosen;   /* timed for what it is: among those with GPU times it stands for itself
                          (CAPO_RECORD_CHOSEN) */
        bool extra;    /* not of the hashed sample: it is here for the silence before it */
};

/* The call of the communicator that a rank made after a silence. */
struct capo_meet_gap {
        uint64_t ns;
        uint32_t seq;
};

/* The sample of one communicator; NULL stands for an empty one. To be read only, but by
 * capo_meet_*(). */
struct capo_meet {
        uint32_t n_ranks, limit, n_rows, max_rows, n_slots;
        struct capo_meet_row *rows;
        struct capo_meet_arrival *arrivals;        /* [row * n_ranks + rank] */
        uint32_t *slots;                           /* hash -> 1 + row */
        struct capo_meet_gap gaps[CAPO_MEET_LONG]; /* longest first, a seq once */
        uint32_t n_gaps;
        uint64_t most_missed_ns; /* the silence before a call that is not noted is no longer */
};

/** capo_meet_new() - for a communicator of @n_ranks (2 or more). NULL: no memory. */
struct capo_meet *capo_meet_new(uint32_t n_ranks);
/** capo_meet_bytes() - what one of @n_ranks takes when it is full. */
uint64_t capo_meet_bytes(uint32_t n_ranks);
void capo_meet_free(struct capo_meet *meet);

/** capo_meet_limit() - wanted are calls whose capo_meet_hash(seq) <= limit; it falls as calls are
 * added. */
uint32_t capo_meet_limit(const struct capo_meet *meet);

/* Multiples of the golden ratio: any limit takes calls evenly spread over the job, and not one in
 * eight of every step. Calls are taken in pairs: how long ranks waited in a call, the host's times
 * tell only beside the call before.
 */
static inline uint32_t capo_meet_hash(uint32_t seq)
{
        return (seq >> 1) * 2654435769u;
}

/** capo_meet_add() - one call as @rank saw it: @r's times are ns since its log's epoch. Calls above
 * the limit and ranks out of range are ignored. Return: handle of the place for
 * capo_meet_set_gpu(), -1 when not kept. */
int64_t capo_meet_add(struct capo_meet *meet, uint32_t rank, const struct capo_record *r);

/** capo_meet_gap() - a rank was silent for @ns before it made call @seq. */
void capo_meet_gap(struct capo_meet *meet, uint32_t seq, uint64_t ns);

/** capo_meet_close_gaps() - forget those shorter than @least ns. Return: how many that stay are not
 * in the sample. */
uint32_t capo_meet_close_gaps(struct capo_meet *meet, uint64_t least);

/** capo_meet_is_long() - is @seq among the noted? */
bool capo_meet_is_long(const struct capo_meet *meet, uint32_t seq);

/** capo_meet_add_long() - capo_meet_add() of a noted call, whatever the limit; others are ignored.
 * After the last capo_meet_add(): the sample cannot be halved any more. */
int64_t capo_meet_add_long(struct capo_meet *meet, uint32_t rank, const struct capo_record *r);

/** capo_meet_set_gpu() - GPU times of a call that was timed as part of a group: the group's. Stale
 * handles are ignored.
 */
void capo_meet_set_gpu(struct capo_meet *meet, int64_t handle, uint32_t seq,
                       const struct capo_record *group);

/** capo_meet_is_barrier() - is this a call that nobody leaves before everybody has come? */
bool capo_meet_is_barrier(const struct capo_meet_row *row);

/** capo_meet_is_timed() - was it timed on the GPU of any rank? What is no barrier is laid out by
 * the host's start all the same. */
bool capo_meet_is_timed(const struct capo_meet *meet, const struct capo_meet_row *row);

#endif
