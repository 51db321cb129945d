/* SPDX-License-Identifier: Apache-2.0 */
/* A freeze in one call of twenty thousand, which the sample does not have, is found and fetched. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "analysis/job/reading.h"
#include "analysis/job/skew.h"
#include "analysis/job/stats.h"
#include "capo/record.h"
#include "tests/golden/gen_log.h"
#include "tests/job_add.h"
#include "tests/log_numbers.h"

enum { CALLS = 20000, BLOCK = 4000, US = 1000 };

static char paths[2][64];
static const char *stem = "/tmp/capo-test-calls";

/* Calls 10 us apart; @frozen ns of silence before call @seq in rank 1, which rank 0 then shows
 * before the next one. */
static void write_log(unsigned rank, uint32_t seq, uint64_t frozen)
{
        static uint32_t t[BLOCK], host[BLOCK], seqs[BLOCK];
        static uint16_t shape[BLOCK];
        struct capo_log_end end = {.calls = CALLS, .clean = 1};
        uint64_t now = 1;
        struct gen_log g;

        gen_log_open(&g, paths[rank], 100 + rank);
        gen_log_text(&g, CAPO_FRAME_INFO, "host\tn0");
        gen_log_comm(&g,
                     (struct capo_log_comm){
                             .uid = 7, .id = 1, .rank = (int32_t)rank, .n_ranks = 2, .color = -1},
                     "dp");
        gen_log_shapes(&g,
                       &(struct capo_log_shape){.bytes = 8, .comm = 1, .call = CAPO_CALL_ALLREDUCE},
                       1);
        for (uint32_t i = 0; i < CALLS;) {
                uint32_t n = 0;
                uint64_t base = now;

                for (; i < CALLS && n < BLOCK && now - base < 4000000000; i++, n++) {
                        t[n] = (uint32_t)(now - base);
                        host[n] = 1;
                        seqs[n] = i + 1;
                        now += 10 * US + (i + 2 == seq + (rank == 0) ? frozen : 0);
                }
                gen_log_block(&g, base, 1, n, t, host, seqs, shape, NULL, NULL);
        }
        end.t_ns = now;
        gen_log_frame(&g, CAPO_FRAME_END, &end, sizeof end);
        gen_log_close(&g);
}

static struct capo_job *read_both(uint32_t seq, uint64_t frozen)
{
        struct capo_job *job = capo_job_new();
        char why[256];

        for (unsigned i = 0; i < 2; i++) {
                snprintf(paths[i], sizeof paths[i], "%s-%d.%u", stem, (int)getpid(), i);
                write_log(i, seq, frozen);
                cr_assert_eq(add_log(job, paths[i], why, sizeof why), 0, "%s", why);
        }
        job->comms[0].n_calls = CALLS; /* the logs have no cells */
        capo_job_finish(job);
        unlink(paths[0]);
        unlink(paths[1]);
        cr_assert_not_null(job->comms[0].skew);
        return job;
}

/* Never in a sample of less than half of the calls. */
static uint32_t lost(uint32_t from)
{
        while (capo_meet_hash(from) <= UINT32_MAX / 2)
                from++;
        return from;
}

static void found(uint64_t frozen)
{
        uint32_t seq = lost(9000);
        struct capo_job *job = read_both(seq, frozen);
        const struct capo_skew *k = job->comms[0].skew;

        cr_assert(k->n_own >= 1 && k->n_own <= 2 && k->n_calls < 2100, "%u of %u", k->n_own,
                  k->n_calls);
        cr_assert_eq(k->worst, 1);
        cr_assert_eq(k->max_ns, (double)frozen);
        cr_assert_eq(k->ranks[1].caused_ns, (double)frozen,
                     "once, not for all calls that were not compared");
        cr_assert(k->ranks[1].hole_seq == seq && k->ranks[1].hole_ns == (double)frozen);
        cr_assert(job->processes[1].last_call.seq == CALLS && job->processes[1].n_records == CALLS);
        capo_job_free(job);
}

Test(stats_calls, a_freeze_is_not_lost) { found(500ull * 1000 * US); }

/* The logs are opened a second time for it. */
Test(stats_calls, nor_one_in_logs_whose_name_is_no_utf8)
{
        stem = "/tmp/capo-test-\351\033[1m";
        found(500ull * 1000 * US);
}

/* The two calls are in blocks of their own: a block holds four seconds. */
Test(stats_calls, nor_one_that_a_block_ends_before) { found(12000ull * 1000 * US); }

Test(stats_calls, where_nothing_is_silent_nothing_is_read_twice)
{
        struct capo_job *job = read_both(0, 0);

        cr_assert_eq(job->comms[0].skew->n_own, 0);
        cr_assert_eq(job->comms[0].skew->max_ns, 0);
        capo_job_free(job);
}

/* Logs of two ranks, of @n_calls each, which @put puts there. */
static struct capo_job *made(void (*put)(struct gen_log *g, unsigned rank), uint32_t n_calls)
{
        struct capo_job *job = capo_job_new();
        char why[256];

        for (unsigned rank = 0; rank < 2; rank++) {
                struct gen_log g;

                snprintf(paths[rank], sizeof paths[rank], "/tmp/capo-test-calls-%d.%u",
                         (int)getpid(), rank);
                gen_log_open(&g, paths[rank], 100 + rank);
                gen_log_text(&g, CAPO_FRAME_INFO, "host\tn0");
                gen_log_comm(
                        &g,
                        (struct capo_log_comm){
                                .uid = 7, .id = 1, .rank = (int32_t)rank, .n_ranks = 2, .color = 0},
                        "dp");
                put(&g, rank);
                gen_log_close(&g);
                cr_assert_eq(add_log(job, paths[rank], why, sizeof why), 0, "%s", why);
        }
        job->comms[0].n_calls = n_calls; /* the logs have no cells */
        capo_job_finish(job);
        unlink(paths[0]);
        unlink(paths[1]);
        return job;
}

static void wide_records(struct gen_log *g, unsigned rank)
{
        for (uint32_t seq = 1; seq <= 10; seq++) {
                uint64_t begin = 10 * US * (uint64_t)seq + (rank ? 300 : 0);
                struct capo_record r = {.t_begin = begin,
                                        .t_end = seq == 4 ? begin - 1 : begin + 5000000000,
                                        .bytes = 8,
                                        .seq = seq,
                                        .comm = 1,
                                        .call = CAPO_CALL_ALLREDUCE};

                gen_log_frame(g, CAPO_FRAME_WIDE, &r, sizeof r);
        }
}

/* Calls that fit no block are compared as all others; one whose end is before its begin is not. */
Test(stats_calls, wide_records_are_in_the_sample)
{
        struct capo_job *job = made(wide_records, 10);

        cr_assert_not_null(job->comms[0].skew);
        cr_assert(job->comms[0].skew->n_calls == 9 && job->comms[0].skew->worst == 1);
        cr_assert_eq(job->comms[0].skew->p50_ns, 300);
        cr_assert(job->processes[1].n_records == 10 && job->processes[1].last_call.seq == 10);
        cr_assert_eq(job->t_end_ns - job->t_begin_ns, 5000000000 + 100 * US + 300);
        capo_job_free(job);
}

/* Twenty groups of one all-reduce each: the time on the GPU is the group's. */
static void groups(struct gen_log *g, unsigned rank)
{
        const struct capo_log_shape shapes[] = {{.id = 0,
                                                 .bytes = 8,
                                                 .comm = 1,
                                                 .call = CAPO_CALL_ALLREDUCE,
                                                 .flags = CAPO_RECORD_MEMBER},
                                                {.id = 1,
                                                 .call = CAPO_CALL_GROUP,
                                                 .flags = CAPO_RECORD_GROUP,
                                                 .clock = CAPO_CLOCK_EVENT}};
        uint32_t begin[40], took[40], seq[40], gpu[40], aux[40];
        uint16_t shape[40];

        for (uint32_t i = 0; i < 40; i++) {
                begin[i] = 1000000 * (i / 2) + i % 2;
                took[i] = 100;
                shape[i] = i % 2;
                seq[i] = i / 2 + (i % 2 ? 500 : 1);
                aux[i] = i % 2 ? 0 : i / 2 + 500;
                gpu[i] = i % 2 ? (rank ? 40000 : 90000) : 0;
        }
        gen_log_comm(g,
                     (struct capo_log_comm){
                             .uid = 8, .id = 2, .parent = 1, .rank = (int32_t)rank, .n_ranks = 2},
                     "half");
        gen_log_shapes(g, shapes, 2);
        gen_log_block(g, 0, 1, 40, begin, took, seq, shape, gpu, aux);
        gen_log_frame(g, CAPO_FRAME_END, &(struct capo_log_end){.calls = 40, .clean = 1},
                      sizeof(struct capo_log_end));
        gen_log_frame(g, CAPO_FRAME_END, "too short", 8);
}

Test(stats_calls, members_have_the_time_of_their_group)
{
        struct capo_job *job = made(groups, 20);
        const struct capo_skew *k = job->comms[0].skew;

        cr_assert_not_null(k);
        cr_expect_eq(k->from, CAPO_SKEW_GPU_DURATION);
        cr_expect(k->n_calls == 20 && k->worst == 1 && k->p50_ns == 50000, "%u calls, %g",
                  k->n_calls, k->p50_ns);
        cr_expect_eq(job->comms[0].color, 0, "a color like any other");
        cr_expect(job->n_comms == 2 && job->comms[0].parent == CAPO_NO_COMM &&
                  job->comms[1].parent == 0);
        cr_expect(job->processes[1].has_end && job->processes[1].end.calls == 40);
        capo_job_free(job);
}

/* Numbers are a process's own: what one log calls its communicator 9 is none of the next log. */
static void numbers(struct gen_log *g, unsigned rank)
{
        struct capo_record r = {.t_begin = 5,
                                .t_end = 9,
                                .bytes = 8,
                                .seq = 1,
                                .comm = 1,
                                .call = CAPO_CALL_ALLREDUCE};

        if (rank == 0)
                gen_log_comm(g, (struct capo_log_comm){.uid = 8, .id = 9, .n_ranks = 2}, "tp");
        gen_log_cell(g,
                     (struct capo_log_cell){
                             .comm = 9, .call = CAPO_CALL_ALLREDUCE, .bytes = 8, .count = 1},
                     NULL, NULL);
        gen_log_frame(g, CAPO_FRAME_WIDE, &r, sizeof r);
        r.seq = 2; /* at the same moment: the later one of the log is the last */
        gen_log_frame(g, CAPO_FRAME_WIDE, &r, sizeof r);
}

Test(stats_calls, numbers_are_of_one_log)
{
        struct capo_job *job = made(numbers, 0);

        cr_assert_eq(job->n_rows, 2);
        cr_expect(job->rows[0].comm == 1 && job->rows[0].calls == 1);
        cr_expect(job->rows[1].comm == CAPO_NO_COMM && job->rows[1].calls == 1);
        cr_expect_eq(job->processes[1].last_call.seq, 2);
        capo_job_free(job);
}

/* NCCL's own number of a communicator is learnt late, or reported by one rank only: what is known
 * stays. */
static void hashes(struct gen_log *g, unsigned rank)
{
        struct capo_log_comm c = {
                .uid = 7, .id = 1, .rank = (int32_t)rank, .n_ranks = 2, .color = -1};

        c.comm_hash = rank ? 0 : 99;
        gen_log_comm(g, c, "dp");
        c.comm_hash = 0;
        gen_log_comm(g, c, "dp");
}

Test(stats_calls, what_is_known_of_a_communicator_stays)
{
        struct capo_job *job = made(hashes, 0);

        cr_expect_eq(job->comms[0].comm_hash, 99);
        cr_expect_eq(job->comms[0].color, 0, "as its first frame says");
        cr_expect_eq(job->comms[0].n_members, 2);
        capo_job_free(job);
}

/* A block's calls are in the order of their ends: the first may have begun last. */
static void out_of_order(struct gen_log *g, unsigned rank)
{
        static const uint32_t begin[] = {5000, 100, 4999}, took[] = {10, 20000, 30},
                              seq[] = {1, 2, 3};
        static const uint16_t shape[] = {0, 0, 0};
        const struct capo_log_shape shapes[] = {
                {.id = 0, .bytes = 8, .comm = 1, .call = CAPO_CALL_ALLREDUCE, .stream = 5},
                {.id = 1, .call = CAPO_CALL_COMMINIT, .stream = 9},
                {.id = 2, .bytes = 8, .comm = 1, .call = CAPO_CALL_ALLREDUCE, .stream = 7},
                {.id = 3, .call = CAPO_CALL_COMMINIT, .stream = 11}};

        gen_log_shapes(g, shapes, rank ? 4 : 2);
        gen_log_block(g, 1000, 1, 3, begin, took, seq, shape, NULL, NULL);
}

Test(stats_calls, the_last_call_is_the_one_that_began_last)
{
        struct capo_job *job = made(out_of_order, 20);

        cr_expect_eq(job->processes[0].last_call.seq, 1);
        cr_expect_eq(job->processes[0].last_ns, 6010);
        cr_expect(job->processes[0].has_stream && job->processes[0].stream == 5 &&
                          !job->processes[0].many_streams,
                  "what moves nothing has no stream");
        cr_expect(job->processes[1].stream == 7 && job->processes[1].many_streams);
        capo_job_free(job);
}

/* Silences of the thread with most calls: where a call since the one before can have been on the
 * GPU and was not timed there. */
static void silent(struct gen_log *g, unsigned rank)
{
        enum { MS = 1000000 };
        /* 30 ms behind no call of the GPU, 60 behind a timed one that came behind another; one that
         * was timed stands behind the call that came after it; 50 behind a timed one alone */
        static const uint32_t begin[] = {0,
                                         30 * MS,
                                         35 * MS,
                                         42 * MS,
                                         42 * MS + 1000,
                                         102 * MS + 1000,
                                         42 * MS + 2000,
                                         102 * MS + 2000,
                                         150 * MS,
                                         200 * MS},
                              more[] = {9 * MS, 9 * MS + 7};
        static const uint32_t took[10], seq[] = {1, 2, 3, 4, 5, 7, 6, 8, 9, 10}, one[] = {90 * MS};
        static const uint16_t shape[] = {1, 0, 0, 0, 2, 0, 2, 0, 2, 0}, all_reduce[] = {0, 0};
        const struct capo_log_shape shapes[] = {
                {.id = 0,
                 .bytes = 8,
                 .comm = 1,
                 .call = CAPO_CALL_ALLREDUCE,
                 .clock = CAPO_CLOCK_HOST},
                {.id = 1,
                 .call = rank ? CAPO_CALL_GROUP : CAPO_CALL_COMMINIT,
                 .clock = CAPO_CLOCK_HOST},
                {.id = 2,
                 .bytes = 8,
                 .comm = 1,
                 .call = CAPO_CALL_ALLREDUCE,
                 .clock = CAPO_CLOCK_EVENT}};

        gen_log_shapes(g, shapes, 3);
        gen_log_block(g, 1000, 1, 10, begin, took, seq, shape, NULL, NULL);
        gen_log_block(g, 1000, 2, 2, more, took, seq, all_reduce, NULL, NULL);
        gen_log_block(g, 1000 + 200 * MS, 1, 1, one, took, seq + 9, all_reduce, NULL, NULL);
        gen_log_block(g, 1000 + 200 * MS, 2, 1, one, took, seq + 9, all_reduce, NULL, NULL);
}

Test(stats_calls, silences_behind_calls_that_were_not_timed)
{
        static const uint64_t expected[] = {90000000, 60000000, 47998000, 7000000, 5000000};

        struct capo_job *job = made(silent, 20);
        for (uint32_t i = 0; i < 2; i++) {
                const struct capo_silences *s = &job->processes[i].silent;

                cr_expect_eq(s->n, 5, "%u", s->n);
                for (uint32_t k = 0; k < s->n && k < 5; k++)
                        cr_expect_eq(s->v[k].ns, expected[k], "%u: %llu", k,
                                     (unsigned long long)s->v[k].ns);
        }
        capo_job_free(job);
}

enum { HUGE_COMMS = 60 };

static void put_huge(struct gen_log *g, unsigned rank)
{
        for (uint16_t i = 0; i < HUGE_COMMS; i++) {
                struct capo_record r = {.comm = (uint16_t)(100 + i),
                                        .call = CAPO_CALL_ALLREDUCE,
                                        .seq = 1,
                                        .bytes = 8,
                                        .t_begin = 1000 * i,
                                        .t_end = 1000 * i + 1};
                struct capo_log_cell cell = {.id = i,
                                             .comm = r.comm,
                                             .call = CAPO_CALL_ALLREDUCE,
                                             .bytes = 8,
                                             .count = 1};

                gen_log_comm(g,
                             (struct capo_log_comm){.uid = 100 + i,
                                                    .id = r.comm,
                                                    .rank = (int32_t)rank,
                                                    .n_ranks = i ? 65536 : 65537},
                             "huge");
                gen_log_frame(g, CAPO_FRAME_WIDE, &r, sizeof r);
                gen_log_cell(g, cell, NULL, NULL);
        }
}

/* Two ranks left a log, and by their word there are 65,536 in each of sixty communicators: room for
 * all would be nine gigabytes. */
Test(stats_calls, communicators_of_very_many_ranks)
{
        struct capo_job *job = made(put_huge, 1);
        unsigned compared = 0, no_room = 0;

        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_job_comm *c = &job->comms[i];

                compared += c->no_skew == CAPO_SKEW_COMPARED && c->skew && c->skew->n_calls == 1;
                no_room += c->no_skew == CAPO_SKEW_NO_ROOM && !c->skew;
                cr_expect(c->n_ranks != 65537 || c->no_skew == CAPO_SKEW_NO_ROOM);
        }
        cr_expect_eq(compared, 21, "%u", compared);
        cr_expect_eq(no_room, HUGE_COMMS - 21, "%u", no_room);
        capo_job_free(job);
}

/* The tables of a reading are kept for the next log, which must not take a communicator of the log
 * before for its own. */
Test(stats_calls, tables_are_empty_for_the_next_log)
{
        struct capo_job *job = capo_job_new();
        struct reading *rd = job_reading_new(job, 0, NULL), *next;

        job_reading_comm(rd, 7, 3, 2);
        cr_assert(rd->comms[7] == 4 && rd->ranks[7] == 2 && rd->n_ids == 8);
        job_reading_end(rd);
        next = job_reading_new(job, 1, NULL);
        cr_assert_eq(next, rd);
        cr_assert(next->comms[7] == 0 && next->ranks[7] == 0 && next->n_ids == 0);
        cr_assert_eq(next->process, 1);
        job_reading_end(next);
        capo_job_free(job);
}
