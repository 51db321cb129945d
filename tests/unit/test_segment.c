/* SPDX-License-Identifier: Apache-2.0 */
/* A living process's segment: its layout, and memory that comes as it is asked for. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/log/segment.h"

Test(segment, areas_follow_each_other)
{
        static const struct {
                uint64_t ring_bytes, flight;
                bool all;
                uint32_t ring, records, keep;
        } rows[] = {
                {0, 0, false, 64, 64, 0},
                {65 * 64, 100, false, 128, 128, 100},
                {1 << 20, 100, true, 16384, 16384, 16384},
                {UINT64_MAX, UINT64_MAX / 2, false, 1 << 20, 1 << 22, 1 << 22},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct capo_segment_header h = {0};
                uint64_t end = sizeof h;

                capo_segment_lay_out(&h, &(struct capo_segment_config){.ring_bytes = rows[i].ring_bytes,
                                                                       .flight_records = rows[i].flight,
                                                                       .trace_all = rows[i].all});
                cr_expect_eq(h.ring_records, rows[i].ring, "row %zu: %u", i, h.ring_records);
                cr_expect_eq(h.flight_records, rows[i].records, "row %zu: %u", i, h.flight_records);
                cr_expect_eq(h.flight_keep, rows[i].keep, "row %zu: %u", i, h.flight_keep);
                for (int a = 0; a < CAPO_AREAS; a++) {
                        cr_expect(h.areas[a].offset >= end && h.areas[a].offset % 4096 == 0, "row %zu area %d", i, a);
                        end = h.areas[a].offset + h.areas[a].item * h.areas[a].capacity;
                }
                cr_expect_geq(h.size, end);
        }
}

Test(segment, memory_comes_in_pages_and_ends_at_the_capacity)
{
        struct capo_segment_config config = {.ring_bytes = 4096, .flight_records = 64};
        char dir[] = "/tmp/capo-segment-XXXXXX";
        struct capo_segment seg;
        struct capo_area *cells;

        cr_assert(mkdtemp(dir));
        cr_assert_eq(capo_segment_create(&seg, dir, &config), 0);
        cells = &seg.header->areas[CAPO_AREA_CELLS];
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_CELLS, 1), 0);
        cr_assert_geq(cells->committed, 4096 / sizeof(struct capo_seg_cell));
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_CELLS, cells->capacity), 0);
        cr_assert_eq(cells->committed, cells->capacity);
        *(char *)capo_area_at(&seg, CAPO_AREA_CELLS, cells->capacity - 1) = 1;
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_CELLS, cells->capacity + 1), -ENOSPC);
        seg.header->size = cells->offset; /* as if the file ended there */
        cells->committed = 0;
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_CELLS, 1), -ENOSPC);
        cr_assert_eq(cells->committed, 0);
        capo_segment_remove(&seg);
        cr_assert_eq(access(seg.path, F_OK), -1);
        cr_assert_eq(rmdir(dir), 0, "nothing is left there");
}
