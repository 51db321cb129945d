/* SPDX-License-Identifier: Apache-2.0 */
/* The bandwidth of a row follows the calls of the last minutes. */
#include <criterion/criterion.h>

#include "analysis/watch/live_rates.h"
#include "analysis/watch/live_rows.h"
#include "tests/log_numbers.h"

#define SECOND UINT64_C(1000000000)

static struct capo_job_row row = {.comm = CAPO_NO_COMM, .call = CAPO_CALL_ALLREDUCE, .bytes = 4096};
static struct capo_job job = {.rows = &row, .n_rows = 1};
static struct capo_live_rows rows;

/* @calls of @ns each until second @at; the bandwidth since the start of the job is 10 GB/s. */
static double busbw_at(uint64_t at, uint64_t calls, uint64_t ns)
{
        struct capo_page_row judged = {.has_bandwidth = true, .bytes_max = 4096, .total_ns = 1};
        struct capo_page page = {.job = &job, .judged = {&judged, 1}};

        if (calls)
                capo_hist_add(&row.time[CAPO_CLOCK_EVENT], ns, calls);
        judged.row = row;
        judged.busbw = 10;
        judged.reached = -1;
        capo_live_rows_update(&rows, &page, at * SECOND);
        return rows.row[0].busbw;
}

Test(live_rows, bandwidth_of_the_last_minutes)
{
        double first = busbw_at(1000, 1000, 1000), second = busbw_at(1070, 1000, 1000);
        /* calls take four times as long from now on: the mean of all is 3 us, of the last 4 us */
        double slow = busbw_at(1140, 4000, 4000);

        cr_expect_float_eq(first, 10, 0.01);
        cr_expect_float_eq(second, 10, 0.01);
        cr_expect_float_eq(slow, 10 * 3.0 / 4, 0.01);
        cr_expect(busbw_at(1210, 0, 0) == 0);
        capo_live_rows_finish(&rows);
        capo_hist_finish(&row.time[CAPO_CLOCK_EVENT]);
}

/* Two rows of one communicator, estimated from samples: 150 % of the time that there was. */
Test(live_rates, shares_of_a_communicator_are_at_most_all)
{
        struct capo_live_row of[3] = {{.comm = "dp", .total_ns = 9e9},
                                      {.comm = "dp", .total_ns = 6e9},
                                      {.comm = "tp", .total_ns = 5e9}};
        struct capo_live_rows all = {.row = of, .n = 3};
        struct capo_live_rates rates = {0};

        for (int i = 0; i < 3; i++)
                of[i].gpu.count = 1;
        capo_live_rates_update(&rates, &all, 1000000000, 11000000000, 1);
        cr_expect_float_eq(rates.rate[0].share, 0.6, 1e-9);
        cr_expect_float_eq(rates.rate[1].share, 0.4, 1e-9);
        cr_expect_float_eq(rates.rate[2].share, 0.5, 1e-9);
        capo_live_rates_finish(&rates);
}
