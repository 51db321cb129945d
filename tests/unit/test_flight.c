/* SPDX-License-Identifier: Apache-2.0 */
/* The last calls, or all of them: which are kept, and that each comes back whole from the blocks they are written in. */
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

/* Calls of several threads in one stretch: a block is of one thread, and none is lost or said twice. */
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

/* A block has 32 bits for times: calls further apart begin another, whichever way their times go. */
Test(flight, far_apart_and_out_of_order)
{
        static const uint64_t at[] = {10000000000, 10000000100, 9999999000, 14294967294, 14294966295, 14294966296,
                                      5000000000,  20000000000, 5000000001, 9294967296,  9294967297,  0};
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
                cr_expect_eq(out[i].t_end - out[i].t_begin, k % 3 ? 4294967295 : 4294967296, "%u", k);
                cr_expect_eq(out[i].gpu_ns, k % 4 == 1 ? 4294967295 : k % 4 == 3 ? 4294967296 : 0, "%u", k);
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
        cr_expect_eq(f->size, sizeof(struct capo_log_block) + (3 + !!c.gpu_ns + !!c.aux) * words + halves);
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

/* What a member of a group points to is kept; what other calls have in its place is not. */
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
                cr_expect_eq(out[i].group, (i & 3) == 3 ? 40 + i : 0, "%u", i);
        }
}
