/* SPDX-License-Identifier: Apache-2.0 */
/* The sample of calls that ranks are compared in: what is kept, what is not, and that it stays even
 * when it is halved. */
#include <criterion/criterion.h>

#include "analysis/job/meet.h"
#include "capo/record.h"
#include "tests/log_numbers.h"

static struct capo_record call(uint32_t seq)
{
        return (struct capo_record){.seq = seq,
                                    .call = CAPO_CALL_ALLREDUCE,
                                    .bytes = 1024,
                                    .t_begin = 100 * (uint64_t)seq,
                                    .t_end = 100 * (uint64_t)seq + 7};
}

static const struct capo_meet_arrival *at(const struct capo_meet *m, uint32_t row, uint32_t rank)
{
        return &m->arrivals[row * m->n_ranks + rank];
}

Test(meet, a_call_is_one_row_of_all_ranks)
{
        struct capo_meet *m = capo_meet_new(3);
        struct capo_record r = call(7);

        r.clock = CAPO_CLOCK_EVENT;
        r.gpu_ns = 55;
        cr_assert_eq(capo_meet_add(m, 2, &r), 2);
        cr_assert_eq(capo_meet_add(m, 0, &r), 0);
        cr_assert_eq(m->n_rows, 1);
        cr_assert(m->rows[0].seq == 7 && m->rows[0].n_seen == 2 && !m->rows[0].mismatch);
        cr_assert_eq(at(m, 0, 0)->begin, 700);
        cr_assert_eq(at(m, 0, 0)->gpu_ns, 55);
        cr_assert_eq(at(m, 0, 1)->begin, CAPO_MEET_ABSENT);
        cr_assert_eq(capo_meet_add(m, 2, &r), -1, "the second of one rank is not it");
        cr_assert_eq(capo_meet_add(m, 3, &r), -1, "no such rank");
        r.seq = 0;
        cr_assert_eq(capo_meet_add(m, 1, &r), -1, "calls without a number cannot be compared");
        cr_assert_eq(m->rows[0].n_seen, 2);
        r = call(8);
        cr_assert_eq(capo_meet_add(m, 1, &r), 1 * 3 + 1);
        cr_assert_eq(m->n_rows, 2);
        capo_meet_free(m);
        capo_meet_free(NULL);
}

Test(meet, kind_and_size_must_agree)
{
        struct capo_meet *m = capo_meet_new(2);
        struct capo_record r = call(1);

        capo_meet_add(m, 0, &r);
        r.bytes++;
        capo_meet_add(m, 1, &r);
        cr_assert(m->rows[0].mismatch);
        r = call(2);
        capo_meet_add(m, 0, &r);
        r.call = CAPO_CALL_BROADCAST;
        capo_meet_add(m, 1, &r);
        cr_assert(m->rows[1].mismatch);
        r = call(3);
        capo_meet_add(m, 0, &r);
        r.t_begin += 5;
        capo_meet_add(m, 1, &r);
        cr_assert_not(m->rows[2].mismatch);
        capo_meet_free(m);
}

Test(meet, gpu_times_only_of_gpu_clocks_and_of_places_that_are_still_theirs)
{
        struct capo_meet *m = capo_meet_new(2);
        struct capo_record r = call(5), group = {.clock = CAPO_CLOCK_HOST, .gpu_ns = 9};
        int64_t handle = capo_meet_add(m, 1, &r);

        capo_meet_set_gpu(m, handle, 5, &group);
        cr_assert_eq(at(m, 0, 1)->gpu_ns, 0);
        group.clock = CAPO_CLOCK_KERNEL;
        capo_meet_set_gpu(m, handle, 6, &group);
        cr_assert_eq(at(m, 0, 1)->gpu_ns, 0, "another call is there now");
        capo_meet_set_gpu(m, 2, 5, &group);
        capo_meet_set_gpu(m, -1, 5, &group);
        capo_meet_set_gpu(m, handle, 5, &group);
        cr_assert_eq(at(m, 0, 1)->gpu_ns, 9);
        cr_assert_eq(at(m, 0, 0)->gpu_ns, 0);
        capo_meet_free(m);
}

Test(meet, a_full_sample_is_halved_and_stays_even)
{
        enum { CALLS = 40000, PARTS = 8 };
        struct capo_meet *m = capo_meet_new(2);
        unsigned in[PARTS] = {0};
        uint32_t last = 0;

        cr_assert_eq(m->limit, UINT32_MAX);
        for (uint32_t seq = 1; seq <= 2048; seq++) {
                struct capo_record r = call(seq);

                cr_assert_geq(capo_meet_add(m, 0, &r), 0, "there is room for all of 2,048");
        }
        for (uint32_t rank = 0; rank < 2; rank++) {
                for (uint32_t seq = rank ? 1 : 2049; seq <= CALLS; seq++) {
                        struct capo_record r = call(seq);
                        int64_t handle = capo_meet_add(m, rank, &r);

                        cr_assert_eq(handle >= 0, capo_meet_hash(seq) <= m->limit, "%u", seq);
                        if (handle >= 0)
                                cr_assert_eq(m->rows[handle / 2].seq, seq);
                }
        }
        cr_assert_eq(m->limit, UINT32_MAX >> 5, "%x", m->limit);
        cr_assert_lt(m->n_rows, 2048);
        cr_assert_gt(m->n_rows, 1100);
        for (uint32_t i = 0; i < m->n_rows; i++) {
                cr_assert_gt(m->rows[i].seq, last, "in the order of coming");
                last = m->rows[i].seq;
                cr_assert_eq(m->rows[i].n_seen, 2);
                cr_assert_eq(at(m, i, 0)->begin, 100 * (uint64_t)last);
                cr_assert_eq(at(m, i, 1)->begin, 100 * (uint64_t)last);
                in[(last - 1) * PARTS / CALLS]++;
        }
        for (unsigned i = 0; i < PARTS; i++)
                cr_assert(in[i] * PARTS > m->n_rows * 9 / 10 && in[i] * PARTS < m->n_rows * 11 / 10,
                          "part %u: %u", i, in[i]);
        capo_meet_free(m);
}

Test(meet, large_communicators_keep_fewer_calls)
{
        static const uint32_t rooms[][2] = {
                {2, 2048}, {128, 2048}, {256, 1024}, {4096, 64}, {8192, 64}};

        for (unsigned i = 0; i < 5; i++) {
                struct capo_meet *m = capo_meet_new(rooms[i][0]);

                cr_assert_eq(m->max_rows, rooms[i][1], "%u ranks: %u", rooms[i][0], m->max_rows);
                capo_meet_free(m);
        }
}

Test(meet, nobody_leaves_a_barrier_early)
{
        static const struct {
                uint8_t call;
                bool is;
        } calls[] = {
                {CAPO_CALL_ALLREDUCE, true},     {CAPO_CALL_ALLGATHER, true},
                {CAPO_CALL_REDUCESCATTER, true}, {CAPO_CALL_BROADCAST, false},
                {CAPO_CALL_REDUCE, false},       {CAPO_CALL_SEND, false},
                {CAPO_CALL_COMMINIT, false},
        };

        for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
                struct capo_meet_row row = {.call = calls[i].call, .bytes = 1};

                cr_assert_eq(capo_meet_is_barrier(&row), calls[i].is, "%u", i);
                row.bytes = 0;
                cr_assert_not(capo_meet_is_barrier(&row), "an empty call waits for nobody");
                row = (struct capo_meet_row){.call = calls[i].call, .bytes = 1, .mismatch = true};
                cr_assert_not(capo_meet_is_barrier(&row));
        }
}

/* The longest silences, each call once, and no more than so many. */
Test(meet, long_silences_are_kept)
{
        struct capo_meet *m = capo_meet_new(2);

        for (uint32_t i = 1; i <= CAPO_MEET_LONG + 5; i++)
                capo_meet_gap(m, i, 10 * i);
        cr_assert_eq(m->n_gaps, CAPO_MEET_LONG);
        cr_assert(m->gaps[0].seq == CAPO_MEET_LONG + 5 && m->gaps[CAPO_MEET_LONG - 1].seq == 6);
        cr_assert(!capo_meet_is_long(m, 5) && capo_meet_is_long(m, 6));
        capo_meet_gap(m, 1, 60);
        cr_assert_not(capo_meet_is_long(m, 1), "no longer than the shortest");
        capo_meet_gap(m, 1, 61);
        cr_assert(capo_meet_is_long(m, 1) && !capo_meet_is_long(m, 6));
        capo_meet_gap(m, 1, 5000);
        capo_meet_gap(m, 1, 70);
        capo_meet_gap(m, 0, 9000);
        cr_assert(m->n_gaps == CAPO_MEET_LONG && m->gaps[0].seq == 1 && m->gaps[0].ns == 5000);
        for (uint32_t i = 1; i < m->n_gaps; i++)
                cr_assert_leq(m->gaps[i].ns, m->gaps[i - 1].ns);
        cr_assert_eq(capo_meet_close_gaps(m, 360), 3, "two of 360 and more, and the one of 5000");
        cr_assert_eq(m->n_gaps, 3);
        capo_meet_free(m);
}

Test(meet, a_full_sample_has_room_for_them)
{
        struct capo_meet *m = capo_meet_new(2);
        struct capo_record r;
        uint32_t lost = 0;

        for (uint32_t i = 1; i <= 5000; i++) {
                r = call(i);
                capo_meet_add(m, 0, &r);
        }
        for (uint32_t i = 1; i <= 5000 && !lost; i++)
                lost = capo_meet_hash(i) > m->limit ? i : 0;
        r = call(lost);
        cr_assert_eq(capo_meet_add_long(m, 0, &r), -1, "nobody asked for it");
        capo_meet_gap(m, lost, 1000);
        cr_assert_eq(capo_meet_close_gaps(m, 1000), 1);
        cr_assert_eq(capo_meet_add_long(m, 2, &r), -1, "no such rank");
        cr_assert_geq(capo_meet_add_long(m, 0, &r), 0);
        cr_assert_eq(capo_meet_add_long(m, 0, &r), -1, "it is there");
        cr_assert_geq(capo_meet_add_long(m, 1, &r), 0);
        cr_assert(m->rows[m->n_rows - 1].seq == lost && m->rows[m->n_rows - 1].extra &&
                  m->rows[m->n_rows - 1].n_seen == 2);
        cr_assert_eq(capo_meet_close_gaps(m, 1000), 0);
        capo_meet_free(m);
}

/* What lies behind the rows that are left is nobody's, also where it still reads as it did. */
Test(meet, a_place_behind_the_last_row)
{
        struct capo_meet *m = capo_meet_new(2);
        struct capo_record group = {
                .clock = CAPO_CLOCK_EVENT, .gpu_ns = 777, .t_begin = 5, .t_end = 6};
        size_t at;
        char before[sizeof *m->arrivals];

        for (uint32_t seq = 1; m->n_rows + 1 >= seq || m->n_rows == m->max_rows; seq++) {
                struct capo_record r = {.seq = seq, .call = CAPO_CALL_ALLREDUCE, .bytes = 8};

                capo_meet_add(m, 0, &r);
        }
        at = (size_t)m->n_rows * 2;
        memcpy(before, &m->arrivals[at], sizeof before);
        capo_meet_set_gpu(m, (int64_t)at, m->rows[m->n_rows].seq, &group);
        cr_expect_eq(memcmp(before, &m->arrivals[at], sizeof before), 0);
        capo_meet_free(m);
}
