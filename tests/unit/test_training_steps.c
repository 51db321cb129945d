/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a training job by the counts of its all-reduces, and benchmarks, which have none. */
#include <errno.h>

#include "analysis/job/training_steps.h"
#include "tests/unit/made_job.h"
#include "tests/log_numbers.h"

static struct capo_job *job;

static void begin(void) { job = made_job(4); }

static void end(void) { capo_job_free(job); }

TestSuite(training_steps, .init = begin, .fini = end);

static void sizes(const uint64_t *bytes, const uint32_t *calls, size_t n)
{
        for (size_t i = 0; i < n; i++)
                made_row(job, CAPO_CALL_ALLREDUCE, bytes[i], calls[i], CAPO_CLOCK_EVENT, 1000);
}

Test(training_steps, common_count_of_the_large_sizes)
{
        uint64_t steps = 0;

        sizes((uint64_t[]){4, 1 << 20, 3 << 20}, (uint32_t[]){7, 50, 100}, 3);
        cr_expect_eq(capo_training_steps(job, 0, &steps), 0);
        cr_expect_eq(steps, 50, "7 calls of 4 bytes are of a loss");
        cr_expect_eq(capo_training_timed(job, 0), 3);
        cr_expect_eq(capo_training_steps(job, 1, &steps), -ENODATA, "another communicator");
}

Test(training_steps, counts_without_a_common_step)
{
        uint64_t steps;

        sizes((uint64_t[]){1 << 20, 3 << 20}, (uint32_t[]){7, 50}, 2);
        cr_expect_eq(capo_training_steps(job, 0, &steps), -ENODATA);
}

Test(training_steps, sizes_that_grow_by_one_factor_are_a_benchmark)
{
        uint64_t steps;

        sizes((uint64_t[]){1 << 20, 2 << 20, 4 << 20, 8 << 20}, (uint32_t[]){50, 50, 50, 50}, 4);
        cr_expect_eq(capo_training_steps(job, 0, &steps), -EDOM);
}
