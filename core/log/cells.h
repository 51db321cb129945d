/* SPDX-License-Identifier: Apache-2.0 */
/* Counting: each record that leaves a ring is counted exactly once in the cell of its kind
 * (communicator, call, size, what ran), with the time it took in the cell's histograms, and in the
 * totals of its call site. */
#pragma once

#include "capo/record.h"
#include "core/log/log_output.h"
#include "core/log/number_index.h"

struct capo_cells {
        struct capo_segment *seg;
        uint32_t last; /* 1 + index; calls come in runs */
        struct capo_number_index index;
        _Alignas(8) char frame[3 * (sizeof(struct capo_log_hist) +
                                    CAPO_HIST_BUCKETS * sizeof(struct capo_log_hist_pair))];
};

/** capo_cells_know() - index the cells that another process left in the segment. @c has none yet.
 */
void capo_cells_know(struct capo_cells *c);

/** capo_cells_count() - @r, as it was in the ring, in its cell and its call site. */
void capo_cells_count(struct capo_cells *c, const struct capo_record *r);

/** capo_cells_number() - the index of the cell that counts @r; CAPO_NO_NUMBER: none. */
uint32_t capo_cells_number(struct capo_cells *c, const struct capo_record *r);

/** capo_cells_write() - CELL frames of cells changed since they were written; with @again all. */
void capo_cells_write(struct capo_cells *c, struct capo_output *out, bool again);

/** capo_host_ns() - how long the call took; 0 where the clock went backwards. */
static inline uint64_t capo_host_ns(const struct capo_segment_header *h,
                                    const struct capo_record *r)
{
        return r->t_end <= r->t_begin ? 0 : capo_clock_span(&h->clock, r->t_end - r->t_begin);
}
