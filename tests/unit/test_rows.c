/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows a page has, what is put together, in which order, and the numbers in them. */
#include <math.h>

#include "analysis/report/job_judge.h"
#include "tests/unit/made_job.h"
#include "tests/log_numbers.h"

static struct capo_page page;

static void begin(void) { page = (struct capo_page){.job = made_job(2)}; }

static void end(void) { capo_page_finish(&page); }

TestSuite(rows, .init = begin, .fini = end);

static void judge(void) { capo_judge_rows(&page); }

/* One more communicator of @n ranks whose first member had @id in its process. */
static void comm(const char *name, int32_t n, uint16_t id, bool named)
{
        struct capo_job_comm *c = &page.job->comms[page.job->n_comms++];

        *c = (struct capo_job_comm){.name = strdup(name),
                                    .named = named,
                                    .n_ranks = n,
                                    .n_members = 1,
                                    .parent = CAPO_NO_COMM};
        c->members = calloc(1, sizeof *c->members);
        c->members[0].id = id;
}

Test(rows, shares_are_of_gpu_time)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1024, 10, CAPO_CLOCK_EVENT, 1000);
        made_row(page.job, CAPO_CALL_ALLREDUCE, 2048, 10, CAPO_CLOCK_KERNEL, 3000);
        made_row(page.job, CAPO_CALL_ALLREDUCE, 4096, 10, CAPO_CLOCK_HOST, 0);
        made_row(page.job, CAPO_CALL_COMMINIT, 0, 1, CAPO_CLOCK_HOST, 0);
        judge();
        cr_assert(page.gpu && page.rows.n == 3 && page.others.n == 1);
        cr_assert(page.rows.row[0].row.bytes == 2048 && page.rows.row[1].row.bytes == 1024 &&
                  page.rows.row[2].row.bytes == 4096);
        cr_assert_float_eq(page.rows.row[0].share, 0.75, 1e-9);
        cr_assert_float_eq(page.rows.row[1].share, 0.25, 1e-9);
        cr_assert_lt(page.rows.row[2].share, 0, "the time of a return is not comparable");
        cr_assert(page.rows.row[0].clock == CAPO_CLOCK_KERNEL &&
                  page.rows.row[2].clock == CAPO_CLOCK_HOST);
        cr_assert_float_eq(page.gpu_share, (20 * 1000 + 20 * 3000) / 2e9, 1e-12);
        cr_assert_eq(page.gpu_range.high - page.gpu_range.low, 0, "all of them were timed");
        cr_assert(page.collectives == 30 && page.moved_bytes == 10 * (1024 + 2048 + 4096));
        cr_assert_eq(page.others.row[0].row.call, CAPO_CALL_COMMINIT);
}

/* Of what was sampled the interval is said: 10 calls of 40 drawn, of 1 us and 3 us: the two ranks
 * time the same ones. */
Test(rows, a_sampled_share_has_an_interval)
{
        struct capo_job_row *row =
                made_row(page.job, CAPO_CALL_ALLREDUCE, 1024, 40, CAPO_CLOCK_HOST, 0);

        capo_hist_add(&row->time[CAPO_CLOCK_EVENT], 1000, 10);
        capo_hist_add(&row->time[CAPO_CLOCK_EVENT], 3000, 10);
        judge();
        cr_assert_float_eq(page.gpu_share, 80 * 2000 / 2e9, 1e-12);
        /* t of 9 degrees is 2.262; a standard deviation of half the mean; three quarters were not
         * drawn */
        cr_assert_float_eq(page.gpu_range.high - page.gpu_share,
                           page.gpu_share * 0.5 * 2.262 * sqrt(0.75 / 10), page.gpu_share * 0.03);
}

/* The interval of 80 calls that are all alike, of which @timed were timed and @inferred_ns is known
 * of two others. */
static double pm_beside_silences(uint64_t timed, double inferred_ns)
{
        struct capo_job_row *row;
        double pm;

        begin();
        row = made_row(page.job, CAPO_CALL_ALLREDUCE, 1024, 40, CAPO_CLOCK_HOST, 0);
        row->inferred_calls = inferred_ns > 0 ? 2 : 0;
        row->inferred_ns = inferred_ns;
        capo_hist_add(&row->time[CAPO_CLOCK_EVENT], 1000, timed);
        for (uint32_t i = 0; i < page.job->n_processes; i++) {
                for (uint64_t ms = 1; ms <= 9; ms++)
                        capo_silences_add(&page.job->processes[i].silent, 0, ms * 1000000);
        }
        judge();
        pm = page.gpu_range.high - page.gpu_share;
        end();
        return pm;
}

Test(rows_silences, may_be_stalls_that_no_draw_met)
{
        /* of 30 calls of each of two ranks 1 - 0.05^(1/10): 7.766, of 2 s */
        const double most = 2 * (9 + 8 + 7 + 6 + 5 + 4 + 3 + 0.766 * 2) * 1e6;

        cr_expect_float_eq(pm_beside_silences(20, 0), most / 2e9, 1e-6);
        cr_expect_float_eq(pm_beside_silences(20, 50e6), (most - 50e6) / 2e9, 1e-6);
        cr_expect_eq(pm_beside_silences(20, 5e9), 0, "what others waited for a rank is known");
        cr_expect_eq(pm_beside_silences(80, 0), 0, "all calls were timed");
}

Test(rows, without_gpu_times_of_host_time)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1024, 10, CAPO_CLOCK_HOST, 0);
        made_row(page.job, CAPO_CALL_ALLREDUCE, 2048, 30, CAPO_CLOCK_HOST, 0);
        judge();
        cr_assert(!page.gpu && page.gpu_share < 0);
        cr_assert_float_eq(page.rows.row[0].share, 0.75, 1e-9);
        cr_assert_eq(page.rows.row[0].row.bytes, 2048);
}

Test(rows, groups_are_not_counted_as_calls)
{
        made_row(page.job, CAPO_CALL_GROUP, 1024, 10, CAPO_CLOCK_EVENT, 1000)->flags =
                CAPO_RECORD_GROUP;
        judge();
        cr_assert(page.rows.n == 1 && page.collectives == 0 && page.moved_bytes == 0);
}

/* What its calls moved in its time is known, not what bus bandwidth that is. */
Test(rows, groups_have_the_bandwidth_of_all_their_calls)
{
        const struct capo_page_row *row;

        made_row(page.job, CAPO_CALL_GROUP, 4096, 10, CAPO_CLOCK_EVENT, 1000)->flags =
                CAPO_RECORD_GROUP;
        made_row(page.job, CAPO_CALL_GROUP, 8192, 10, CAPO_CLOCK_HOST, 0)->flags =
                CAPO_RECORD_GROUP;
        made_row(page.job, CAPO_CALL_GROUP, 0, 10, CAPO_CLOCK_EVENT, 5)->flags = CAPO_RECORD_GROUP;
        judge();
        cr_assert_eq(page.rows.n, 3);
        for (uint32_t i = 0; i < 3; i++) {
                row = &page.rows.row[i];
                cr_expect_not(row->has_bandwidth);
                cr_expect_eq(row->has_algbw, row->row.bytes == 4096);
                if (row->has_algbw)
                        cr_expect_float_eq(row->algbw, 4.096, 1e-9);
        }
}

/* Told as the one operation they are; a group that does not say what it is of has its members
 * beside it. */
Test(rows, members_of_groups)
{
        struct capo_job_row *group =
                made_row(page.job, CAPO_CALL_GROUP, 2048, 10, CAPO_CLOCK_EVENT, 1000);

        group->flags = CAPO_RECORD_GROUP;
        group->channels = CAPO_CALL_ALLREDUCE;
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1024, 20, CAPO_CLOCK_NONE, 0)->flags =
                CAPO_RECORD_MEMBER;
        judge();
        cr_assert(page.rows.n == 1 && page.rows.row[0].row.call == CAPO_CALL_GROUP);
        cr_assert(page.collectives == 20 && page.moved_bytes == 20 * 1024);
        end();
        begin();
        made_row(page.job, CAPO_CALL_GROUP, 2048, 10, CAPO_CLOCK_EVENT, 1000)->flags =
                CAPO_RECORD_GROUP;
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1024, 20, CAPO_CLOCK_NONE, 0)->flags =
                CAPO_RECORD_MEMBER;
        judge();
        cr_assert_eq(page.rows.n, 2);
}

/* Sizes @from to @from + @n - 1. */
static void sizes(uint64_t from, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                made_row(page.job, CAPO_CALL_ALLREDUCE, from + i, 1, CAPO_CLOCK_EVENT, 1000);
}

Test(rows, sixteen_sizes_are_shown)
{
        sizes(1000, 16);
        judge();
        cr_assert_eq(page.rows.n, 16);
}

Test(rows, seventeen_are_put_together_by_powers_of_two)
{
        sizes(1020, 17);
        judge();
        cr_assert_eq(page.rows.n, 2);
        cr_assert(page.rows.row[0].row.bytes == 1024 && page.rows.row[0].bytes_max == 1036 &&
                  page.rows.row[0].row.count == 13);
        cr_assert(page.rows.row[1].row.bytes == 1020 && page.rows.row[1].bytes_max == 1023 &&
                  page.rows.row[1].row.count == 4);
        /* of sizes put together: all bytes over all time */
        cr_assert_float_eq(page.rows.row[1].algbw, (1020 + 1021 + 1022 + 1023) / 4.0 / 1000, 1e-9);
        cr_assert_float_eq(page.rows.row[1].busbw, page.rows.row[1].algbw, 1e-9,
                           "2 (n-1)/n is 1 for two ranks");
}

/* By the kernels' own times, of which none are drawn, as by events. */
Test(rows, sizes_put_together_by_kernel_times)
{
        for (unsigned i = 0; i < 17; i++)
                made_row(page.job, CAPO_CALL_ALLREDUCE, 1024 + i, 1, CAPO_CLOCK_KERNEL,
                         1000 + 100 * i);
        judge();
        cr_assert_eq(page.rows.n, 1);
        cr_assert_float_eq(page.rows.row[0].algbw, (1024 + 8) / (1000 + 100 * 8.0), 1e-9);
}

Test(rows, exact_is_exact_and_judged_the_same)
{
        sizes(1020, 17);
        page.exact = true;
        judge();
        cr_assert_eq(page.rows.n, 17);
        cr_assert_eq(page.judged.n, 2);
        cr_assert_eq(page.collectives, 17);
}

Test(rows, what_ran_differently_stays_apart)
{
        sizes(1024, 17);
        page.job->rows[3].algo_proto = 0x21;
        page.job->rows[4].channels = 2;
        page.job->rows[5].flags = CAPO_RECORD_CAPTURED;
        judge();
        cr_assert_eq(page.rows.n, 4);
}

Test(rows, more_than_eight_communicators_are_shown_by_kind)
{
        for (unsigned i = 0; i < 4; i++) {
                comm(i ? "tp#" : "tp", 8, 0, true);
                comm("x", 4, (uint16_t)(i < 3), false);
        }
        for (uint32_t i = 1; i <= 8; i++) {
                made_row(page.job, CAPO_CALL_ALLREDUCE, 64, 5, CAPO_CLOCK_EVENT, 1000)->comm = i;
        }
        judge();
        cr_assert_eq(page.job->n_comms, 9);
        cr_assert(page.class_of[1] == 1 && page.class_of[3] == 1 && page.class_of[7] == 1 &&
                  page.class_size[1] == 4);
        cr_assert(page.class_of[4] == 2 && page.class_of[6] == 2 && page.class_of[8] == 8 &&
                  page.class_size[2] == 3);
        cr_assert_eq(page.rows.n, 3);
        cr_assert_eq(page.rows.row[0].row.count, 20);
        cr_assert_eq(page.rows.row[0].row.comm, 1);
}

Test(rows, eight_communicators_are_shown_each)
{
        for (unsigned i = 0; i < 7; i++)
                comm("tp", 8, 0, true);
        judge();
        cr_assert(page.job->n_comms == 8 && page.class_of[7] == 7 && page.class_size[1] == 1);
}

Test(rows, only_what_is_asked_for)
{
        comm("tp", 2, 0, true);
        made_row(page.job, CAPO_CALL_ALLREDUCE, 64, 5, CAPO_CLOCK_EVENT, 1000);
        made_row(page.job, CAPO_CALL_ALLREDUCE, 64, 5, CAPO_CLOCK_EVENT, 1000)->comm = 1;
        made_row(page.job, CAPO_CALL_BROADCAST, 64, 5, CAPO_CLOCK_EVENT, 1000)->comm = 1;
        made_row(page.job, CAPO_CALL_BROADCAST, 64, 5, CAPO_CLOCK_EVENT, 1000)->comm = CAPO_NO_COMM;
        page.only_comm = "t*";
        page.only_call = CAPO_CALL_BROADCAST;
        judge();
        cr_assert(page.rows.n == 1 && page.rows.row[0].row.comm == 1 &&
                  page.rows.row[0].row.call == CAPO_CALL_BROADCAST);
        cr_assert_eq(page.collectives, 5);
}

Test(rows, those_that_cost_most_come_first)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 2048, 11, CAPO_CLOCK_EVENT, 1000);
        made_row(page.job, CAPO_CALL_ALLREDUCE, 4096, 10, CAPO_CLOCK_EVENT, 9000);
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1024, 9, CAPO_CLOCK_EVENT, 2000);
        judge();
        cr_assert(page.rows.row[0].row.bytes == 4096 && page.rows.row[1].row.bytes == 1024);
        cr_assert_eq(page.judged.row[0].row.bytes, 4096);
}

/* Rows that are alike in what is asked for: by communicator, call, size, and what ran, from the
 * smallest. */
Test(rows, what_is_equal_has_an_order_too)
{
        static const struct {
                uint32_t comm;
                uint8_t call;
                uint64_t bytes;
                uint8_t algo_proto, channels, flags;
        } order[] = {
                {0, CAPO_CALL_ALLREDUCE, 64, 0x11, 2, 0},
                {0, CAPO_CALL_ALLREDUCE, 64, 0x11, 2, CAPO_RECORD_CAPTURED},
                {0, CAPO_CALL_ALLREDUCE, 64, 0x11, 4, 0},
                {0, CAPO_CALL_ALLREDUCE, 64, 0x21, 1, 0},
                {0, CAPO_CALL_REDUCE, 64, 0x11, 2, 0},
                {0, CAPO_CALL_REDUCE, 128, 0x11, 2, 0},
                {1, CAPO_CALL_ALLREDUCE, 32, 0x11, 2, 0},
                {1, CAPO_CALL_REDUCE, 64, 0x11, 2, 0},
        };
        enum { N = sizeof order / sizeof *order };

        comm("tp", 2, 0, true);
        for (unsigned step = 1; step <= 7; step += 2) { /* 8 rows in four other orders */
                struct capo_page again = {.job = page.job};

                page.job->n_rows = 0;
                for (unsigned i = 0; i < N; i++) {
                        unsigned k = (N - 1 - i) * step % N;
                        struct capo_job_row *r = made_row(page.job, order[k].call, order[k].bytes,
                                                          5, CAPO_CLOCK_EVENT, 1000);

                        r->comm = order[k].comm;
                        r->algo_proto = order[k].algo_proto;
                        r->channels = order[k].channels;
                        r->flags = order[k].flags;
                }
                capo_judge_rows(&again);
                cr_assert_eq(again.rows.n, N);
                for (unsigned i = 0; i < N; i++) {
                        const struct capo_job_row *r = &again.rows.row[i].row;

                        cr_expect(r->comm == order[i].comm && r->call == order[i].call &&
                                          r->bytes == order[i].bytes &&
                                          r->algo_proto == order[i].algo_proto &&
                                          r->channels == order[i].channels &&
                                          r->flags == order[i].flags,
                                  "place %u, step %u", i, step);
                }
                again.job = NULL;
                capo_page_finish(&again);
        }
}

Test(rows, ceilings)
{
        page.ceiling = calloc(1, sizeof *page.ceiling);
        page.ceiling[0].busbw_gbs[CAPO_CALL_ALLREDUCE] = 4;
        made_row(page.job, CAPO_CALL_ALLREDUCE, 2000, 10, CAPO_CLOCK_EVENT, 1000);
        made_row(page.job, CAPO_CALL_BROADCAST, 2000, 10, CAPO_CLOCK_EVENT, 1000);
        made_row(page.job, CAPO_CALL_ALLREDUCE, 3000, 10, CAPO_CLOCK_HOST, 0);
        judge();
        for (uint32_t i = 0; i < 3; i++) {
                const struct capo_page_row *row = &page.rows.row[i];

                cr_assert_eq(row->ceiling, row->row.call == CAPO_CALL_ALLREDUCE ? 4 : 0);
                if (row->row.call == CAPO_CALL_ALLREDUCE && row->row.bytes == 2000)
                        cr_assert_float_eq(row->reached, 0.5, 0.04);
                else
                        cr_assert_lt(row->reached, 0);
        }
}

/* Of nine communicators two are made as given: are they shown as one? */
static bool alike(struct capo_job_comm a, struct capo_job_comm b)
{
        bool one;

        begin();
        for (unsigned i = 0; i < 6; i++) {
                char name[8];

                snprintf(name, sizeof name, "other%u", i);
                comm(name, 3, 0, true);
        }
        comm(a.name, a.n_ranks, a.color < 0 ? 0 : (uint16_t)a.color, a.named);
        page.job->comms[7].n_members = a.n_members;
        comm(b.name, b.n_ranks, b.color < 0 ? 0 : (uint16_t)b.color, b.named);
        page.job->comms[8].n_members = b.n_members;
        judge();
        one = page.class_of[8] == 7;
        end();
        return one;
}

#define COMM(name_, n, id, is_named, members)                                        \
        (struct capo_job_comm)                                                       \
        {                                                                            \
                .name = (char *)name_, .n_ranks = n, .color = id, .named = is_named, \
                .n_members = members                                                 \
        }

Test(rows, communicators_that_do_the_same)
{
        cr_expect(alike(COMM("tp#1", 4, 1, true, 1), COMM("tp#2", 4, 2, true, 1)), "one name");
        cr_expect_not(alike(COMM("tp#1", 4, 1, true, 1), COMM("dp#1", 4, 1, true, 1)));
        cr_expect_not(alike(COMM("tp#1", 4, 1, true, 1), COMM("tpx#1", 4, 1, true, 1)));
        cr_expect_not(alike(COMM("tp#1", 4, 1, true, 1), COMM("tp#2", 8, 1, true, 1)),
                      "of another size");
        cr_expect_not(alike(COMM("tp", 4, 1, true, 1), COMM("tp", 4, 1, false, 1)),
                      "one was given its name");
        cr_expect_not(alike(COMM("tp", 4, 1, false, 1), COMM("tp", 4, 1, true, 1)));
        cr_expect(alike(COMM("x", 4, 1, false, 1), COMM("y", 4, 1, false, 1)), "each rank's first");
        cr_expect_not(alike(COMM("x", 4, 1, false, 1), COMM("y", 4, 2, false, 1)));
        cr_expect_not(alike(COMM("tp", 4, 1, true, 1), COMM("tp", 4, 1, true, 0)),
                      "nothing is known of it");
        cr_expect_not(alike(COMM("tp", 4, 1, true, 0), COMM("tp", 4, 1, true, 1)));
        begin();
}

/* Sizes are put together with what is near them, however many rows there are by then. */
Test(rows, many_rows)
{
        struct capo_job_row *rows = calloc(1000, sizeof *rows);
        uint32_t n = 0;

        for (unsigned power = 10; power < 20; power++) {
                for (unsigned size = 0; size < 2; size++) {
                        for (uint8_t channels = 1; channels <= 40; channels++)
                                rows[n++] = (struct capo_job_row){.call = CAPO_CALL_ALLREDUCE,
                                                                  .bytes = (1u << power) + size,
                                                                  .channels = channels,
                                                                  .count = 1,
                                                                  .calls = 2};
                }
        }
        free(page.job->rows);
        page.job->rows = rows;
        page.job->n_rows = n;
        judge();
        cr_expect_eq(page.rows.n, 400);
        for (uint32_t i = 0; i < page.rows.n; i++)
                cr_assert_eq(page.rows.row[i].row.count, 2);
}

/* A group of several communicators is of all GPUs of a process, and lasts as long on each. */
Test(rows, groups_of_processes_with_several_gpus)
{
        struct capo_job_row *row =
                made_row(page.job, CAPO_CALL_GROUP, 0, 10, CAPO_CLOCK_EVENT, 1000);

        row->comm = CAPO_NO_COMM;
        for (int32_t i = 0; i < 2; i++)
                page.job->comms[0].members[i].device = i;
        page.job->comms[0].members[1].process = 0;
        cr_expect_eq(capo_job_gpus(page.job), 3, "two of the first process, and one of the other");
        judge();
        cr_expect_float_eq(page.gpu_share, 1.5 * 20 * 1000 / 3e9, 1e-12);
}
