/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a communicator are sorted by call and rising size; one size can have several rows
 * (algorithms, channels). */
#include <math.h>

#include "capo/call_ids.h"
#include "analysis/job/training_steps.h"

bool capo_training_row(const struct capo_job_row *r, uint32_t comm)
{
        return r->comm == comm && r->call == CAPO_CALL_ALLREDUCE && r->bytes > 0 &&
               !(r->flags & CAPO_RECORD_GROUP);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
        while (b) {
                uint64_t t = a % b;

                a = b;
                b = t;
        }
        return a;
}

/* The next size of @comm from row *@at on, with the calls of all its rows. False: no more. */
static bool next_size(const struct capo_job *job, uint32_t comm, uint32_t *at, uint64_t *bytes,
                      uint64_t *count)
{
        *count = 0;
        for (; *at < job->n_rows; ++*at) {
                const struct capo_job_row *r = &job->rows[*at];

                if (!capo_training_row(r, comm))
                        continue;
                if (*count && r->bytes != *bytes)
                        break;
                *bytes = r->bytes;
                *count += r->count;
        }
        return *count > 0;
}

/* Is it a benchmark? Benchmarks use sizes that grow by one factor, each with the same count.
 * Buckets of a training step do not. */
static bool is_benchmark(const struct capo_job *job, uint32_t comm)
{
        enum { LEAST = 4 };
        uint64_t bytes = 0, count, last_bytes = 0, last_count = 0;
        double ratio = 0;
        int sizes = 0;

        for (uint32_t at = 0; next_size(job, comm, &at, &bytes, &count); sizes++) {
                double step = last_bytes ? (double)bytes / (double)last_bytes : 0;

                if (last_count && ((double)count > (double)last_count * 1.1 ||
                                   (double)count < (double)last_count * 0.9))
                        return false;
                if (ratio > 0 && fabs(step / ratio - 1) > 0.01)
                        return false;
                ratio = step;
                last_bytes = bytes;
                last_count = count;
        }
        return sizes >= LEAST;
}

int capo_training_steps(const struct capo_job *job, uint32_t comm, uint64_t *steps)
{
        uint64_t bytes = 0, count, found = 0;
        double all = 0;

        for (uint32_t at = 0; next_size(job, comm, &at, &bytes, &count);)
                all += (double)bytes * (double)count;
        for (uint32_t at = 0; next_size(job, comm, &at, &bytes, &count);) {
                if ((double)bytes * (double)count >= all / 1000)
                        found = common_divisor(count, found);
        }
        if (found < 2)
                return -ENODATA;
        if (is_benchmark(job, comm))
                return -EDOM;
        *steps = found;
        return 0;
}

int capo_training_timed(const struct capo_job *job, uint32_t comm)
{
        uint64_t last = 0;
        int n = 0;

        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *r = &job->rows[i];

                if (!capo_training_row(r, comm) || (r->flags & CAPO_RECORD_MEMBER) ||
                    capo_job_row_clock(r) < CAPO_CLOCK_EVENT || r->bytes == last)
                        continue;
                last = r->bytes;
                n++;
        }
        return n;
}
