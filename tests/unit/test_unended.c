/* SPDX-License-Identifier: Apache-2.0 */
/* For how long calls were under way that nobody saw end. */
#include <criterion/criterion.h>

#include "analysis/job/job.h"
#include "analysis/report/stalls.h"
#include "tests/log_numbers.h"

static struct capo_job *job;

static void begin(void)
{
        job = capo_job_new();
        job->processes = calloc(2, sizeof *job->processes);
        job->n_processes = 2;
        job->t_begin_ns = 0;
        job->t_end_ns = 1000;
        for (int i = 0; i < 2; i++) {
                job->processes[i].last_ns = 1000;
                job->processes[i].last_call = (struct capo_job_call){.t_begin = 200,
                                                                     .t_end = 210,
                                                                     .call = CAPO_CALL_ALLREDUCE,
                                                                     .clock = CAPO_CLOCK_HOST};
        }
}

static void end(void) { capo_job_free(job); }

TestSuite(unended, .init = begin, .fini = end);

Test(unended, calls_that_were_not_timed_may_be_under_way)
{
        cr_expect_float_eq(capo_unended_share(job), 0.8, 1e-9);
}

Test(unended, a_call_that_the_gpu_ended_is_not)
{
        job->processes[0].last_call.clock = CAPO_CLOCK_EVENT;
        cr_expect_float_eq(capo_unended_share(job), 0.4, 1e-9);
}
