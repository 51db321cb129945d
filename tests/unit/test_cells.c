/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls are counted together, with which times, and what happens when there is no room for
 * one kind more. */
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/drained.h"
#include "tests/log_numbers.h"

static void setup(void) { drained_start(64, false); }

TestSuite(cells, .init = setup, .fini = drained_end);

static struct capo_log_cell cell[64];
static struct capo_log_hist_view host[64], gpu[64];
static unsigned n_cells;
static uint64_t counted;

static void keep_cell(const struct capo_log_frame *f)
{
        unsigned i = n_cells < 64 ? n_cells : 63;

        cr_assert_eq(capo_log_cell(f, &cell[i], &host[i], &gpu[i]), 0);
        counted += cell[i].count;
        n_cells++;
}

static void read_cells(void)
{
        n_cells = 0;
        counted = 0;
        frames(CAPO_FRAME_CELL, keep_cell);
}

Test(cells, calls_that_differ_in_anything_have_cells_of_their_own)
{
        struct capo_record r = call_at(0, 10), other[10];

        for (int i = 0; i < 10; i++)
                other[i] = r;
        other[1].bytes++;
        other[2].comm++;
        other[3].rule++;
        other[4].call = CAPO_CALL_REDUCE;
        other[5].algo_proto++;
        other[6].channels++;
        other[7].clock = CAPO_CLOCK_KERNEL;
        other[8].result = -1;
        other[9].flags = CAPO_RECORD_CAPTURED;
        for (int again = 0; again < 3; again++) {
                for (int i = 0; i < 10; i++)
                        put(other[i]);
        }
        r.stream++; /* not of the cell */
        r.seq++;
        r.peer = 3;
        r.site = 9;
        r.thread++;
        r.clock = CAPO_CLOCK_EVENT; /* a sampled call and its neighbours are one cell */
        put(r);
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        read_cells();
        cr_assert_eq(n_cells, 10);
        for (unsigned i = 0; i < 10; i++) {
                cr_expect_eq(cell[i].id, i);
                cr_expect_eq(cell[i].count, i ? 3 : 4, "cell %u", i);
                cr_expect_eq(cell[i].bytes, i == 1 ? 4097 : 4096);
                cr_expect_eq(cell[i].result, i == 8 ? -1 : 0);
                cr_expect_eq(cell[i].hists, i == 0 || i == 7 ? 3 : 1, "cell %u", i);
                cr_expect_eq(cell[i].clock, i == 0   ? CAPO_CLOCK_EVENT
                                            : i == 7 ? CAPO_CLOCK_KERNEL
                                                     : CAPO_CLOCK_NONE);
        }
        put(other[4]);
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        read_cells();
        cr_assert_eq(n_cells, 11, "only what changed");
        cr_expect(cell[10].id == 4 && cell[10].count == 4);
}

static void keep_times(const struct capo_log_frame *f)
{
        keep_cell(f);
        cr_assert_eq(n_cells, 1);
        cr_expect(host[0].head.count == 4 && host[0].head.sum_ns == 1060 &&
                  host[0].head.min_ns == 10 && host[0].head.max_ns == 1000 &&
                  host[0].head.sum_sq == 100 + 400 + 900 + 1e6);
        cr_expect(host[0].head.n == 4 && host[0].pairs[0].count == 1 &&
                  host[0].pairs[0].bucket == capo_hist_bucket(10) &&
                  host[0].pairs[3].bucket == capo_hist_bucket(1000));
        cr_expect(gpu[0].head.count == 2 && gpu[0].head.sum_ns == 10000 && gpu[0].head.n == 1 &&
                  gpu[0].pairs[0].count == 2 && gpu[0].pairs[0].bucket == capo_hist_bucket(5000));
}

Test(cells, a_cell_has_the_times_of_its_calls)
{
        static const uint64_t ns[] = {10, 1000, 20, 30};

        for (int i = 0; i < 4; i++) {
                struct capo_record r = call_at(100u * (unsigned)i, ns[i]);

                r.clock = i < 2 ? CAPO_CLOCK_EVENT : CAPO_CLOCK_HOST;
                r.gpu_ns = i < 2 ? 5000 : 0;
                put(r);
        }
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        n_cells = 0;
        frames(CAPO_FRAME_CELL, keep_times);
        cr_assert_eq(n_cells, 1);
        cr_expect_eq(cell[0].count, 4);
}

/* A call timed for what it is stands for itself: it is not among those that stand for the others.
 */
Test(cells, chosen_calls_have_a_cell_of_their_own)
{
        for (unsigned i = 0; i < 6; i++) {
                struct capo_record r = call_at(100u * i, 10);

                r.clock = i < 3 ? CAPO_CLOCK_EVENT : CAPO_CLOCK_HOST;
                r.gpu_ns = i < 2 ? 9000 : i < 3 ? 1000 : 0;
                r.flags = i < 2 ? CAPO_RECORD_CHOSEN : 0;
                put(r);
        }
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        read_cells();
        cr_assert_eq(n_cells, 2);
        cr_expect(cell[0].flags == CAPO_RECORD_CHOSEN && cell[0].count == 2 &&
                  gpu[0].head.sum_ns == 18000);
        cr_expect(cell[1].flags == 0 && cell[1].count == 4 && gpu[1].head.sum_ns == 1000 &&
                  gpu[1].head.count == 1);
}

static void keep_borders(const struct capo_log_frame *f)
{
        keep_cell(f);
        cr_expect(host[0].head.n == 2 && host[0].head.min_ns == 0 &&
                  host[0].head.max_ns == 5000000000);
        cr_expect(host[0].pairs[0].bucket == 0 && host[0].pairs[0].count == 3);
        cr_expect(host[0].pairs[1].bucket == CAPO_HIST_BUCKETS - 1 && host[0].pairs[1].count == 2);
}

Test(cells, the_first_bucket_and_the_last)
{
        for (int i = 0; i < 5; i++)
                put(call_at(0, i % 2 ? 5000000000 : 0));
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        n_cells = 0;
        frames(CAPO_FRAME_CELL, keep_borders);
        cr_assert_eq(n_cells, 1);
}

Test(cells, a_clock_that_went_backwards)
{
        struct capo_record r = call_at(100, 0);

        r.t_end -= 50;
        put(r);
        r.clock = CAPO_CLOCK_NONE;
        put(r);
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        read_cells();
        cr_expect(n_cells == 2 && cell[0].hists == 1 && cell[1].hists == 0 && counted == 2);
}

static struct capo_log_end last_end;

static void keep_end(const struct capo_log_frame *f)
{
        cr_assert_eq(capo_log_end(f, &last_end), 0);
}

/* When the table is full a call is counted with all of its kind: 64 places are kept for that. */
Test(cells, more_shapes_than_cells)
{
        enum { CELLS = 65535 - 64 };
        struct capo_record r = call_at(0, 10);

        r.clock = CAPO_CLOCK_NONE;
        for (uint64_t i = 0; i < CELLS + 10; i++) {
                r.bytes = i;
                if (i == CELLS + 5)
                        r.call = CAPO_CALL_REDUCE;
                put(r);
                if (i % 200 == 0)
                        capo_drain_round(drain);
        }
        capo_drain_round(drain);
        cr_assert_eq(seg.header->shape_overflow, 10);
        cr_assert_eq(seg.header->areas[CAPO_AREA_CELLS].used, CELLS + 2);
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        read_cells();
        cr_expect(n_cells == CELLS + 2 && counted == CELLS + 10);
        frames(CAPO_FRAME_END, keep_end);
        cr_expect_eq(last_end.shape_overflow, 10);
}

Test(cells, more_shapes_than_histograms)
{
        struct capo_record r = call_at(0, 10);

        for (uint64_t i = 0; i < 8195; i++) {
                r.bytes = i;
                put(r);
                if (i % 200 == 0)
                        capo_drain_round(drain);
        }
        capo_drain_round(drain);
        cr_assert_eq(seg.header->areas[CAPO_AREA_HISTS].used, 8192);
        cr_assert_eq(seg.header->shape_overflow, 3, "counted without their times");
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        read_cells();
        cr_expect(n_cells == 8195 && counted == 8195);
}

/* Memory that a dead process took and did not use is not as it was made. */
Test(cells, a_new_cell_begins_with_zeros)
{
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_CELLS, 1), 0);
        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_HISTS, 1), 0);
        memset(capo_area_at(&seg, CAPO_AREA_CELLS, 0), 0xff, sizeof(struct capo_seg_cell));
        memset(capo_area_at(&seg, CAPO_AREA_HISTS, 0), 0xff, sizeof(struct capo_seg_hist));
        put(call_at(0, 10));
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        read_cells();
        cr_assert(n_cells == 1 && cell[0].count == 1 && host[0].head.count == 1 &&
                  host[0].head.max_ns == 10);
}

/* No memory for another kind: the call is counted, and nothing else. */
Test(cells, no_memory_for_a_cell_or_a_histogram)
{
        struct capo_segment_header *h = seg.header;
        uint64_t size = h->size;

        h->size = h->areas[CAPO_AREA_CELLS].offset; /* as if the file ended there */
        put(call_at(0, 10));
        capo_drain_round(drain);
        cr_expect(h->calls == 1 && h->areas[CAPO_AREA_CELLS].used == 0 && h->shape_overflow == 0);
        h->size = h->areas[CAPO_AREA_HISTS].offset;
        put(call_at(100, 10));
        capo_drain_round(drain);
        cr_expect(h->calls == 2 && h->areas[CAPO_AREA_CELLS].used == 1 &&
                  h->areas[CAPO_AREA_HISTS].used == 0);
        cr_expect_eq(h->shape_overflow, 1);
        h->size = size;
        put(call_at(200, 10));
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_finish(drain, 1), 0);
        read_cells();
        cr_expect(n_cells == 1 && cell[0].count == 2 && host[0].head.count == 1);
}

Test(cells, a_call_without_a_site_counts_for_none)
{
        struct capo_record r = call_at(0, 10);
        struct capo_seg_site *before, zero = {0};
        char *page;

        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_SITES, 1), 0);
        seg.header->areas[CAPO_AREA_SITES].used = 1;
        r.site = 0;
        put(r);
        capo_drain_round(drain);
        before = capo_area_at(&seg, CAPO_AREA_SITES, 0);
        page = (char *)(before - 1) - (uintptr_t)(before - 1) % (uintptr_t)sysconf(_SC_PAGESIZE);
        if (msync(page, 1, MS_ASYNC) == 0) /* else nothing is mapped there that could be written */
                cr_expect_eq(memcmp(before - 1, &zero, sizeof zero), 0, "before the area");
        cr_expect_eq(memcmp(before, &zero, sizeof zero), 0);
}
