/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of one host share its clock; the drift of the counter is taken out; hosts are as they are. */
#include <criterion/criterion.h>

#include "profiles/job/clocks.h"

static struct capo_job_process processes[3] = {
        {.header = {.t0_mono_ns = 5000000000, .t0_real_ns = 1000000001000}, .clock = 0},
        {.header = {.t0_mono_ns = 5000000700, .t0_real_ns = 1000000009999}, .clock = 0},
        {.header = {.t0_mono_ns = 77, .t0_real_ns = 1000000003000}, .clock = 1},
};
static struct capo_job job = {.processes = processes, .n_processes = 3, .n_clocks = 2, .t_begin_ns = 1000000000000};

Test(clocks, a_host_has_one)
{
        struct capo_clocks c;

        cr_assert_eq(capo_clocks_make(&c, &job, NULL), 0);
        cr_assert_eq(capo_clocks_ns(&c, 0, 50), 1050);
        cr_assert_eq(capo_clocks_ns(&c, 1, 50), 1750, "by the monotonic clock, whatever its real-time clock said");
        cr_assert_eq(capo_clocks_ns(&c, 2, 50), 3050);
        capo_clocks_finish(&c);
}

Test(clocks, the_drift_of_a_counter_is_taken_out)
{
        struct capo_clocks c;

        processes[2].has_end = true;
        processes[2].end = (struct capo_log_end){.t_ns = 2000000000, .mono_ns = 77 + 2000100000};
        cr_assert_eq(capo_clocks_make(&c, &job, NULL), 0);
        cr_assert_float_eq(capo_clocks_ns(&c, 2, 1000000), 3000 + 1000050, 1e-3);
        capo_clocks_finish(&c);
        processes[2].end.mono_ns = 77 + 2100000000; /* 5 %: no drift, a wrong number */
        cr_assert_eq(capo_clocks_make(&c, &job, NULL), 0);
        cr_assert_float_eq(capo_clocks_ns(&c, 2, 1000000), 3000 + 1000000, 1e-3);
        capo_clocks_finish(&c);
}
