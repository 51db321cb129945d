/* SPDX-License-Identifier: Apache-2.0 */
/* The last CELL and SITE of each id, read from a log made frame by frame. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/util.h"
#include "analysis/job/stats_private.h"
#include "tests/golden/gen_log.h"
#include "tests/log_numbers.h"

static char path[] = "/tmp/capo-test-cells-XXXXXX";

static void make_file(void) { cr_assert_geq(mkstemp(path), 0); }

static void drop_file(void) { unlink(path); }

TestSuite(stats_cells, .init = make_file, .fini = drop_file);

static struct gen_hist took(uint64_t ns, uint64_t times)
{
        struct gen_hist h = {.head = {.n = 0}};

        gen_hist_add(&h, ns, times);
        return h;
}

/* The job of one log, as stats.c does it; communicators by `comms`. */
static struct capo_job *read_log(const uint32_t *comms, uint32_t process)
{
        struct capo_job *job = capo_job_new();
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        struct job_places cells = {0}, sites = {0};
        struct capo_log_hist_view host, gpu;
        struct capo_log_frame f;
        struct capo_log_cell c;
        struct capo_log_site s;
        const char *text;
        char why[256];

        cr_assert_eq(capo_log_open(path, &log, why, sizeof why), 0, "%s", why);
        while (capo_log_next(log, &f) > 0) {
                if (f.type == CAPO_FRAME_CELL && capo_log_cell(&f, &c, &host, &gpu) == 0)
                        job_place(&cells, c.id, f.offset);
                if (f.type == CAPO_FRAME_SITE && capo_log_site(&f, &s, &text) == 0)
                        job_place(&sites, s.id, f.offset);
        }
        job_add_cells(job, log, &cells, process, comms);
        job_add_sites(job, log, &sites);
        free(cells.at);
        free(sites.at);
        return job;
}

Test(stats_cells, places)
{
        struct job_places places = {0};

        job_place(&places, 2, 70);
        cr_expect_eq(places.n, 3);
        cr_expect(places.at[0] == 0 && places.at[1] == 0 && places.at[2] == 70);
        job_place(&places, 0, 50);
        job_place(&places, 2, 90);
        cr_expect(places.n == 3 && places.at[0] == 50 && places.at[1] == 0 && places.at[2] == 90);
        job_place(&places, UINT16_MAX, 99);
        cr_expect(places.n == 65536 && places.at[UINT16_MAX] == 99 &&
                  places.at[UINT16_MAX - 1] == 0 && places.at[2] == 90);
        free(places.at);
}

Test(stats_cells, the_last_of_each_id_counts)
{
        uint32_t comms[4] = {0, 0, 5,
                             0}; /* communicator 2 is the job's fifth, 3 was never described */
        struct gen_hist host = took(100, 4), gpu = took(7000, 2);
        struct capo_log_cell c = {.id = 9,
                                  .comm = 2,
                                  .bytes = 4096,
                                  .count = 5,
                                  .rule = 3,
                                  .call = CAPO_CALL_ALLREDUCE,
                                  .algo_proto = 0x21,
                                  .channels = 8,
                                  .clock = CAPO_CLOCK_EVENT,
                                  .flags = CAPO_RECORD_CAPTURED | CAPO_RECORD_ASYNC};
        struct capo_job *job;
        struct gen_log g;

        gen_log_open(&g, path, 1);
        gen_log_cell(&g, c, &host, &gpu);
        c.count = 6;
        host = took(100, 6);
        gen_log_cell(&g, c, &host, &gpu);
        c.id = 0;
        c.comm = 3;
        c.count = 2;
        c.clock = CAPO_CLOCK_KERNEL;
        c.result = 1;
        gen_log_cell(&g, c, &host, &gpu);
        gen_log_close(&g);
        job = read_log(comms, 7);
        cr_assert_eq(job->n_rows, 2);
        for (uint32_t i = 0; i < 2; i++) {
                const struct capo_job_row *row = &job->rows[i];
                bool first = row->comm == 4;

                cr_expect_eq(row->comm, first ? 4 : CAPO_NO_COMM);
                cr_expect_eq(row->calls, first ? 6 : 2);
                cr_expect_eq(row->failed, first ? 0 : 2);
                cr_expect(row->bytes == 4096 && row->rule == 3 && row->call == CAPO_CALL_ALLREDUCE);
                cr_expect(row->algo_proto == 0x21 && row->channels == 8 &&
                          row->flags == CAPO_RECORD_CAPTURED);
                cr_expect_eq(row->tally_of_, first ? 7 << 16 | 2 : 7 << 16 | 3);
                cr_expect_eq(row->time[CAPO_CLOCK_HOST].count, 6);
                cr_expect_eq(row->time[CAPO_CLOCK_HOST].sum_ns, 600);
                cr_expect_eq(row->time[CAPO_CLOCK_EVENT].count, first ? 2 : 0);
                cr_expect_eq(row->time[CAPO_CLOCK_KERNEL].count, first ? 0 : 2);
        }
        capo_job_free(job);
}

/* Calls timed for what they are: the same row, and what they took a second time by itself. */
Test(stats_cells, chosen_calls)
{
        const struct gen_hist host = took(100, 4), gpu = took(7000, 2);
        uint32_t comms[2] = {0, 1};
        struct capo_log_cell c = {.id = 1,
                                  .comm = 1,
                                  .count = 4,
                                  .call = CAPO_CALL_ALLREDUCE,
                                  .clock = CAPO_CLOCK_EVENT};
        struct capo_job *job;
        struct gen_log g;

        gen_log_open(&g, path, 1);
        gen_log_cell(&g, c, &host, &gpu);
        c.id = 2;
        c.flags = CAPO_RECORD_CHOSEN;
        c.count = 3;
        gen_log_cell(&g, c, &host, &gpu);
        c.id = 3; /* untrusted: only events are chosen */
        c.clock = CAPO_CLOCK_KERNEL;
        gen_log_cell(&g, c, &host, &gpu);
        gen_log_close(&g);
        job = read_log(comms, 0);
        cr_assert_eq(job->n_rows, 1);
        cr_expect(job->rows[0].calls == 10 && job->rows[0].flags == 0);
        cr_expect(job->rows[0].time[CAPO_CLOCK_EVENT].count == 4 &&
                  job->rows[0].time[CAPO_TIMES_CHOSEN].count == 2 &&
                  job->rows[0].time[CAPO_TIMES_CHOSEN].sum_ns == 14000 &&
                  job->rows[0].time[CAPO_CLOCK_KERNEL].count == 2);
        capo_job_free(job);
}

Test(stats_cells, results_and_clocks)
{
        static const struct {
                int8_t result;
                uint8_t clock;
                uint64_t failed, host, event, kernel;
        } rows[] = {{0, CAPO_CLOCK_NONE, 0, 4, 0, 0},
                    {7, CAPO_CLOCK_HOST, 0, 4, 0, 0},
                    {1, CAPO_CLOCK_EVENT, 6, 4, 2, 0},
                    {-1, CAPO_CLOCK_KERNEL, 6, 4, 0, 2},
                    {6, CAPO_CLOCKS, 6, 4, 0, 0}};
        const struct gen_hist host = took(100, 4), gpu = took(7000, 2);
        uint32_t comms[2] = {0, 1};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_log_cell c = {.comm = 1,
                                          .count = 6,
                                          .call = 1,
                                          .result = rows[i].result,
                                          .clock = rows[i].clock};
                struct capo_job *job;
                struct gen_log g;

                gen_log_open(&g, path, 1);
                gen_log_cell(&g, c, &host, &gpu);
                gen_log_close(&g);
                job = read_log(comms, 0);
                cr_assert_eq(job->n_rows, 1);
                cr_expect_eq(job->rows[0].failed, rows[i].failed, "row %zu", i);
                cr_expect_eq(job->rows[0].time[CAPO_CLOCK_HOST].count, rows[i].host, "row %zu", i);
                cr_expect_eq(job->rows[0].time[CAPO_CLOCK_EVENT].count, rows[i].event, "row %zu",
                             i);
                cr_expect_eq(job->rows[0].time[CAPO_CLOCK_KERNEL].count, rows[i].kernel, "row %zu",
                             i);
                capo_job_free(job);
        }
}

/* Two communicators of the process are two ranks of one of the job; cells of one rank differ by
 * their result. */
Test(stats_cells, cells_of_one_rank_come_together)
{
        uint32_t comms[3] = {0, 1, 1};
        struct capo_log_cell c = {.call = CAPO_CALL_ALLREDUCE};
        struct capo_job *job;
        struct gen_log g;

        gen_log_open(&g, path, 1);
        for (uint16_t id = 1; id <= 4; id++) {
                c.id = id;
                c.comm = id == 2 || id == 4 ? 1 : 2;
                c.count = (const uint64_t[]){0, 5, 6, 5, 3}[id];
                c.result = id > 2;
                gen_log_cell(&g, c, NULL, NULL);
        }
        gen_log_close(&g);
        job = read_log(comms, 0);
        cr_assert_eq(job->n_rows, 1);
        job_tally(&job->rows[0]);
        cr_expect_eq(job->rows[0].calls, 19);
        cr_expect_eq(job->rows[0].failed, 8);
        cr_expect_eq(job->rows[0].count, 10, "5 + 5 of the one, 6 + 3 of the other: %lu",
                     job->rows[0].count);
        capo_job_free(job);
}

Test(stats_cells, sites)
{
        uint32_t comms[1] = {0};
        struct capo_job *job;
        struct gen_log g;

        gen_log_open(&g, path, 1);
        gen_log_site(&g,
                     (struct capo_log_site){
                             .id = 1, .count = 1, .host_ns = 2, .gpu_ns = 3, .gpu_count = 4},
                     "a");
        gen_log_site(&g,
                     (struct capo_log_site){
                             .id = 3, .count = 10, .host_ns = 20, .gpu_ns = 30, .gpu_count = 40},
                     "b");
        gen_log_site(&g,
                     (struct capo_log_site){
                             .id = 1, .count = 5, .host_ns = 6, .gpu_ns = 7, .gpu_count = 8},
                     "a");
        gen_log_site(&g,
                     (struct capo_log_site){
                             .id = 4, .count = 1, .host_ns = 1, .gpu_ns = 1, .gpu_count = 1},
                     "b");
        gen_log_close(&g);
        job = read_log(comms, 0);
        cr_assert_eq(job->n_sites, 2);
        cr_expect_str_eq(job->sites[0].text, "a");
        cr_expect(job->sites[0].count == 5 && job->sites[0].host_ns == 6 &&
                  job->sites[0].gpu_ns == 7 && job->sites[0].gpu_count == 8);
        cr_expect_str_eq(job->sites[1].text, "b");
        cr_expect(job->sites[1].count == 11 && job->sites[1].host_ns == 21 &&
                  job->sites[1].gpu_ns == 31 && job->sites[1].gpu_count == 41);
        capo_job_free(job);
}
