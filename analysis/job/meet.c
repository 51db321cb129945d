/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/algorithms.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "analysis/job/meet.h"

static uint32_t most_rows(uint32_t n_ranks)
{
        uint32_t n = (1u << 18) / n_ranks;

        return n > 2048 ? 2048 : n < 64 ? 64 : n;
}

uint64_t capo_meet_bytes(uint32_t n_ranks)
{
        return (most_rows(n_ranks) + CAPO_MEET_LONG) * (uint64_t)n_ranks *
               (sizeof(struct capo_meet_arrival) + sizeof(struct capo_meet_told));
}

struct capo_meet *capo_meet_new(uint32_t n_ranks)
{
        struct capo_meet *m = xcalloc(1, sizeof *m);

        m->n_ranks = n_ranks;
        m->limit = UINT32_MAX;
        m->max_rows = most_rows(n_ranks);
        m->n_slots = 8192;
        m->rows = xmalloc((m->max_rows + CAPO_MEET_LONG) * sizeof *m->rows);
        m->arrivals =
                xmalloc((size_t)(m->max_rows + CAPO_MEET_LONG) * n_ranks * sizeof *m->arrivals);
        m->slots = xcalloc(m->n_slots, sizeof *m->slots);
        return m;
}

void capo_meet_free(struct capo_meet *m)
{
        if (!m)
                return;
        xfree(m->rows, m->arrivals, m->told, m->slots, m);
}

/* The slot that refers to @seq's row, or the empty slot where it belongs. */
static uint32_t *slot_of(struct capo_meet *m, uint32_t seq)
{
        uint32_t i = (seq ^ seq >> 13) * 0x85ebca6bu >> 19; /* 13 bits: 8192 slots */

        while (m->slots[i] && m->rows[m->slots[i] - 1].seq != seq)
                i = (i + 1) % m->n_slots;
        return &m->slots[i];
}

/* Halve the sample until there is room; rows keep their order. */
static void thin_rows(struct capo_meet *m)
{
        while (m->n_rows == m->max_rows && m->limit) {
                uint32_t kept = 0;

                m->limit >>= 1;
                memset(m->slots, 0, m->n_slots * sizeof *m->slots);
                for (uint32_t i = 0; i < m->n_rows; i++) {
                        if (capo_meet_hash(m->rows[i].seq) > m->limit)
                                continue;
                        if (kept != i) {
                                m->rows[kept] = m->rows[i];
                                memcpy(m->arrivals + (size_t)kept * m->n_ranks,
                                       m->arrivals + (size_t)i * m->n_ranks,
                                       m->n_ranks * sizeof *m->arrivals);
                                if (m->told)
                                        memcpy(m->told + (size_t)kept * m->n_ranks,
                                               m->told + (size_t)i * m->n_ranks,
                                               m->n_ranks * sizeof *m->told);
                        }
                        kept++;
                        *slot_of(m, m->rows[kept - 1].seq) = kept;
                }
                m->n_rows = kept;
        }
}

static void set_next(struct capo_meet_arrival *a, uint64_t next)
{
        uint64_t us = next > a->begin ? (next - a->begin) / 1000 : 0;

        a->next_after = us < UINT32_MAX ? 1 + (uint32_t)us : 0;
}

static struct capo_meet_told *told_of(struct capo_meet *m, int64_t handle)
{
        if (!m->told)
                m->told = xcalloc((size_t)(m->max_rows + CAPO_MEET_LONG) * m->n_ranks,
                                  sizeof *m->told);
        return &m->told[handle];
}

static void set_gpu(struct capo_meet *m, int64_t handle, const struct capo_record *r)
{
        uint64_t waited, begin;

        if (r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL)
                m->arrivals[handle].gpu_ns = r->gpu_ns;
        if (capo_record_waited(r, &waited))
                told_of(m, handle)->waited = 1 + waited;
        if (capo_record_gpu_begin(r, &begin))
                told_of(m, handle)->gpu_after = 1 + (uint32_t)((begin - r->t_begin) / 100);
        m->rows[handle / m->n_ranks].n_chosen += !!(r->flags & CAPO_RECORD_CHOSEN);
}

/* Add an arrival to @slot's row; if it is empty, make the row, for which there must be room. */
static int64_t add_arrival(struct capo_meet *m, uint32_t *slot, uint32_t rank,
                           const struct capo_record *r, bool extra)
{
        const struct capo_meet_recent *next;
        struct capo_meet_arrival *a;
        struct capo_meet_row *row;

        if (!*slot) {
                m->rows[m->n_rows] = (struct capo_meet_row){
                        .seq = r->seq, .bytes = r->bytes, .call = r->call, .extra = extra};
                a = m->arrivals + (size_t)m->n_rows * m->n_ranks;
                for (uint32_t i = 0; i < m->n_ranks; i++)
                        a[i] = (struct capo_meet_arrival){.begin = CAPO_MEET_ABSENT};
                if (m->told)
                        memset(m->told + (size_t)m->n_rows * m->n_ranks, 0,
                               m->n_ranks * sizeof *m->told);
                *slot = ++m->n_rows;
        }
        row = &m->rows[*slot - 1];
        a = m->arrivals + (size_t)(*slot - 1) * m->n_ranks + rank;
        if (a->begin != CAPO_MEET_ABSENT)
                return -1;
        if (row->call != r->call || (row->bytes != r->bytes && !capo_call_sized_by_rank(r->call)))
                row->mismatch = true;
        *a = (struct capo_meet_arrival){.begin = r->t_begin};
        next = &m->recent[(r->seq + 1) % CAPO_MEET_RECENT];
        if (next->seq == r->seq + 1 && next->rank == rank) {
                set_next(a, next->begin);
                row->further |= next->group && next->group == capo_meet_group(r);
        }
        m->added = (struct capo_meet_recent){0, r->seq, rank, capo_meet_group(r)};
        set_gpu(m, a - m->arrivals, r);
        /* rings pass data on until all have all of it; a tree ends at its root first */
        row->apart |= r->algo_proto &&
                      strcmp(capo_ran_algo(r->algo_proto), capo_algo_name(CAPO_ALGO_RING)) != 0;
        row->n_seen++;
        return a - m->arrivals;
}

void capo_meet_follow(struct capo_meet *m, uint32_t rank, uint32_t seq, uint64_t begin,
                      uint32_t group)
{
        uint32_t *slot;

        if (seq < 2 || rank >= m->n_ranks)
                return;
        m->recent[seq % CAPO_MEET_RECENT] = (struct capo_meet_recent){begin, seq, rank, group};
        slot = slot_of(m, seq - 1);
        if (!*slot ||
            m->arrivals[(size_t)(*slot - 1) * m->n_ranks + rank].begin == CAPO_MEET_ABSENT)
                return;
        set_next(&m->arrivals[(size_t)(*slot - 1) * m->n_ranks + rank], begin);
        m->rows[*slot - 1].further |= group && m->added.group == group && m->added.seq == seq - 1 &&
                                      m->added.rank == rank;
}

int64_t capo_meet_add(struct capo_meet *m, uint32_t rank, const struct capo_record *r)
{
        uint32_t *slot;

        if (!r->seq || rank >= m->n_ranks || capo_meet_hash(r->seq) > m->limit)
                return -1;
        slot = slot_of(m, r->seq);
        if (!*slot && m->n_rows == m->max_rows) {
                thin_rows(m);
                if (m->n_rows == m->max_rows || capo_meet_hash(r->seq) > m->limit)
                        return -1;
                slot = slot_of(m, r->seq);
        }
        return add_arrival(m, slot, rank, r, false);
}

int64_t capo_meet_add_long(struct capo_meet *m, uint32_t rank, const struct capo_record *r)
{
        uint32_t *slot = slot_of(m, r->seq);

        if (rank >= m->n_ranks || !capo_meet_is_long(m, r->seq))
                return -1;
        return add_arrival(m, slot, rank, r, !*slot);
}

bool capo_meet_is_long(const struct capo_meet *m, uint32_t seq)
{
        return ANY_OF(gap, m->gaps, m->n_gaps, gap->seq == seq);
}

void capo_meet_gap(struct capo_meet *m, uint32_t seq, uint64_t ns)
{
        uint32_t i = 0;

        while (i < m->n_gaps && m->gaps[i].seq != seq)
                i++;
        if (!seq ||
            (i < m->n_gaps ? ns <= m->gaps[i].ns : i == CAPO_MEET_LONG && ns <= m->gaps[i - 1].ns))
                return;
        if (i == CAPO_MEET_LONG) /* full: drop the shortest */
                i--;
        else if (i == m->n_gaps)
                m->n_gaps++;
        for (; i > 0 && m->gaps[i - 1].ns < ns; i--)
                m->gaps[i] = m->gaps[i - 1];
        m->gaps[i] = (struct capo_meet_gap){.ns = ns, .seq = seq};
}

uint32_t capo_meet_close_gaps(struct capo_meet *m, uint64_t least)
{
        m->most_missed_ns = m->n_gaps == CAPO_MEET_LONG ? m->gaps[m->n_gaps - 1].ns : 0;
        m->most_missed_ns = m->most_missed_ns > least ? m->most_missed_ns : least;
        while (m->n_gaps && m->gaps[m->n_gaps - 1].ns < least)
                m->n_gaps--;
        return COUNT_OF(gap, m->gaps, m->n_gaps, !*slot_of(m, gap->seq));
}

void capo_meet_set_gpu(struct capo_meet *m, int64_t handle, uint32_t seq,
                       const struct capo_record *group)
{
        if (handle < 0 || handle / m->n_ranks >= m->n_rows ||
            m->rows[handle / m->n_ranks].seq != seq)
                return; /* dropped from the sample meanwhile */
        set_gpu(m, handle, group);
}

bool capo_meet_is_barrier(const struct capo_meet_row *row)
{
        enum capo_call_kind kind = capo_call_kind(row->call);

        return row->bytes && !row->mismatch &&
               (kind == CAPO_KIND_ALLREDUCE || kind == CAPO_KIND_ALLGATHER ||
                kind == CAPO_KIND_REDUCESCATTER || kind == CAPO_KIND_ALLTOALL ||
                kind == CAPO_KIND_EXCHANGE);
}

bool capo_meet_is_timed(const struct capo_meet *meet, const struct capo_meet_row *row, int32_t but)
{
        const struct capo_meet_arrival *of =
                meet->arrivals + (size_t)(row - meet->rows) * meet->n_ranks;

        return ANY_OF(at, of, meet->n_ranks, at - of != but && at->gpu_ns);
}
