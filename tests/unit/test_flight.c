/* SPDX-License-Identifier: Apache-2.0 */
/* The last calls, or all of them: which are kept, and that each comes back whole from the blocks
 * they are written in. */
#include "core/log/flight.h"
#include "core/log/info.h"
#include "tests/unit/drained.h"

TestSuite(flight, .fini = drained_end);

static struct capo_record out[80000];

/* Calls 1 to @n, 100 ns apart; between two rounds as many as the ring holds. */
static void put_calls(uint32_t n)
{
        for (uint32_t i = 0; i < n; i++) {
                put(call_at(100 * (uint64_t)i, 10));
                if (i % 256 == 255)
                        capo_drain_round(drain);
        }
}

static void expect_last(uint32_t made_n, uint32_t kept)
{
        put_calls(made_n);
        cr_assert_eq(read_back(out, 80000), kept);
        for (uint32_t i = 0; i < kept; i++)
                cr_assert_eq(out[i].seq, made_n - kept + i + 1, "%u", i);
}

static struct capo_log *open_log(void)
{
        struct capo_log *log;
        char why[200];

        cr_assert_eq(capo_log_open(seg.header->log_path, &log, why, sizeof why), 0, "%s", why);
        return log;
}

static uint64_t size_of_log(void)
{
        struct capo_log *log = open_log();
        uint64_t size = capo_log_size(log);

        capo_log_close(log);
        return size;
}

/* By the last INFO that says so; 0 where none does. */
static uint64_t left_out_of_log(void)
{
        const size_t n_key = strlen(CAPO_INFO_LEFT_OUT);
        struct capo_log *log = open_log();
        struct capo_log_frame f;
        uint64_t n = 0;

        while (capo_log_next(log, &f) > 0) {
                if (f.type == CAPO_FRAME_INFO && f.size > n_key + 1 &&
                    !memcmp(f.payload, CAPO_INFO_LEFT_OUT, n_key))
                        n = strtoull((const char *)f.payload + n_key + 1, NULL, 10);
        }
        capo_log_close(log);
        return n;
}

Test(flight, fewer_than_are_kept)
{
        drained_start(100, false);
        expect_last(99, 99);
}

Test(flight, the_last_hundred)
{
        drained_start(100, false);
        expect_last(1000, 100);
}

Test(flight, none)
{
        drained_start(0, false);
        expect_last(1000, 0);
        cr_expect_eq(seg.header->calls, 1000, "counted all the same");
}

Test(flight, more_than_a_block)
{
        drained_start(10000, false);
        expect_last(30000, 10000);
}

Test(flight, all)
{
        drained_start(64, true);
        expect_last(40000, 40000);
}

/* The log stops at three quarters of CAPO_LOG_MAX. What it has is the beginning without a gap,
 * every call is counted, and the log says how many it left out. */
Test(flight, all_up_to_a_limit)
{
        uint32_t kept;

        drained_start(64, true);
        seg.header->log_max = 1 << 20;
        put_calls(70000);
        kept = read_back(out, 80000);
        cr_assert(kept > 20000 && kept < 60000, "%u", kept);
        for (uint32_t i = 0; i < kept; i++)
                cr_assert_eq(out[i].seq, i + 1, "%u", i);
        cr_expect_eq(seg.header->calls, 70000);
        cr_expect_eq(left_out_of_log(), 70000 - kept);
        cr_expect_leq(size_of_log(), 1 << 20);
}

/* A round with more calls than there is room for keeps its first ones, not none of them. */
Test(flight, all_of_a_round_up_to_a_limit)
{
        uint32_t kept;

        drained_start(64, true);
        seg.header->log_max = 8 << 10;
        put_calls(512);
        kept = read_back(out, 80000);
        cr_assert(kept > 150 && kept < 450, "%u", kept);
        for (uint32_t i = 0; i < kept; i++)
                cr_assert_eq(out[i].seq, i + 1, "%u", i);
        cr_expect_eq(left_out_of_log(), 512 - kept);
}

Test(flight, the_last_that_fit)
{
        uint32_t kept;

        drained_start(10000, false);
        seg.header->log_max = 128 << 10;
        put_calls(30000);
        kept = read_back(out, 80000);
        cr_assert(kept > (80 << 10) / 14 && kept <= (96 << 10) / 14, "%u", kept);
        for (uint32_t i = 0; i < kept; i++)
                cr_assert_eq(out[i].seq, 30000 - kept + i + 1, "%u", i);
        cr_expect_eq(left_out_of_log(), 10000 - kept);
        cr_expect_leq(size_of_log(), 128 << 10);
        cr_expect_geq(size_of_log(), 80 << 10);
}

/* Calls so far apart that each is a block of its own. */
Test(flight, far_apart_up_to_a_limit)
{
        uint32_t kept;

        drained_start(10000, false);
        seg.header->log_max = 128 << 10;
        for (uint32_t i = 0; i < 2000; i++) {
                put(call_at(5000000000 * (uint64_t)i, 10));
                if (i % 256 == 255)
                        capo_drain_round(drain);
        }
        kept = read_back(out, 80000);
        cr_assert(kept > 400 && kept < 2000, "%u", kept);
        cr_expect_leq(size_of_log(), 128 << 10);
}

/* Calls of several threads in one stretch: a block is of one thread, and none is lost or said
 * twice. */
Test(flight, threads_have_blocks_of_their_own)
{
        static uint8_t seen[2000];

        drained_start(64, true);
        for (uint32_t i = 0; i < 2000; i++) {
                struct capo_record r = call_at(100 * (uint64_t)i, 10);

                r.thread = (uint16_t)(i % 7 == 3 ? 65535 : i % 7);
                put(r);
                if (i % 200 == 199)
                        capo_drain_round(drain);
        }
        cr_assert_eq(read_back(out, 80000), 2000);
        for (uint32_t i = 0; i < 2000; i++) {
                uint32_t k = out[i].seq - 1;

                cr_assert(k < 2000 && !seen[k]++);
                cr_assert_eq(out[i].thread, k % 7 == 3 ? 65535 : k % 7);
                cr_assert(out[i].t_begin == 100 * k && out[i].t_end == 100 * k + 10);
        }
}

/* A block has 32 bits for times: calls further apart begin another, whichever way their times go.
 */
Test(flight, far_apart_and_out_of_order)
{
        static const uint64_t at[] = {10000000000, 10000000100, 9999999000, 14294967294,
                                      14294966295, 14294966296, 5000000000, 20000000000,
                                      5000000001,  9294967296,  9294967297, 0};
        enum { N = sizeof at / sizeof *at };

        drained_start(64, true);
        for (unsigned i = 0; i < N; i++) {
                struct capo_record r = call_at(at[i], i % 3 ? 4294967295 : 4294967296);

                if (i % 2) {
                        r.clock = CAPO_CLOCK_EVENT;
                        r.gpu_ns = i % 4 == 1 ? 4294967295 : 4294967296;
                }
                put(r);
        }
        cr_assert_eq(read_back(out, 80000), N);
        for (unsigned i = 0; i < N; i++) {
                unsigned k = out[i].seq - 1;

                cr_assert_lt(k, N);
                cr_expect_eq(out[i].t_begin, at[k], "%u", k);
                cr_expect_eq(out[i].t_end - out[i].t_begin, k % 3 ? 4294967295 : 4294967296, "%u",
                             k);
                cr_expect_eq(out[i].gpu_ns,
                             k % 4 == 1   ? 4294967295
                             : k % 4 == 3 ? 4294967296
                                          : 0,
                             "%u", k);
        }
}

/* Shapes have 16-bit numbers, which begin again at 0 when they have run out. */
Test(flight, more_shapes_than_numbers)
{
        enum { N = 70000 };
        static uint8_t seen[N];

        drained_start(64, true);
        for (uint32_t i = 0; i < N; i++) {
                struct capo_record r = call_at(100 * (uint64_t)i, 10);

                r.bytes = i;
                r.clock = CAPO_CLOCK_NONE;
                put(r);
                if (i % 200 == 199)
                        capo_drain_round(drain);
        }
        cr_assert_eq(read_back(out, 80000), N);
        for (uint32_t i = 0; i < N; i++) {
                cr_assert(out[i].bytes < N && !seen[out[i].bytes]++);
                cr_assert_eq(out[i].seq, out[i].bytes + 1);
        }
}

static unsigned with_gpu, with_aux;

static void exact(const struct capo_log_frame *f)
{
        struct capo_log_columns c;
        size_t words, halves;

        cr_assert_eq(capo_log_block(f, &c), 0);
        words = (4 * c.n + 7) / 8 * 8;
        halves = (2 * c.n + 7) / 8 * 8;
        with_gpu += c.gpu_ns != NULL;
        with_aux += c.aux != NULL;
        cr_expect_eq(f->size,
                     sizeof(struct capo_log_block) + (3 + !!c.gpu_ns + !!c.aux) * words + halves);
}

Test(flight, a_block_has_no_more_than_it_says)
{
        drained_start(64, true);
        for (unsigned i = 0; i < 4; i++) {
                struct capo_record r = call_at(100 * i, 10);

                r.thread = (uint16_t)(i + 1);
                r.group = i & 1 ? 7 : 0;
                r.flags = i & 1 ? CAPO_RECORD_MEMBER : 0;
                r.clock = i & 2 ? CAPO_CLOCK_KERNEL : CAPO_CLOCK_HOST;
                r.gpu_ns = i & 2 ? 1000 : 0;
                put(r);
        }
        cr_assert_eq(read_back(out, 80000), 4);
        cr_expect_eq(frames(CAPO_FRAME_BLOCK, exact), 4);
        cr_expect(with_gpu == 2 && with_aux == 2);
}

static unsigned n_shapes;

static void count_shapes(const struct capo_log_frame *f)
{
        const struct capo_log_shape *s;

        n_shapes += capo_log_shapes(f, &s);
}

Test(flight, calls_alike_have_one_shape)
{
        drained_start(64, true);
        for (unsigned i = 0; i < 600; i++) {
                struct capo_record r = call_at(100 * i, 10);

                r.bytes = 64 << i % 3;
                put(r);
                if (i % 200 == 199)
                        capo_drain_round(drain);
        }
        cr_assert_eq(read_back(out, 80000), 600);
        frames(CAPO_FRAME_SHAPE, count_shapes);
        cr_expect_eq(n_shapes, 3);
        for (unsigned i = 0; i < 600; i++)
                cr_assert_eq(out[i].bytes, 64u << i % 3);
}

/* What a member of a group points to is kept, and how long a kernel waited; what other calls have
 * in its place is not. */
Test(flight, columns_that_few_calls_have)
{
        drained_start(64, true);
        for (unsigned i = 0; i < 8; i++) {
                struct capo_record r = call_at(100 * i, 10);

                r.group = i & 1 ? 40 + i : 0;
                r.flags = i & 2 ? CAPO_RECORD_MEMBER : 0;
                r.clock = i & 4 ? CAPO_CLOCK_KERNEL : CAPO_CLOCK_HOST;
                r.gpu_ns = i & 4 ? 1000 + i : 0;
                put(r);
        }
        cr_assert_eq(read_back(out, 80000), 8);
        for (unsigned i = 0; i < 8; i++) {
                cr_expect_eq(out[i].gpu_ns, i & 4 ? 1000 + i : 0, "%u", i);
                cr_expect_eq(out[i].group, i & 1 && i & 6 ? 40 + i : 0, "%u", i);
        }
}

/* What members of groups point to, as it lies in the block: of other calls there are zeros. */
static void aux_of_members(const struct capo_log_frame *f)
{
        struct capo_log_columns c;

        cr_assert_eq(capo_log_block(f, &c), 0);
        cr_assert(c.n == 4 && c.aux);
        for (unsigned i = 0; i < 4; i++)
                cr_expect_eq(c.aux[i], i == 2 ? 42 : 0, "%u", i);
}

Test(flight, groups_of_members_alone)
{
        drained_start(64, true);
        for (unsigned i = 0; i < 4; i++) {
                struct capo_record r = call_at(100 * i, 10);

                r.group = 40 + i;
                r.flags = i == 2 ? CAPO_RECORD_MEMBER : 0;
                put(r);
        }
        cr_assert_eq(read_back(out, 80000), 4);
        cr_expect_eq(frames(CAPO_FRAME_BLOCK, aux_of_members), 1);
}

static void no_aux(const struct capo_log_frame *f)
{
        struct capo_log_columns c;

        cr_assert_eq(capo_log_block(f, &c), 0);
        cr_expect_null(c.aux, "nobody is a member");
}

Test(flight, blocks_are_full_and_none_is_empty)
{
        struct capo_record wide = call_at(0, 5000000000);

        drained_start(64, true);
        put_calls(2 * CAPO_BLOCK_MOST + 1);
        wide.group = 9;
        put(wide);
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        put(wide);
        cr_assert_eq(read_back(out, 80000), 2 * CAPO_BLOCK_MOST + 3);
        cr_expect_eq(frames(CAPO_FRAME_BLOCK, no_aux), 3);
        cr_expect_eq(frames(CAPO_FRAME_WIDE, NULL), 2);
}

/* Calls too long for a block have shapes too, which go out with the next block: more of them than a
 * frame may have. */
Test(flight, many_shapes_at_once)
{
        enum { N = 30000 };

        drained_start(64, true);
        for (uint32_t i = 0; i <= N; i++) {
                struct capo_record r = call_at(100 * (uint64_t)i, i < N ? 5000000000 : 10);

                r.bytes = i;
                r.clock = CAPO_CLOCK_NONE;
                put(r);
                if (i % 200 == 199)
                        capo_drain_round(drain);
        }
        cr_assert_eq(read_back(out, 80000), N + 1);
        cr_expect_eq(out[N].bytes, N);
        cr_expect_eq(seg.header->bytes_lost, 0);
        cr_expect_gt(frames(CAPO_FRAME_SHAPE, NULL), 1);
}

static void cell_of_shape(const struct capo_log_frame *f)
{
        const struct capo_log_shape *s;

        for (unsigned i = capo_log_shapes(f, &s); i--; s++) {
                cr_expect_eq(s->bytes, 64u << s->cell, "cells are numbered as they come");
                n_shapes++;
        }
}

Test(flight, a_shape_has_the_number_of_its_cell)
{
        drained_start(64, true);
        for (unsigned i = 0; i < 3; i++) {
                struct capo_record r = call_at(100 * i, 10);

                r.bytes = 64u << i;
                put(r);
        }
        cr_assert_eq(read_back(out, 80000), 3);
        frames(CAPO_FRAME_SHAPE, cell_of_shape);
        cr_expect_eq(n_shapes, 3);
}

static struct capo_log_end end;

static void keep_end(const struct capo_log_frame *f) { cr_assert_eq(capo_log_end(f, &end), 0); }

Test(flight, no_memory_to_keep_a_call)
{
        struct capo_segment_header *h;
        uint64_t size;

        drained_start(64, false);
        h = seg.header;
        size = h->size;
        h->size = h->areas[CAPO_AREA_FLIGHT].offset; /* as if the file ended there */
        put(call_at(0, 10));
        capo_drain_round(drain);
        cr_expect(h->unkept == 1 && h->flight_head == 0 && h->calls == 1);
        h->size = size;
        put(call_at(100, 10));
        cr_assert_eq(read_back(out, 80000), 1);
        cr_expect_eq(out[0].seq, 2);
        frames(CAPO_FRAME_END, keep_end);
        cr_expect(end.calls == 2 && end.bytes_lost == sizeof(struct capo_record));
}
