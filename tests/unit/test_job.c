/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of a job come to: clocks, totals, bandwidths by nccl-tests' convention. */
#include <math.h>

#include "tests/unit/made_job.h"
#include "tests/log_numbers.h"

static struct capo_job *job;

static void begin(void) { job = made_job(4); }

static void end(void) { capo_job_free(job); }

TestSuite(job, .init = begin, .fini = end);

Test(job, the_best_clock_counts)
{
        struct capo_job_row *row = made_row(job, CAPO_CALL_ALLREDUCE, 8, 1, CAPO_CLOCK_HOST, 0);

        cr_assert_eq(capo_job_row_clock(&(struct capo_job_row){0}), CAPO_CLOCK_NONE);
        cr_assert_eq(capo_job_row_clock(row), CAPO_CLOCK_HOST);
        capo_hist_add(&row->time[CAPO_CLOCK_EVENT], 10, 1);
        cr_assert_eq(capo_job_row_clock(row), CAPO_CLOCK_EVENT);
        capo_hist_add(&row->time[CAPO_CLOCK_KERNEL], 10, 1);
        cr_assert_eq(capo_job_row_clock(row), CAPO_CLOCK_KERNEL);
}

Test(job, calls_that_were_not_timed_last_as_long_as_those_that_were)
{
        struct capo_job_row *row = made_row(job, CAPO_CALL_ALLREDUCE, 8, 10, CAPO_CLOCK_HOST, 0);

        cr_assert_eq(capo_job_row_total_ns(row), 40 * 1000);
        capo_hist_add(&row->time[CAPO_CLOCK_EVENT], 500, 1);
        capo_hist_add(&row->time[CAPO_CLOCK_EVENT], 700, 1);
        cr_assert_eq(capo_job_row_total_ns(row), 40 * 600);
        cr_assert_eq(capo_job_row_total_ns(&(struct capo_job_row){.calls = 5}), 0);
}

Test(job, bandwidth_is_by_the_call)
{
        static const struct {
                unsigned call;
                double factor; /* of four ranks */
        } table[] = {{CAPO_CALL_ALLREDUCE, 1.5},
                     {CAPO_CALL_ALLGATHER, 0.75},
                     {CAPO_CALL_REDUCESCATTER, 0.75},
                     {CAPO_CALL_ALLTOALL, 0.75},
                     {CAPO_CALL_BROADCAST, 1},
                     {CAPO_CALL_REDUCE, 1},
                     {CAPO_CALL_SEND, 1},
                     {CAPO_CALL_GATHER, 0.75},
                     {CAPO_CALL_SCATTER, 0.75}};
        double algbw, busbw;

        for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
                struct capo_job_row *row =
                        made_row(job, table[i].call, 1 << 20, 1, CAPO_CLOCK_EVENT, 1 << 20);

                cr_assert(capo_job_row_bandwidth(job, row, &algbw, &busbw));
                cr_assert_float_eq(algbw, 1, 1e-9);
                cr_assert_float_eq(busbw, table[i].factor, 1e-9, "%u", i);
        }
}

Test(job, the_shortest_time_has_a_bandwidth)
{
        double algbw, busbw;

        cr_assert(capo_job_row_bandwidth(
                job, made_row(job, CAPO_CALL_ALLREDUCE, 4, 1, CAPO_CLOCK_EVENT, 1), &algbw,
                &busbw));
        cr_assert_float_eq(algbw, 4, 1e-9);
        cr_assert_not(capo_job_row_bandwidth(
                job, made_row(job, CAPO_CALL_ALLREDUCE, 4, 1, CAPO_CLOCK_EVENT, 0), &algbw,
                &busbw));
}

Test(job, no_bandwidth_without_a_gpu_time_a_size_or_ranks)
{
        double algbw = 7, busbw = 7;
        struct capo_job_row *row =
                made_row(job, CAPO_CALL_ALLREDUCE, 1 << 20, 1, CAPO_CLOCK_HOST, 0);

        cr_assert_not(capo_job_row_bandwidth(job, row, &algbw, &busbw));
        cr_assert(algbw == 0 && busbw == 0);
        capo_hist_add(&row->time[CAPO_CLOCK_EVENT], 1000, 1);
        cr_assert(capo_job_row_bandwidth(job, row, &algbw, &busbw));
        row->bytes = 0;
        cr_assert_not(capo_job_row_bandwidth(job, row, &algbw, &busbw));
        row->bytes = 8;
        row->call = CAPO_CALL_GROUP;
        cr_assert_not(capo_job_row_bandwidth(job, row, &algbw, &busbw), "its calls differ");
        row->call = CAPO_CALL_ALLREDUCE;
        row->comm = CAPO_NO_COMM;
        cr_assert_not(capo_job_row_bandwidth(job, row, &algbw, &busbw));
        row->comm = 0;
        job->comms[0].n_ranks = -1;
        cr_assert_not(capo_job_row_bandwidth(job, row, &algbw, &busbw));
        job->comms[0].n_ranks = 1;
        cr_assert(capo_job_row_bandwidth(job, row, &algbw, &busbw));
        cr_assert_eq(busbw, 0, "one rank moves nothing over a bus");
}

Test(job, rows_merge)
{
        struct capo_job_row *a = made_row(job, CAPO_CALL_ALLREDUCE, 8, 3, CAPO_CLOCK_EVENT, 100);
        struct capo_job_row *b = made_row(job, CAPO_CALL_ALLREDUCE, 8, 5, CAPO_CLOCK_KERNEL, 300);

        b->failed = 2;
        a->inferred_calls = 4;
        a->inferred_ns = 100;
        b->inferred_calls = 3;
        b->inferred_ns = 30;
        capo_job_row_merge(a, b);
        cr_assert(a->count == 8 && a->calls == 32 && a->failed == 2);
        cr_assert(a->inferred_calls == 7 && a->inferred_ns == 130);
        cr_assert(a->time[CAPO_CLOCK_HOST].count == 32 && a->time[CAPO_CLOCK_EVENT].count == 12 &&
                  a->time[CAPO_CLOCK_KERNEL].count == 20);
        cr_assert_eq(b->calls, 20);
}

Test(job, gpus_are_counted_once)
{
        static const int32_t device[] = {0, 63, 64, -1};

        for (int i = 0; i < 4; i++)
                job->comms[0].members[i] =
                        (struct capo_job_member){.process = i == 3, .device = device[i]};
        cr_assert_eq(capo_job_gpus(job), 2 + 3, "0 and 64 are one bit; who tells none has one");
        job->comms[0].members[2].device = 1;
        cr_assert_eq(capo_job_gpus(job), 3 + 3);
}

Test(job, duration)
{
        cr_assert_eq(capo_job_duration_ns(job), 1000000000);
        job->t_begin_ns = 1000000001;
        cr_assert_eq(capo_job_duration_ns(job), 0, "never negative");
}
