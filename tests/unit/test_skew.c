/* SPDX-License-Identifier: Apache-2.0 */
/* Who comes last, by how much and at whose cost, of calls put together by hand on one host's clock.
 */
#include <math.h>
#include <string.h>
#include <criterion/criterion.h>

#include "analysis/job/skew.h"
#include "analysis/job/skew_starts.h"
#include "capo/record.h"
#include "tests/log_numbers.h"

enum { RANKS = 3, MS = 1000000 };

static struct capo_job *job;
static struct capo_meet *meet;

static void begin(void)
{
        job = capo_job_new();
        job->processes = calloc(RANKS, sizeof *job->processes);
        job->comms = calloc(1, sizeof *job->comms);
        job->comms[0] =
                (struct capo_job_comm){.n_ranks = RANKS, .n_members = RANKS, .n_calls = 100};
        job->comms[0].members = calloc(RANKS, sizeof *job->comms[0].members);
        for (uint32_t i = 0; i < RANKS; i++) {
                job->processes[i].header =
                        (struct capo_log_header){.t0_real_ns = 1, .t0_mono_ns = 1};
                job->comms[0].members[i] =
                        (struct capo_job_member){.rank = (int32_t)i, .process = i};
        }
        job->n_processes = RANKS;
        job->n_comms = 1;
        job->n_clocks = 1;
        job->t_begin_ns = 1;
        job->t_end_ns = 1 + 1000ull * MS;
        meet = capo_meet_new(RANKS);
}

static void end(void)
{
        capo_meet_free(meet);
        capo_job_free(job);
}

TestSuite(skew, .init = begin, .fini = end);

/* Call @seq begins @late[rank] ns after its time; it lasts 1 ms less that on the GPU when there is
 * one. */
static void call(uint32_t seq, bool gpu, uint64_t a, uint64_t b, uint64_t c)
{
        const uint64_t late[RANKS] = {a, b, c};

        for (uint32_t rank = 0; rank < RANKS; rank++) {
                struct capo_record r = {.seq = seq,
                                        .call = CAPO_CALL_ALLREDUCE,
                                        .bytes = 8,
                                        .t_begin = 5ull * MS * seq + (gpu ? 0 : late[rank]),
                                        .clock = gpu ? CAPO_CLOCK_EVENT : CAPO_CLOCK_HOST,
                                        .gpu_ns = gpu ? (uint32_t)(MS - late[rank]) : 0};

                cr_assert_geq(capo_meet_add(meet, rank, &r), 0);
        }
}

static const struct capo_skew *solve(void)
{
        capo_skew_solve(job, &meet);
        return job->comms[0].skew;
}

Test(skew, the_rank_that_most_waiting_is_for_is_the_one)
{
        const struct capo_skew *k;

        job->comms[0].n_calls = 10;
        for (uint32_t i = 1; i <= 10;
             i++) /* rank 1 is last six times, by little; rank 2 four times, by much */
                call(i, false, 0, i <= 6 ? 300 : 100, i <= 6 ? 200 : 90000);
        k = solve();
        cr_assert(k->n_calls == 10 && k->from == CAPO_SKEW_HOST_START && k->aligned);
        cr_assert(k->ranks[0].last == 0 && k->ranks[1].last == 6 && k->ranks[2].last == 4);
        cr_assert_float_eq(k->ranks[1].caused_ns, 6 * (300 + 100), 1e-6);
        cr_assert_float_eq(k->ranks[2].caused_ns, 4 * (90000 + 89900), 1e-6);
        cr_assert_eq(k->ranks[2].caused_pm_ns, 0, "all calls are compared");
        cr_assert_eq(k->worst, 2);
        cr_assert_eq(k->worst_p50_ns, 90000);
        cr_assert_eq(k->worst_max_ns, 90000);
        cr_assert_eq(k->others_p50_ns, 100);
        cr_assert_eq(k->ranks[0].late_p50_ns, 0);
        cr_assert_eq(k->ranks[2].late_p50_ns, 200);
        cr_assert_eq(k->max_ns, 90000);
        cr_assert_eq(k->wait_share, -1, "host times cost nothing that is known");
        cr_assert_float_eq(k->ranks[0].wait_ns, (6 * 300 + 4 * 90000) / 10.0, 1e-6);
}

Test(skew, what_was_not_compared_is_estimated)
{
        const struct capo_skew *k;

        for (uint32_t i = 1; i <= 10;
             i++) /* 10 of 100 calls; rank 2 is late to every other of them */
                call(i, false, 0, 0, i % 2 ? 0 : 1000);
        k = solve();
        cr_assert_float_eq(k->ranks[2].caused_ns, 100 * 1000, 1e-6);
        /* the charges are 0 or 2000: t of 9 degrees, 2.262, x 100 x 1054 / sqrt(10) x sqrt(0.9) */
        cr_assert_float_eq(k->ranks[2].caused_pm_ns, 71535, 10);
}

/* All calls behind a long silence are known, so none of the others is as late as that. */
Test(skew, a_long_silence_does_not_widen_what_is_said_of_other_calls)
{
        const struct capo_skew *k;

        for (uint32_t i = 1; i <= 10; i++)
                call(i, false, 0, 0, i == 5 ? 4000000 : i % 2 ? 0 : 1000);
        capo_meet_gap(meet, 5, 9 * MS);
        capo_meet_close_gaps(meet, 2000);
        k = solve();
        cr_assert(k->n_own == 1 && k->worst == 2);
        cr_assert_float_eq(k->ranks[2].caused_ns, 8000000 + 99 * 2000 * 5 / 9.0, 1);
        cr_assert_lt(k->ranks[2].caused_pm_ns, 200000);
}

/* Ten calls by the host, six of them by the GPUs too, where rank 2 was 300 ns later. */
Test(skew, by_two_clocks_that_differ_nothing_is_exact)
{
        const struct capo_skew *k;

        job->comms[0].n_calls = 10;
        for (uint32_t i = 1; i <= 10; i++) {
                for (uint32_t rank = 0; rank < RANKS; rank++) {
                        struct capo_record r = {.seq = i,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .bytes = 8,
                                                .t_begin = 5ull * MS * i + (rank == 2 ? 1000 : 0),
                                                .clock =
                                                        i <= 6 ? CAPO_CLOCK_EVENT : CAPO_CLOCK_HOST,
                                                .gpu_ns = i > 6       ? 0
                                                          : rank == 2 ? MS - 1300
                                                                      : MS};

                        cr_assert_geq(capo_meet_add(meet, rank, &r), 0);
                }
        }
        k = solve();
        cr_assert(k->n_calls == 10 && k->n_host == 4);
        cr_assert_float_eq(k->ranks[2].caused_ns, 10 * 2600, 1, "as the GPUs would say");
        cr_assert(k->ranks[2].caused_pm_ns > 600 && k->ranks[2].caused_pm_ns < 4 * 600);
        cr_assert_float_eq(k->ranks[2].clocks_pm_ns, 10 * 600, 1, "2600 and 2000 in each");
}

/* Rank 2 had its data, and was through a call in which the two others were held for 0.5 s. */
Test(skew, who_leaves_a_call_early_did_not_come_late)
{
        const uint64_t began[2][RANKS] = {{0, 0, 0}, {500, 500, 2}},
                       lasted[2][RANKS] = {{500, 500, 1}, {1, 1, 499}};
        const struct capo_skew *k;

        for (uint32_t i = 1; i <= 8; i++)
                call(i, true, 0, 0, 10);
        for (uint32_t i = 0; i < 2; i++) {
                for (uint32_t rank = 0; rank < RANKS; rank++) {
                        struct capo_record r = {.seq = 10 + i,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .bytes = 8,
                                                .t_begin = (50 + began[i][rank]) * MS,
                                                .clock = CAPO_CLOCK_EVENT,
                                                .gpu_ns = (uint32_t)(lasted[i][rank] * MS)};

                        cr_assert_geq(capo_meet_add(meet, rank, &r), 0);
                }
        }
        job->comms[0].n_calls = 10;
        k = solve();
        cr_expect_lt(k->ranks[2].hole_ns, MS);
        cr_expect_lt(k->ranks[2].caused_ns, MS);
}

/* The call in which rank 1 was stopped lasted as long on all GPUs. What shows that the others
 * waited for it is their silence. */
static void stop_rank_1(struct capo_job_info *stop, uint64_t other_silent_ns)
{
        *stop = (struct capo_job_info){.key = (char *)"stopped", .value = (char *)"100 400000000"};
        job->processes[1].info = stop;
        job->processes[1].n_info = 1;
        for (uint32_t i = 0; i < RANKS; i++)
                capo_silences_add(&job->processes[i].still, 50, i ? 401 * MS : other_silent_ns);
        for (uint32_t i = 1; i <= 10; i++)
                call(i, true, 0, i % 2 ? 0 : 10, 0);
        job->comms[0].n_calls = 10;
}

Test(skew, a_process_that_did_not_run)
{
        struct capo_job_info stop;
        const struct capo_skew *k;

        stop_rank_1(&stop, 401 * MS);
        k = solve();
        cr_expect_eq(k->worst, 1);
        cr_expect_float_eq(k->ranks[1].caused_ns, 2 * 400.0 * MS, 1000);
        cr_expect_float_eq(k->ranks[1].stopped_ns, 400.0 * MS, 1);
        job->processes[1].info = NULL;
        job->processes[1].n_info = 0;
}

/* Most of the waiting is for the stop, which no compared call shows, and not in call 20. */
static uint32_t few_of(uint64_t other_silent_ns)
{
        struct capo_job_info stop;
        uint32_t few;

        stop_rank_1(&stop, other_silent_ns);
        for (uint32_t i = 11; i <= 80; i++)
                call(i, true, 0, i == 20 ? 900000 : 0, 0);
        job->comms[0].n_calls = 80;
        few = solve()->few;
        job->processes[1].info = NULL;
        job->processes[1].n_info = 0;
        return few;
}

Test(skew, a_stop_is_in_no_call) { cr_expect_eq(few_of(401 * MS), 0); }

Test(skew, without_a_stop_most_is_in_one_call) { cr_expect_eq(few_of(100 * MS), 1); }

Test(skew, a_stop_that_not_all_waited_for)
{
        struct capo_job_info stop;
        const struct capo_skew *k;

        stop_rank_1(&stop, 100 * MS); /* rank 0 went on */
        k = solve();
        cr_expect_lt(k->ranks[1].caused_ns, 1000);
        cr_expect_eq(k->ranks[1].stopped_ns, 0);
        job->processes[1].info = NULL;
        job->processes[1].n_info = 0;
}

Test(skew, calls_behind_a_long_silence_stand_for_themselves)
{
        const struct capo_skew *k;

        for (uint32_t i = 1; i <= 10; i++)
                call(i, false, 0, 1, i == 5 ? 4000000 : 0);
        capo_meet_gap(meet, 5, 9 * MS);
        k = solve();
        cr_assert(k->n_own == 1 && k->worst == 2);
        cr_assert_float_eq(k->ranks[2].caused_ns, 4000000 + 3999999, 1e-6);
        cr_assert_float_eq(k->ranks[1].caused_ns, 2 * 99, 1e-6, "nine for the other 99");
}

/* A rank that is 1 s behind from the beginning in a loop that never waits: that second once, and
 * no more. Where all wait for it in each call, it is once per call. */
Test(skew, a_tight_loop_waits_once)
{
        const struct capo_skew *k;

        for (uint32_t i = 1; i <= 100; i++)
                call(i, false, 0, 800 * MS, 0);
        k = solve();
        cr_assert(k->worst == 1 && k->ranks[1].last == 100);
        cr_assert_float_eq(k->ranks[1].caused_ns, 2 * 800.0 * MS, 1e-6, "%g",
                           k->ranks[1].caused_ns);
}

Test(skew, a_step_waits_each_time)
{
        const struct capo_skew *k;

        for (uint32_t i = 1; i <= 100; i++)
                call(i, false, 0, 4 * MS, 0);
        k = solve();
        cr_assert_float_eq(k->ranks[1].caused_ns, 100 * 2 * 4.0 * MS, 1e-6, "%g",
                           k->ranks[1].caused_ns);
}

/* Calls that do not follow each other tell nothing of how long each of them waited. */
Test(skew, in_a_sample_only_calls_behind_their_neighbour_count)
{
        const struct capo_skew *k;

        job->comms[0].n_calls = 400;
        for (uint32_t i = 1; i <= 400; i += 4) {
                call(i, false, 0, 0, 10 * MS);
                call(i + 1, false, 0, 0, 11 * MS);
        }
        k = solve();
        /* 1 ms, of two others, in every other call; the first call is 10 ms */
        cr_assert_float_eq(k->ranks[2].caused_ns, 400 * (2.0 * MS * 100 + 2.0 * 10 * MS) / 101, 1,
                           "%g", k->ranks[2].caused_ns);
}

/* Timed for what they are, they stand for themselves: with GPU times only. */
Test(skew, chosen_calls_stand_for_themselves)
{
        const struct capo_skew *k;

        for (uint32_t seq = 1; seq <= 12; seq++)
                call(seq, true, 0, seq == 1 ? 900000 : 1000, 0);
        meet->rows[0].n_chosen = RANKS;
        k = solve();
        cr_assert_eq(k->n_own, 1);
        cr_assert_float_eq(k->ranks[1].spared, 0.5, 1e-6, "two waited for it");
        cr_assert_float_eq(k->ranks[1].caused_ns, 2 * 900000 + 99 * 2 * 1000, 1, "%g",
                           k->ranks[1].caused_ns);
}

/* What the others waited in a call that was not timed is added to the row of that call. */
Test(skew, a_row_knows_what_its_calls_waited)
{
        struct capo_job_row rows[3] = {{.comm = 0, .call = CAPO_CALL_BROADCAST, .bytes = 8},
                                       {.comm = 0, .call = CAPO_CALL_ALLREDUCE, .bytes = 8},
                                       {.comm = 0, .call = CAPO_CALL_ALLREDUCE, .bytes = 8}};

        rows[0].time[CAPO_CLOCK_EVENT].count = rows[2].time[CAPO_CLOCK_EVENT].count = 1;
        rows[2].time[CAPO_CLOCK_EVENT].min_ns = 5;
        rows[2].time[CAPO_CLOCK_EVENT].max_ns = 30 * MS;
        job->rows = rows;
        job->n_rows = 3;
        for (uint32_t seq = 1; seq <= 12; seq++)
                call(seq, true, 0, 1000, 0);
        call(40, false, 0, 0, 700 * MS);
        call(41, false, 0, 0, 300 * MS);
        call(42, false, 0, 0, 20 * MS);
        capo_meet_gap(meet, 40, 700 * MS);
        capo_meet_gap(meet, 42, 20 * MS);
        solve();
        cr_expect(rows[0].inferred_calls == 0 && rows[1].inferred_calls == 0,
                  "another call; none of them timed");
        cr_expect_eq(rows[2].inferred_calls, RANKS,
                     "those behind no silence, and no longer than any timed, are like others");
        cr_expect_float_eq(rows[2].inferred_ns, 2 * 700e6 + 3 * 5, 1, "%g", rows[2].inferred_ns);
        job->rows = NULL;
        job->n_rows = 0;
}

Test(skew, the_furthest_behind_the_median_but_in_the_first_call)
{
        const struct capo_skew *k;

        call(1, false, 0, 0, 70000);
        call(2, false, 0, 400, 500);
        call(3, false, 0, 100, 700);
        k = solve();
        cr_assert(k->ranks[2].hole_ns == 600 && k->ranks[2].hole_seq == 3);
        cr_assert_eq(k->ranks[2].hole_call, CAPO_CALL_ALLREDUCE);
        cr_assert(k->ranks[1].hole_ns == 0 && k->ranks[1].hole_seq == 0);
}

/* A little further behind in the calls that follow it at once: it came late to the first of them. */
Test(skew, the_first_call_of_a_hole)
{
        const struct capo_skew *k;

        for (uint32_t i = 1; i <= 9; i++)
                call(i, false, 0, 0, i < 5 ? 100 : i == 5 ? 70000 : i == 8 ? 60000 : 71000);
        k = solve();
        cr_expect_eq(k->ranks[2].hole_seq, 5);
        cr_expect_eq(k->ranks[2].hole_ns, 70000);
}

/* As call(), timed on the GPU or not; the host's start says the same or nothing of it. */
static void both(uint32_t seq, bool gpu, bool host, uint64_t late)
{
        for (uint32_t rank = 0; rank < RANKS; rank++) {
                uint64_t by = rank == 2 ? late : 0;
                struct capo_record r = {.seq = seq,
                                        .call = CAPO_CALL_ALLREDUCE,
                                        .bytes = 8,
                                        .t_begin = 50ull * MS * seq + (host ? by : 0),
                                        .clock = gpu ? CAPO_CLOCK_EVENT : CAPO_CLOCK_HOST,
                                        .gpu_ns = gpu ? (uint32_t)(10 * MS - by) : 0};

                cr_assert_geq(capo_meet_add(meet, rank, &r), 0);
        }
}

/* A broadcast is no barrier: what the host saw of it says who came last, but its time on the GPU is
 * known and counts already. */
Test(skew, a_call_that_was_timed_is_not_inferred)
{
        struct capo_job_row row = {.comm = 0, .call = CAPO_CALL_BROADCAST, .bytes = 8};
        const struct capo_skew *k;

        row.time[CAPO_CLOCK_EVENT] = (struct capo_hist){.count = RANKS, .max_ns = MS};
        job->rows = &row;
        job->n_rows = 1;
        for (uint32_t seq = 1; seq <= 12; seq++)
                both(seq, true, true, 1000);
        both(40, true, true, 9 * MS);
        both(41, false, true, 7 * MS);
        for (uint32_t i = 12; i < meet->n_rows; i++) {
                meet->rows[i].call = CAPO_CALL_BROADCAST;
                capo_meet_gap(meet, meet->rows[i].seq, 900 * MS);
        }
        k = solve();
        job->rows = NULL;
        job->n_rows = 0;
        cr_assert(k->n_calls == 14 && k->n_host == 2,
                  "both are laid out by the host's start: %u %u", k->n_calls, k->n_host);
        cr_expect_eq(row.inferred_calls, RANKS, "only the second was not timed");
        cr_expect_float_eq(row.inferred_ns, 2 * 7e6, 1, "%g", row.inferred_ns);
}

Test(skew, calls_without_a_gpu_time_are_by_the_host_where_that_tells_the_same)
{
        const struct capo_skew *k;

        job->comms[0].n_calls = 20;
        for (uint32_t i = 1; i <= 20; i++)
                both(i, i <= 8, true, 1000);
        k = solve();
        cr_assert(k->from == CAPO_SKEW_GPU_DURATION && k->n_calls == 20 && k->n_host == 12);
        cr_assert_float_eq(k->ranks[2].caused_ns, 20 * 2000, 1e-3);
        cr_assert_geq(k->wait_share, 0);
}

Test(skew, where_it_does_not_only_what_it_cannot_be_wrong_about)
{
        const struct capo_skew *k;

        job->comms[0].n_calls = 20;
        for (uint32_t i = 1; i <= 8; i++)
                both(i, true, false, 1000);
        for (uint32_t i = 9; i <= 18; i++)
                both(i, false, true, 1000);
        both(19, false, true,
             10000); /* the host has erred by 667: further apart than ten times that */
        both(20, false, true, 6000);
        capo_meet_gap(meet, 19, MS);
        capo_meet_gap(meet, 20, MS);
        k = solve();
        cr_assert(k->n_calls == 9 && k->n_host == 1 && k->n_own == 1, "%u %u %u", k->n_calls,
                  k->n_host, k->n_own);
        cr_assert_float_eq(k->ranks[2].caused_ns, 19 * 2000 + 2 * 10000, 1e-3);
}

/* Rank 2 comes 1 ms late to each call, by its GPU and by its host or not; the host of another one
 * is late without holding anybody up. */
static const struct capo_skew *among_late_hosts(bool host)
{
        for (uint32_t seq = 1; seq <= 20; seq++) {
                const uint64_t hosts[RANKS] = {seq % 2 ? 7 * MS : 0, seq % 2 ? 0 : 7 * MS,
                                               host ? MS : 0};

                for (uint32_t rank = 0; rank < RANKS; rank++) {
                        struct capo_record r = {.seq = seq,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .bytes = 8,
                                                .t_begin = 50ull * MS * seq + hosts[rank],
                                                .clock = CAPO_CLOCK_EVENT,
                                                .gpu_ns = rank == 2 ? MS : 2 * MS};

                        cr_assert_geq(capo_meet_add(meet, rank, &r), 0);
                }
        }
        return solve();
}

Test(skew, late_on_the_host_is_a_matter_of_the_rank_that_is_late)
{
        const struct capo_skew *k = among_late_hosts(true);

        cr_assert(k->from == CAPO_SKEW_GPU_DURATION && k->worst == 2 && k->n_calls == 20);
        cr_assert(k->host_late, "its host says the same, whatever the hosts of others do");
}

Test(skew, late_on_the_gpu_only)
{
        const struct capo_skew *k = among_late_hosts(false);

        cr_assert(k->worst == 2 && !k->host_late);
}

/* Most of what it cost was one call that the host was late in; that the others are late on the GPU
 * only does not matter. */
Test(skew, late_on_the_host_goes_by_what_it_cost)
{
        for (uint32_t seq = 1; seq <= 20; seq++)
                both(seq, true, seq == 20, seq == 20 ? 9 * MS : 1000);
        cr_assert(solve()->host_late);
}

Test(skew, who_is_in_a_call_shortest_came_last)
{
        const struct capo_skew *k;

        for (uint32_t i = 1; i <= 20; i++)
                call(i, true, 0, 0, 50000);
        k = solve();
        cr_assert(k->from == CAPO_SKEW_GPU_DURATION && k->worst == 2 && k->ranks[2].last == 20);
        cr_assert_eq(k->p50_ns, 50000);
        /* two of three ranks wait 50 us in each of 100 calls, of 1 s */
        cr_assert_float_eq(k->wait_share, 2.0 / 3 * 50e-6 * 100, 1e-10);
}

Test(skew, a_few_gpu_times_are_not_enough)
{
        for (uint32_t i = 1; i <= 20; i++)
                call(i, i <= 3, 0, 0, 50000);
        cr_assert_eq(solve()->from, CAPO_SKEW_HOST_START);
        cr_assert_eq(job->comms[0].skew->n_calls, 20);
}

Test(skew, four_gpu_times_are)
{
        for (uint32_t i = 1; i <= 20; i++)
                call(i, i <= 4, 0, 0, 50000);
        cr_assert_eq(solve()->from, CAPO_SKEW_GPU_DURATION);
        cr_assert_eq(job->comms[0].skew->n_calls, 4);
}

Test(skew, calls_that_ranks_disagree_on_are_counted_and_not_compared)
{
        struct capo_record other = {.seq = 4, .call = CAPO_CALL_ALLREDUCE, .bytes = 16};
        const struct capo_skew *k;

        capo_meet_add(meet, 0, &other);
        call(9, false, 0, 0, 1);
        other.bytes = 8;
        capo_meet_add(meet, 1, &other);
        k = solve();
        cr_assert(k->n_calls == 1 && k->mismatched == 1 && k->mismatch_seq == 4);
}

Test(skew, a_call_that_a_rank_is_missing_in_says_nothing)
{
        struct capo_record r = {.seq = 1, .call = CAPO_CALL_ALLREDUCE, .bytes = 8};

        capo_meet_add(meet, 0, &r);
        capo_meet_add(meet, 2, &r);
        cr_assert_null(solve());
}

Test(skew, one_call_is_enough)
{
        const struct capo_skew *k;

        job->comms[0].n_calls = 1;
        call(1, false, 0, 300, 90000);
        k = solve();
        cr_assert(k->n_calls == 1 && k->worst == 2 && k->ranks[2].last == 1);
        cr_assert(k->p50_ns == 90000 && k->p95_ns == 90000 && k->max_ns == 90000);
        cr_assert(k->worst_p50_ns == 90000 && k->worst_max_ns == 90000 && k->others_p50_ns == 300);
        cr_assert(k->ranks[1].late_p50_ns == 300 && k->ranks[1].seen == 1 &&
                  k->ranks[1].wait_ns == 90000 - 300);
        cr_assert_eq(k->ranks[2].caused_ns, 90000 + 89700);
}

/* A log that says of itself what its communicator cannot have. */
Test(skew, a_rank_that_is_not_there_is_in_no_call)
{
        for (uint32_t i = 1; i <= 10; i++)
                call(i, false, 0, 0, 1000);
        job->comms[0].members[2].rank = RANKS;
        cr_assert_null(solve());
        job->comms[0].members[2].rank = -1;
        cr_assert_null(solve());
        job->comms[0].members[2].rank = RANKS - 1;
        cr_assert_not_null(solve());
}

/* Only the even sample says how calls are: where all are there for the silence before them there is
 * no median. */
Test(skew, calls_behind_silences_are_no_sample)
{
        const struct capo_skew *k;

        for (uint32_t rank = 0; rank < RANKS; rank++) {
                struct capo_record r = {.seq = 5,
                                        .call = CAPO_CALL_ALLREDUCE,
                                        .bytes = 8,
                                        .t_begin = 5 * MS + (rank == 1 ? 70000 : 0)};

                capo_meet_gap(meet, 5, 9 * MS);
                cr_assert_geq(capo_meet_add_long(meet, rank, &r), 0);
        }
        k = solve();
        cr_assert(k->n_calls == 1 && k->n_own == 1 && k->worst == 1);
        cr_assert(k->p50_ns == 0 && k->p95_ns == 0 && k->max_ns == 70000);
        cr_assert_eq(k->worst_p50_ns, 70000);
}

Test(skew, of_two_last_ranks_the_first_counts)
{
        const struct capo_skew *k;

        job->comms[0].n_calls = 10;
        call(1, false, 0, 90000, 90000);
        k = solve();
        cr_expect(k->ranks[1].last == 1 && k->ranks[2].last == 0);
        cr_expect_eq(k->ranks[1].caused_ns, 10 * 90000);
        cr_expect_geq(k->ranks[1].caused_pm_ns, 9 * 90000, "nine others: none, or twice that");
        cr_expect_geq(k->ranks[2].caused_pm_ns, 9 * 90000);
}

Test(skew, two_calls_of_many_tell_an_interval)
{
        const struct capo_skew *k;

        job->comms[0].n_calls = 10;
        call(1, false, 0, 90000, 0);
        call(2, false, 0, 10000, 0);
        k = solve();
        cr_expect_gt(k->ranks[1].caused_pm_ns, 0);
        cr_expect_gt(k->ranks[2].caused_pm_ns, 0);
}

/* 33 of 40 calls are timed: the first 32 for what they are. Eight stand for nothing that is known.
 */
Test(skew, where_no_call_was_drawn_the_rest_has_the_width_of_the_longest)
{
        const struct capo_skew *k;

        job->comms[0].n_calls = 40;
        for (uint32_t seq = 1; seq <= 32; seq++)
                call(seq, true, 0, 0, seq == 7 ? 5000 : 1000);
        for (uint32_t i = 0; i < meet->n_rows; i++)
                meet->rows[i].n_chosen = RANKS;
        k = solve();
        cr_expect_float_eq(k->ranks[2].caused_ns, 2 * (31 * 1000 + 5000), 1);
        cr_expect_float_eq(k->ranks[2].caused_pm_ns, 8 * 2 * 5000, 1);
        cr_expect_gt(k->ranks[1].caused_pm_ns, 0);
}

/* Late only in calls that were not timed, by the hosts' starts alone; these were off by a fifth
 * where both clocks tell. */
Test(skew, late_by_the_host_alone_is_not_exact)
{
        const struct capo_skew *k;

        job->comms[0].n_calls = 60;
        for (uint32_t seq = 1; seq <= 60; seq++) {
                for (uint32_t rank = 0; rank < RANKS; rank++) {
                        uint64_t late = rank == 1 && seq > 40 ? 20 * MS : rank == 0 ? 100000 : 0;
                        bool timed = seq <= 40 && seq % 2;
                        struct capo_record r = {.seq = seq,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .bytes = 8,
                                                .t_begin = 50ull * MS * seq + late,
                                                .clock = timed ? CAPO_CLOCK_EVENT : CAPO_CLOCK_HOST,
                                                .gpu_ns = timed ? MS - (uint32_t)late * 5 / 4 : 0};

                        cr_assert_geq(capo_meet_add(meet, rank, &r), 0);
                }
        }
        k = solve();
        cr_assert(k->n_calls == 60 && k->n_host == 40 && k->worst == 1);
        cr_expect_geq(k->ranks[1].caused_pm_ns, 0.19 * 20 * 40 * MS);
        cr_expect_leq(k->ranks[1].caused_pm_ns, 0.5 * 20 * 40 * MS);
}

/* Of 20 calls behind long silences those that were drawn stand for the others, too. */
Test(skew, a_drawn_call_behind_a_silence_is_one_of_the_sample)
{
        const struct capo_skew *k;

        job->comms[0].n_calls = 80;
        for (uint32_t i = 1; i <= 80; i++) {
                both(i, i % 4 == 0, false, i > 60 ? 4 * MS : 1000);
                if (i > 60)
                        capo_meet_gap(meet, i, 9 * MS);
        }
        k = solve();
        cr_assert_eq(k->n_own, 0);
        cr_expect_float_eq(k->ranks[2].caused_ns, 2 * (20 * 4.0 * MS + 60 * 1000), 1);
        cr_expect_gt(k->ranks[2].caused_pm_ns, 2 * 4 * MS);
}

Test(skew, from_when_on_a_rank_is_the_late_one)
{
        const struct capo_skew *k;

        job->processes[2].header.t0_real_ns = 7000000000;
        for (uint32_t seq = 1; seq <= 200; seq++) /* by turns, then nearly always the third */
                call(seq, false, seq % 3 == 0 || seq == 150 ? 2000 : 0, seq % 3 == 1 ? 2000 : 0,
                     seq > 101 && seq != 150 ? 90000
                     : seq % 3 == 2          ? 2000
                                             : 0);
        k = solve();
        cr_assert_eq(k->worst, 2);
        cr_assert(k->worst_from_seq >= 101 && k->worst_from_seq <= 104, "%u", k->worst_from_seq);
        cr_assert_eq((k->worst_from_ns - 7000000000) / (5ull * MS), k->worst_from_seq);
}

Test(skew, until_when_a_rank_is_the_late_one)
{
        const struct capo_skew *k;

        for (uint32_t seq = 1; seq <= 300; seq++)
                call(seq, false, seq % 3 == 0 ? 2000 : 0, seq % 3 == 1 ? 2000 : 0,
                     seq > 100 && seq <= 200 ? 90000
                     : seq % 3 == 2          ? 2000
                                             : 0);
        k = solve();
        cr_assert_eq(k->worst, 2);
        cr_assert(k->worst_from_seq >= 99 && k->worst_from_seq <= 101, "%u", k->worst_from_seq);
        cr_assert(k->worst_to_seq >= 200 && k->worst_to_seq <= 203, "%u", k->worst_to_seq);
        cr_assert_eq((k->worst_to_ns - k->worst_from_ns) / (5ull * MS),
                     k->worst_to_seq - k->worst_from_seq);
}

Test(skew, only_at_first_a_rank_is_the_late_one)
{
        const struct capo_skew *k;

        for (uint32_t seq = 1; seq <= 200; seq++)
                call(seq, false, seq % 3 == 0 ? 2000 : 0, seq % 3 == 1 ? 2000 : 0,
                     seq <= 100     ? 90000
                     : seq % 3 == 2 ? 2000
                                    : 0);
        k = solve();
        cr_assert(k->worst == 2 && !k->worst_from_seq && !k->worst_from_ns);
        cr_assert(k->worst_to_seq >= 100 && k->worst_to_seq <= 102, "%u", k->worst_to_seq);
}

/* It compiles in its first four steps; then all are late alike. */
Test(skew, most_of_it_was_in_the_first_calls)
{
        const struct capo_skew *k;

        for (uint32_t seq = 1; seq <= 200; seq++)
                call(seq, false, seq % 3 == 0 ? 2000 : 0, seq % 3 == 1 ? 2000 : 0,
                     seq <= 4       ? 250000
                     : seq % 3 == 2 ? 2000
                                    : 0);
        k = solve();
        cr_assert(k->worst == 2 && k->worst_over);
        cr_assert(k->few == 4 && k->few_from_seq == 1 && k->few_to_seq == 4, "%u: %u-%u", k->few,
                  k->few_from_seq, k->few_to_seq);
}

/* It writes a checkpoint each 50 calls. */
Test(skew, most_of_it_is_in_few_calls_until_the_end)
{
        const struct capo_skew *k;

        for (uint32_t seq = 1; seq <= 200; seq++)
                call(seq, false, seq % 3 == 0 ? 2000 : 0, seq % 3 == 1 ? 2000 : 0,
                     seq % 50 == 49 ? 900000
                     : seq % 3 == 2 ? 2000
                                    : 0);
        k = solve();
        cr_assert(k->worst == 2 && !k->worst_over);
        cr_assert(k->few == 4 && k->few_from_seq == 49 && k->few_to_seq == 199, "%u", k->few);
}

Test(skew, a_rank_that_is_always_late_is_not_late_in_few_calls)
{
        const struct capo_skew *k;

        for (uint32_t seq = 1; seq <= 200; seq++)
                call(seq, false, 0, 2000, 90000);
        k = solve();
        cr_assert(k->worst == 2 && !k->few && !k->worst_over);
}

/* The one that is late is the second with a log, and the third rank. */
Test(skew, from_when_on_where_a_rank_left_no_log)
{
        const struct capo_skew *k;

        job->comms[0].members[0] = job->comms[0].members[1];
        job->comms[0].members[1] = job->comms[0].members[2];
        job->comms[0].n_members = 2;
        for (uint32_t seq = 1; seq <= 200; seq++)
                call(seq, false, 0, seq <= 100 && seq % 2 ? 2000 : 0,
                     seq > 100      ? 90000
                     : seq % 2 == 0 ? 2000
                                    : 0);
        k = solve();
        cr_assert(k->worst == 1 && k->worst_from_seq >= 100);
        cr_assert_eq(k->worst_from_ns,
                     1 + 5ull * MS * k->worst_from_seq + (k->worst_from_seq > 100 ? 90000 : 2000),
                     "%llu", (unsigned long long)k->worst_from_ns);
}

/* Ranks' logs need not name their calls in order: the turn is by number. */
Test(skew, the_turn_is_by_number_and_not_by_place)
{
        for (uint32_t i = 0; i < 200; i++) {
                uint32_t seq = 1 + i * 77 % 200;

                call(seq, false, seq <= 101 && seq % 3 == 0 ? 2000 : 0,
                     seq <= 101 && seq % 3 == 1 ? 2000 : 0,
                     seq > 101      ? 90000
                     : seq % 3 == 2 ? 2000
                                    : 0);
        }
        cr_assert_eq(solve()->worst, 2);
        cr_assert_eq(solve()->worst_from_seq, 101, "%u", solve()->worst_from_seq);
}

Test(skew, who_is_late_all_the_time_is_it_from_the_beginning)
{
        for (uint32_t seq = 1; seq <= 200; seq++)
                call(seq, false, 0, seq % 5 ? 0 : 3000, seq % 5 ? 90000 : 0);
        cr_assert_eq(solve()->worst, 2);
        cr_assert_eq(solve()->worst_from_seq, 0);
}

Test(skew, who_is_late_more_often_since_was_late_before)
{
        for (uint32_t seq = 1; seq <= 200; seq++)
                call(seq, false, 0, 0, seq % 2 || seq > 100 ? 90000 : 0);
        cr_assert_eq(solve()->worst, 2);
        cr_assert_eq(solve()->worst_from_seq, 0);
}

Test(skew, a_hole_before_the_second_call)
{
        for (uint32_t i = 1; i <= 10; i++)
                call(i, false, 0, i == 2 ? 50000 : 0, i == 1 ? 90000 : 0);
        cr_expect_eq(solve()->ranks[1].hole_seq, 2);
        cr_expect_eq(solve()->ranks[2].hole_ns, 0, "how jobs begin");
}

/* What kernels say of their waiting goes before how long they took, and of calls that are no
 * barrier too. */
Test(skew, by_what_kernels_waited)
{
        const struct capo_skew *k;

        for (uint32_t seq = 1; seq <= 20; seq++) {
                for (uint32_t rank = 0; rank < RANKS; rank++) {
                        struct capo_record r = {
                                .seq = seq,
                                .call = seq % 2 ? CAPO_CALL_BROADCAST : CAPO_CALL_ALLREDUCE,
                                .bytes = 8,
                                .t_begin = 5ull * MS * seq,
                                .clock = CAPO_CLOCK_KERNEL,
                                .gpu_ns = MS - rank * 1000, /* the third is shortest in it */
                                .group = 1 + (rank == 1 ? 0 : 70000)};

                        cr_assert_geq(capo_meet_add(meet, rank, &r), 0);
                }
        }
        k = solve();
        cr_assert(k->from == CAPO_SKEW_GPU_DURATION && k->n_kernel == 20 && k->n_calls == 20 &&
                  k->n_host == 0);
        cr_expect(k->worst == 1 && k->ranks[1].last == 20);
        cr_expect_float_eq(k->p50_ns, 70000, 1);
}

/* Where one rank does not tell, the call's durations count, as before. */
Test(skew, kernels_of_which_one_does_not_tell)
{
        const struct capo_skew *k;

        for (uint32_t seq = 1; seq <= 20; seq++) {
                for (uint32_t rank = 0; rank < RANKS; rank++) {
                        struct capo_record r = {.seq = seq,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .bytes = 8,
                                                .t_begin = 5ull * MS * seq,
                                                .clock = CAPO_CLOCK_KERNEL,
                                                .gpu_ns = MS - rank * 1000,
                                                .group = rank == 0 ? 0
                                                                   : 1 + (rank == 1 ? 0 : 70000)};

                        cr_assert_geq(capo_meet_add(meet, rank, &r), 0);
                }
        }
        k = solve();
        cr_expect(k->n_kernel == 0 && k->worst == 2 && k->from == CAPO_SKEW_GPU_DURATION);
}

/* Call @seq with what the host and the GPU of each rank did in it, in ms. */
struct times {
        double host, begin, ns;
};

static void timed_call(uint32_t seq, const struct times t[RANKS])
{
        for (uint32_t rank = 0; rank < RANKS; rank++) {
                uint64_t base = 100ull * MS * seq;
                struct capo_record r = {.seq = seq,
                                        .call = CAPO_CALL_ALLREDUCE,
                                        .bytes = 8,
                                        .t_begin = base + (uint64_t)(t[rank].host * MS),
                                        .clock = CAPO_CLOCK_EVENT,
                                        .gpu_ns = (uint32_t)(t[rank].ns * MS)};

                r.group = 1 + (uint32_t)((t[rank].begin - t[rank].host) * MS / 100);
                capo_meet_follow(meet, rank, seq, r.t_begin, 0);
                cr_assert_geq(capo_meet_add(meet, rank, &r), 0);
        }
}

/* The times of a group are those of each member, but the others waited once. */
Test(skew, a_group_is_waited_for_once)
{
        double caused[2];

        for (uint32_t members = 1; members <= 2; members++) {
                job->comms[0].n_calls = 40;
                for (uint32_t rank = 0; rank < RANKS; rank++) {
                        for (uint32_t seq = 1; seq <= 40; seq++) {
                                struct capo_record group = {.clock = CAPO_CLOCK_EVENT,
                                                            .gpu_ns = MS * (9 - 2 * rank)};
                                struct capo_record r = {.seq = seq,
                                                        .call = CAPO_CALL_ALLREDUCE,
                                                        .bytes = 8,
                                                        .t_begin = 50ull * MS * seq,
                                                        .flags = CAPO_RECORD_MEMBER,
                                                        .group = 1 + (seq - 1) / members};

                                capo_meet_follow(meet, rank, seq, r.t_begin, capo_meet_group(&r));
                                capo_meet_set_gpu(meet, capo_meet_add(meet, rank, &r), seq, &group);
                        }
                }
                caused[members - 1] = solve()->ranks[2].caused_ns;
                end();
                begin();
        }
        cr_expect_float_eq(caused[0], 40 * 6 * MS, MS, "%g", caused[0]);
        cr_expect_float_eq(caused[1], 20 * 6 * MS, MS, "%g", caused[1]);
}

/* The root of a tree ends first: its call is shortest, and it did not come last. */
Test(skew, who_ends_first_did_not_come_last)
{
        const struct times first = {0, 0.01, 2}, rest = {3, 3.01, 5};
        const struct capo_skew *k;

        job->comms[0].n_calls = 20;
        for (uint32_t i = 1; i <= 20; i++)
                timed_call(i, (struct times[]){first, rest, rest});
        cr_assert(capo_comm_has_one_clock(job, &job->comms[0]));
        k = solve();
        /* no call is behind the last one, so only its durations are known */
        cr_expect_lt(k->ranks[0].caused_ns, 6.1 * MS, "%g", k->ranks[0].caused_ns);
}

Test(skew, both_clocks_name_the_rank_that_came_last)
{
        const struct times late = {4, 4.01, 1}, rest = {0, 0.01, 5.5};
        const struct capo_skew *k;

        job->comms[0].n_calls = 20;
        for (uint32_t i = 1; i <= 20; i++)
                timed_call(i, (struct times[]){rest, late, rest});
        k = solve();
        cr_expect_eq(k->worst, 1);
        cr_expect_float_eq(k->ranks[1].caused_ns, 20 * 2 * 4.0 * MS, 1 * MS, "%g",
                           k->ranks[1].caused_ns);
}

/* Its stream was never idle, so its begin is taken to be too early. But the hosts wait for the call
 * and go on together: the call ended on all at once. */
Test(skew, a_gpu_that_is_late_behind_a_host_in_time)
{
        const struct times late = {0, 0.01, 1}, rest = {0, 0.01, 5};
        const struct capo_skew *k;

        job->comms[0].n_calls = 20;
        for (uint32_t i = 1; i <= 20; i++)
                timed_call(i, (struct times[]){rest, rest, late});
        k = solve();
        cr_expect_eq(k->worst, 2);
        cr_expect_float_eq(k->ranks[2].caused_ns, 20 * 2 * 4.0 * MS, 1 * MS, "%g",
                           k->ranks[2].caused_ns);
}

/* Rank 1 is late in the pair 0,1 by 40 ms; then both are in the communicator of all. */
Test(skew, a_delay_is_followed_to_where_it_began)
{
        struct capo_meet *both[2] = {meet, capo_meet_new(2)};
        struct capo_job_comm *pair;

        job->comms = realloc(job->comms, 2 * sizeof *job->comms);
        pair = &job->comms[1];
        *pair = (struct capo_job_comm){.n_ranks = 2, .n_members = 2, .n_calls = 40};
        pair->members = calloc(2, sizeof *pair->members);
        for (uint32_t i = 0; i < 2; i++)
                pair->members[i] = (struct capo_job_member){.rank = (int32_t)i, .process = i};
        job->n_comms = 2;
        job->comms[0].n_calls = 40;
        for (uint32_t i = 1; i <= 40; i++) {
                for (uint32_t rank = 0; rank < 2; rank++) {
                        struct capo_record r = {.seq = i,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .bytes = 8,
                                                .t_begin = 100ull * MS * i + (rank ? 40 * MS : 0),
                                                .clock = CAPO_CLOCK_HOST};

                        cr_assert_geq(capo_meet_add(both[1], rank, &r), 0);
                }
                for (uint32_t rank = 0; rank < RANKS; rank++) {
                        struct capo_record r = {.seq = i,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .bytes = 8,
                                                .t_begin = 100ull * MS * i + (rank == 0   ? 42 * MS
                                                                              : rank == 1 ? 41 * MS
                                                                                          : 0),
                                                .clock = CAPO_CLOCK_HOST};

                        cr_assert_geq(capo_meet_add(both[0], rank, &r), 0);
                }
        }
        capo_skew_solve(job, both);
        cr_expect_eq(job->comms[0].skew->worst, 1, "not rank 0, which is later by 1 ms");
        cr_expect_eq(job->comms[1].skew->worst, 1);
        capo_meet_free(both[1]);
}

/* Rank 1 comes 40 ms late, and its receives took as long: the delay began with who sent. */
Test(skew, a_delay_that_came_with_a_message)
{
        const struct capo_skew *k;

        job->comms[0].n_calls = 40;
        for (uint32_t i = 1; i <= 40; i++)
                call(i, false, 0, 40 * MS, 0);
        job->processes[1].messages.calls = 40;
        job->processes[1].messages.timed = 5;
        job->processes[1].messages.ns = 5 * 41 * MS;
        k = solve();
        cr_expect(k->worst == 1 && k->by_message && !k->origin);
        job->processes[0].messages = job->processes[2].messages = job->processes[1].messages;
        k = solve(); /* all have such messages */
        cr_expect(k->worst == 1 && !k->by_message);
}

/* Rank 1 is 5 ms late in each call. In another communicator each rank in turn is 30 ms late: rank 1
 * waits longer there than the others wait for it here. */
Test(skew, a_delay_of_a_rank_that_waits_longer_elsewhere)
{
        struct capo_meet *both[2] = {meet, capo_meet_new(RANKS)};

        job->comms[0].n_calls = 30;
        for (uint32_t i = 1; i <= 30; i++)
                call(i, false, 0, 5 * MS, 0);
        cr_expect_not(solve()->waits_more);
        job->comms = realloc(job->comms, 2 * sizeof *job->comms);
        job->comms[1] = (struct capo_job_comm){.n_ranks = RANKS, .n_members = RANKS, .n_calls = 30};
        job->comms[1].members = calloc(RANKS, sizeof *job->comms[1].members);
        job->n_comms = 2;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
                job->comms[1].members[rank] =
                        (struct capo_job_member){.rank = (int32_t)rank, .process = rank};
                for (uint32_t i = 1; i <= 30; i++) {
                        struct capo_record r = {.seq = i,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .bytes = 8,
                                                .t_begin = 100ull * MS * i +
                                                           (i % RANKS == rank ? 30 * MS : 0),
                                                .clock = CAPO_CLOCK_HOST};

                        cr_assert_geq(capo_meet_add(both[1], rank, &r), 0);
                }
        }
        capo_skew_free(job->comms[0].skew);
        capo_skew_solve(job, both);
        cr_expect(job->comms[0].skew->worst == 1 && job->comms[0].skew->waits_more);
        capo_meet_free(both[1]);
}
