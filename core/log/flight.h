/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder: the last calls as they were, in the segment, and their way into the log. A
 * log has calls as BLOCK frames, by column, each of one thread; what calls have in common is said
 * once, as a numbered shape. */
#pragma once

#include "core/log/cells.h"

#define CAPO_BLOCK_MOST 4096u

struct capo_flight {
        struct capo_segment *seg;
        struct capo_output *out;
        struct capo_cells *cells;
        uint32_t n_shapes, shapes_written;
        struct capo_number_index shape_index;
        struct capo_log_shape *shapes;
        uint32_t room;                                 /* of shapes[] */
        struct capo_record batch[CAPO_BLOCK_MOST + 1]; /* of one thread, times in ns; one more is
                                                          looked at before it is decided */
        uint16_t batch_shape[CAPO_BLOCK_MOST];
        uint32_t batch_n;
        uint64_t batch_low, batch_high; /* smallest and largest t_begin */
        char columns[CAPO_BLOCK_MOST * 24];
};

/** capo_flight_new() - the tables of @f, which is zero. Return: false: no memory. */
bool capo_flight_new(struct capo_flight *f);
void capo_flight_free(struct capo_flight *f);

/** capo_flight_keep() - put @r behind the others; the oldest makes room. */
void capo_flight_keep(struct capo_flight *f, const struct capo_record *r);

/** capo_flight_is_last() - is @r, byte for byte, what was kept last? */
bool capo_flight_is_last(const struct capo_flight *f, const struct capo_record *r);

/** capo_flight_write() - records @from .. @to - 1 (since ever) as frames, but overwritten ones. */
void capo_flight_write(struct capo_flight *f, uint64_t from, uint64_t to);

/** capo_flight_restart() - number shapes from 0 again: the log may have lost some. */
void capo_flight_restart(struct capo_flight *f);
