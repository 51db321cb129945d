/* SPDX-License-Identifier: Apache-2.0 */
/* Cells made from single calls: which calls share one, what each adds. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capo/record.h"
#include "core/base/util.h"
#include "analysis/job/stats.h"
#include "analysis/log/log_window.h"
#include "analysis/job/stats_private.h"
#include "tests/golden/gen_log.h"
#include "tests/job_add.h"
#include "tests/log_numbers.h"

static char path[] = "/tmp/capo-test-trace-XXXXXX";
static uint32_t comms[65536];

static void make_file(void)
{
        cr_assert_geq(mkstemp(path), 0);
        comms[2] = 1; /* others were never described */
        comms[3] = 2;
}

static void drop_file(void) { unlink(path); }

TestSuite(stats_trace, .init = make_file, .fini = drop_file);

static struct capo_job *read_log(void)
{
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        struct capo_job *job = capo_job_new();
        char why[256];

        cr_assert_eq(capo_log_open(path, &log, why, sizeof why), 0, "%s", why);
        job_add_traced_cells(job, log, 7, comms);
        return job;
}

/* @n calls of @shape, each took 100 ns on the host and, by a GPU's clock, 1000. */
static void calls(struct gen_log *g, uint16_t shape, uint32_t n, bool gpu)
{
        uint32_t begin[64], took[64], seq[64], gpu_ns[64];
        uint16_t shapes[64];

        for (uint32_t i = 0; i < n; i++) {
                begin[i] = 1000 * i;
                took[i] = 100;
                seq[i] = i + 1;
                gpu_ns[i] = 1000;
                shapes[i] = shape;
        }
        gen_log_block(g, 0, 1, n, begin, took, seq, shapes, gpu ? gpu_ns : NULL, NULL);
}

Test(stats_trace, which_shapes_share_a_row)
{
        const struct capo_log_shape first = {.id = 1,
                                             .bytes = 64,
                                             .comm = 2,
                                             .rule = 5,
                                             .call = CAPO_CALL_ALLREDUCE,
                                             .algo_proto = 0x21,
                                             .channels = 4,
                                             .clock = CAPO_CLOCK_HOST};
        struct capo_log_shape shape[12];
        struct capo_job *job;
        struct gen_log g;

        for (uint16_t i = 0; i < N_ELEMENTS(shape); i++) {
                shape[i] = first;
                shape[i].id = i;
        }
        /* what a row does not tell apart */
        shape[1].stream = 9;
        shape[2].peer = 3;
        shape[3].site = 4;
        shape[4].flags = CAPO_RECORD_ASYNC;
        /* what it does */
        shape[5].bytes++;
        shape[6].comm++;
        shape[7].rule++;
        shape[8].call = CAPO_CALL_REDUCE;
        shape[9].algo_proto++;
        shape[10].channels++;
        shape[11].flags = CAPO_RECORD_MEMBER;
        gen_log_open(&g, path, 1);
        gen_log_shapes(&g, shape, N_ELEMENTS(shape));
        for (uint16_t i = 0; i < N_ELEMENTS(shape); i++)
                calls(&g, i, i + 1u, false);
        calls(&g, 99, 5, false); /* never described */
        gen_log_close(&g);
        job = read_log();
        cr_assert_eq(job->n_rows, 8, "%u", job->n_rows);
        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *row = &job->rows[i];
                uint64_t expected = row->bytes == 65                   ? 6
                                    : row->comm == 1                   ? 7
                                    : row->rule == 6                   ? 8
                                    : row->call == CAPO_CALL_REDUCE    ? 9
                                    : row->algo_proto == 0x22          ? 10
                                    : row->channels == 5               ? 11
                                    : row->flags == CAPO_RECORD_MEMBER ? 12
                                                                       : 1 + 2 + 3 + 4 + 5;

                cr_expect_eq(row->calls, expected, "%u: %lu", i, row->calls);
                cr_expect_eq(row->time[CAPO_CLOCK_HOST].count, expected);
                cr_expect_eq(row->time[CAPO_CLOCK_HOST].sum_ns, 100 * expected);
                cr_expect_eq(row->tally_of_, 7 << 16 | (row->comm == 1 ? 3 : 2));
        }
        capo_job_free(job);
}

Test(stats_trace, chosen_calls)
{
        struct capo_log_shape shape[3] = {
                {.id = 0, .comm = 2, .call = 1, .clock = CAPO_CLOCK_EVENT}};
        struct capo_job *job;
        struct gen_log g;

        shape[1] = shape[2] = shape[0];
        shape[1].id = 1;
        shape[1].flags = CAPO_RECORD_CHOSEN;
        shape[2].id = 2;
        shape[2].clock =
                CAPO_CLOCK_HOST; /* its time never came: it is like one that was not timed */
        shape[2].flags = CAPO_RECORD_CHOSEN;
        gen_log_open(&g, path, 1);
        gen_log_shapes(&g, shape, 3);
        for (uint16_t i = 0; i < 3; i++)
                calls(&g, i, 2u + i, i < 2);
        gen_log_close(&g);
        job = read_log();
        cr_assert_eq(job->n_rows, 1);
        cr_expect(job->rows[0].calls == 9 && job->rows[0].time[CAPO_CLOCK_EVENT].count == 5 &&
                  job->rows[0].time[CAPO_TIMES_CHOSEN].count == 3 &&
                  job->rows[0].time[CAPO_CLOCK_HOST].count == 9);
        capo_job_free(job);
}

Test(stats_trace, clocks_and_results)
{
        static const struct {
                uint8_t clock;
                int8_t result;
                uint64_t host, event, kernel, failed;
        } rows[] = {{CAPO_CLOCK_NONE, 0, 0, 0, 0, 0},
                    {CAPO_CLOCK_HOST, 7, 3, 0, 0, 0},
                    {CAPO_CLOCK_EVENT, 1, 3, 3, 0, 3},
                    {CAPO_CLOCK_KERNEL, -1, 3, 0, 3, 3}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const struct capo_log_shape shape = {.id = 1,
                                                     .comm = 2,
                                                     .call = 1,
                                                     .clock = rows[i].clock,
                                                     .result = rows[i].result};
                const struct capo_job_row *row;
                struct capo_job *job;
                struct gen_log g;

                gen_log_open(&g, path, 1);
                gen_log_shapes(&g, &shape, 1);
                calls(&g, 1, 3, true);
                gen_log_close(&g);
                job = read_log();
                row = job->rows;
                cr_assert_eq(job->n_rows, 1);
                cr_expect_eq(row->calls, 3);
                cr_expect_eq(row->failed, rows[i].failed, "row %zu", i);
                cr_expect_eq(row->time[CAPO_CLOCK_HOST].count, rows[i].host, "row %zu", i);
                cr_expect_eq(row->time[CAPO_CLOCK_EVENT].sum_ns, 1000 * rows[i].event, "row %zu",
                             i);
                cr_expect_eq(row->time[CAPO_CLOCK_KERNEL].sum_ns, 1000 * rows[i].kernel, "row %zu",
                             i);
                capo_job_free(job);
        }
}

Test(stats_trace, a_shape_described_anew)
{
        struct capo_log_shape shape = {.id = 1, .comm = 2, .call = 1, .clock = CAPO_CLOCK_HOST};
        struct capo_job *job;
        struct gen_log g;

        gen_log_open(&g, path, 1);
        gen_log_shapes(&g, &shape, 1);
        calls(&g, 1, 3, false);
        shape.bytes = 8;
        gen_log_shapes(&g, &shape, 1);
        calls(&g, 1, 4, false);
        shape.id = 2;
        shape.comm = 9; /* not of the job; described and never called */
        gen_log_shapes(&g, &shape, 1);
        gen_log_close(&g);
        job = read_log();
        cr_assert_eq(job->n_rows, 2, "what was never called is no row");
        cr_expect_eq(job->rows[0].calls, job->rows[0].bytes ? 4 : 3);
        cr_expect_eq(job->rows[1].calls, job->rows[1].bytes ? 4 : 3);
        capo_job_free(job);
}

Test(stats_trace, wide_records)
{
        const struct capo_record wide[] = {
                {.t_begin = 50,
                 .t_end = 90,
                 .bytes = 64,
                 .comm = 2,
                 .call = 1,
                 .clock = CAPO_CLOCK_EVENT,
                 .gpu_ns = 500},
                {.t_begin = 50,
                 .t_end = 50,
                 .bytes = 64,
                 .comm = 2,
                 .call = 1,
                 .clock = CAPO_CLOCK_HOST,
                 .result = 1},
                {.t_begin = 50,
                 .t_end = 40,
                 .bytes = 64,
                 .comm = 2,
                 .call = 1,
                 .clock = CAPO_CLOCK_HOST},
                {.t_begin = 1,
                 .t_end = 2,
                 .bytes = 64,
                 .comm = 8,
                 .call = 1,
                 .clock = CAPO_CLOCK_HOST},
        };
        const struct capo_job_row *row;
        struct capo_job *job;
        struct gen_log g;

        gen_log_open(&g, path, 1);
        gen_log_frame(&g, CAPO_FRAME_WIDE, wide, sizeof wide);
        gen_log_close(&g);
        job = read_log();
        cr_assert_eq(job->n_rows, 2);
        row = &job->rows[job->rows[0].comm == CAPO_NO_COMM];
        cr_expect_eq(row->comm, 0);
        cr_expect(row->calls == 3 && row->failed == 1 && row->bytes == 64);
        cr_expect_eq(row->time[CAPO_CLOCK_HOST].count, 3);
        cr_expect_eq(row->time[CAPO_CLOCK_HOST].sum_ns, 40, "an end before the begin is no time");
        cr_expect(row->time[CAPO_CLOCK_EVENT].count == 1 &&
                  row->time[CAPO_CLOCK_EVENT].sum_ns == 500);
        row = &job->rows[job->rows[0].comm != CAPO_NO_COMM];
        cr_expect(row->comm == CAPO_NO_COMM && row->calls == 1);
        capo_job_free(job);
}

/* Two ranks of one communicator in one process: the one with most calls counts, in whatever order
 * they came. */
Test(stats_trace, ranks_come_one_after_the_other)
{
        struct capo_log_shape shape[4];
        struct capo_job *job;
        struct gen_log g;

        comms[3] = 1;
        for (uint16_t i = 0; i < 4; i++)
                shape[i] = (struct capo_log_shape){.id = i,
                                                   .comm = i % 2 ? 2 : 3,
                                                   .call = 1,
                                                   .rule = i / 2,
                                                   .clock = CAPO_CLOCK_HOST};
        gen_log_open(&g, path, 1);
        gen_log_shapes(&g, shape, 4);
        for (uint16_t i = 0; i < 4; i++)
                calls(&g, i, (const uint32_t[]){5, 6, 3, 4}[i], false);
        gen_log_close(&g);
        job = read_log();
        cr_assert_eq(job->n_rows, 2);
        for (uint32_t i = 0; i < 2; i++) {
                job_tally(&job->rows[i]);
                cr_expect_eq(job->rows[i].calls, job->rows[i].rule ? 7 : 11);
                cr_expect_eq(job->rows[i].count, job->rows[i].rule ? 4 : 6);
        }
        capo_job_free(job);
}

/* A log that describes its communicator behind the calls, and whose cells are older than these, is
 * read three times and opened once. */
Test(stats_trace, a_log_is_opened_once)
{
        struct capo_log_end end = {.calls = 1};
        struct capo_job *job = capo_job_new();
        uint64_t before = capo_log_window_opened();
        struct gen_log g;
        char why[256];

        gen_log_open(&g, path, 7);
        gen_log_text(&g, CAPO_FRAME_INFO, "trace\tall\n");
        gen_log_shapes(&g,
                       &(struct capo_log_shape){
                               .id = 1, .comm = 1, .bytes = 8, .call = CAPO_CALL_ALLREDUCE},
                       1);
        gen_log_block(&g, 0, 1, 2, (uint32_t[]){0, 9}, (uint32_t[]){1, 1}, (uint32_t[]){1, 2},
                      (uint16_t[]){1, 1}, NULL, NULL);
        gen_log_comm(&g, (struct capo_log_comm){.id = 1, .n_ranks = 2, .uid = 7}, "a");
        gen_log_frame(&g, CAPO_FRAME_END, &end, sizeof end);
        gen_log_close(&g);
        cr_assert_eq(add_log(job, path, why, sizeof why), 0, "%s", why);
        cr_expect_eq(capo_log_window_opened() - before, 1);
        cr_expect(job->n_rows == 1 && job->rows[0].calls == 2);
        cr_expect(job->scratch->meets[0] && job->scratch->meets[0]->n_rows == 2);
        capo_job_free(job);
}
