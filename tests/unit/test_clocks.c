/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of one host share its clock; the drift of the counter is taken out; hosts are as they
 * are. */
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "analysis/job/clocks.h"
#include "tests/unit/made_job.h"

static struct capo_job_process processes[3] = {
        {.header = {.t0_mono_ns = 5000000000, .t0_real_ns = 1000000001000}, .clock = 0},
        {.header = {.t0_mono_ns = 5000000700, .t0_real_ns = 1000000009999}, .clock = 0},
        {.header = {.t0_mono_ns = 77, .t0_real_ns = 1000000003000}, .clock = 1},
};
static struct capo_job job = {
        .processes = processes, .n_processes = 3, .n_clocks = 2, .t_begin_ns = 1000000000000};

Test(clocks, a_host_has_one)
{
        struct capo_clocks c;

        capo_clocks_make(&c, &job, NULL);
        cr_assert_eq(capo_clocks_ns(&c, 0, 50), 1050);
        cr_assert_eq(capo_clocks_ns(&c, 1, 50), 1750,
                     "by the monotonic clock, whatever its real-time clock said");
        cr_assert_eq(capo_clocks_ns(&c, 2, 50), 3050);
        capo_clocks_finish(&c);
}

Test(clocks, the_drift_of_a_counter_is_taken_out)
{
        struct capo_clocks c;

        processes[2].has_end = true;
        processes[2].end = (struct capo_log_end){.t_ns = 2000000000, .mono_ns = 77 + 2000100000};
        capo_clocks_make(&c, &job, NULL);
        cr_assert_float_eq(capo_clocks_ns(&c, 2, 1000000), 3000 + 1000050, 1e-3);
        capo_clocks_finish(&c);
        processes[2].end.mono_ns = 77 + 2100000000; /* 5 %: no drift, a wrong number */
        capo_clocks_make(&c, &job, NULL);
        cr_assert_float_eq(capo_clocks_ns(&c, 2, 1000000), 3000 + 1000000, 1e-3);
        capo_clocks_finish(&c);
}

/* The ticks' rate is corrected by what the monotonic clock did, from a second on and unless it is
 * absurd. */
Test(clocks, the_borders_of_a_drift)
{
        static const uint64_t second = 1000000000;
        const struct {
                uint64_t t_ns, mono_ns;
                double scale;
        } rows[] = {
                {2 * second, 2 * second + 2000, 1 + 1e-6},
                {2 * second, 2 * second - 2000, 1 - 1e-6},
                {second, second + 1000, 1}, /* not above a second */
                {second + 1, second + 1001, 1 + 1000. / (double)(second + 1)},
                {2 * second, 2 * second + 1998000, 1 + 999e-6},
                {2 * second, 2 * second + 2002000, 1},
                {2 * second, 2 * second - 2002000, 1},
                {2 * second, 0, 1},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                for (int has = 0; has < 2; has++) {
                        struct capo_job *one = made_job(1);
                        struct capo_clocks c;

                        one->processes[0].has_end = has;
                        one->processes[0].header.t0_mono_ns = 7000;
                        one->processes[0].end.t_ns = rows[i].t_ns;
                        one->processes[0].end.mono_ns =
                                rows[i].mono_ns ? rows[i].mono_ns + 7000 : 7000;
                        capo_clocks_make(&c, one, NULL);
                        cr_expect_float_eq(c.processes[0].scale, has ? rows[i].scale : 1, 1e-12,
                                           "row %zu: %.12g", i, c.processes[0].scale);
                        capo_clocks_finish(&c);
                        capo_job_free(one);
                }
        }
}

Test(clocks, a_process_that_began_before_the_one_read_first)
{
        struct capo_clocks c;

        processes[1].header.t0_mono_ns = processes[0].header.t0_mono_ns - 600;
        capo_clocks_make(&c, &job, NULL);
        cr_expect_eq(capo_clocks_ns(&c, 1, 0), 400);
        capo_clocks_finish(&c);
}
