/* SPDX-License-Identifier: Apache-2.0 */
/* Which cells become one row, how calls of several ranks count, and that none is lost when the
 * index grows. */
#include <stdio.h>
#include <string.h>
#include <criterion/criterion.h>

#include "analysis/job/stats_private.h"
#include "tests/log_numbers.h"

static const struct capo_job_row key = {.comm = 1,
                                        .bytes = 4096,
                                        .calls = 10,
                                        .failed = 1,
                                        .rule = 3,
                                        .call = CAPO_CALL_ALLREDUCE,
                                        .algo_proto = 0x21,
                                        .channels = 8};

static uint32_t add(struct capo_job *job, struct capo_job_row row, uint64_t tally_of)
{
        struct capo_job_row *to = job_add_to_row(job, &row, tally_of);

        cr_assert_not_null(to);
        return (uint32_t)(to - job->rows);
}

Test(stats_rows, cells_of_one_key_are_one_row)
{
        struct capo_job *job = capo_job_new();
        struct capo_job_row other[7];

        for (unsigned i = 0; i < 7; i++)
                other[i] = key;
        other[0].comm++;
        other[1].bytes++;
        other[2].rule++;
        other[3].call = CAPO_CALL_ALLGATHER;
        other[4].algo_proto++;
        other[5].channels++;
        other[6].flags = CAPO_RECORD_CAPTURED;
        cr_assert_eq(add(job, key, 1), 0);
        for (uint32_t i = 0; i < 7; i++)
                cr_assert_eq(add(job, other[i], 1), i + 1, "what is different is another row: %u",
                             i);
        cr_assert_eq(add(job, key, 2), 0);
        cr_assert_eq(job->n_rows, 8);
        cr_assert(job->rows[0].calls == 20 && job->rows[0].failed == 2);
        cr_assert(job->rows[1].calls == 10 && job->rows[1].failed == 1);
        capo_job_free(job);
}

/* Two cells of one rank add up (they differ in what a row does not keep apart); of several ranks
 * the most counts. */
Test(stats_rows, count_is_that_of_the_rank_with_most)
{
        struct capo_job *job = capo_job_new();
        struct capo_job_row row = key;

        add(job, row, 1);
        add(job, row, 1);
        row.calls = 15;
        add(job, row, 2);
        job_tally(&job->rows[0]);
        cr_assert_eq(job->rows[0].count, 20);
        cr_assert_eq(job->rows[0].calls, 35);
        row.calls = 21;
        add(job, row, 3);
        job_tally(&job->rows[0]);
        cr_assert_eq(job->rows[0].count, 21);
        job_tally(&job->rows[0]);
        cr_assert_eq(job->rows[0].count, 21);
        capo_job_free(job);
}

Test(stats_rows, the_index_grows_and_loses_nothing)
{
        enum { N = 3000 };
        struct capo_job *job = capo_job_new();
        struct capo_job_row row = key;

        for (unsigned round = 0; round < 2; round++) {
                for (uint32_t i = 0; i < N; i++) {
                        row.bytes = 8 * (uint64_t)i;
                        cr_assert_eq(add(job, row, round), i);
                }
        }
        cr_assert_eq(job->n_rows, N);
        for (uint32_t i = 0; i < N; i++)
                cr_assert(job->rows[i].bytes == 8 * (uint64_t)i && job->rows[i].calls == 20);
        capo_job_free(job);
}

Test(stats_rows, sites_are_known_by_their_text)
{
        struct capo_job *job = capo_job_new();
        struct capo_log_site s = {.count = 2, .host_ns = 30, .gpu_ns = 400, .gpu_count = 1};

        s.text_size = 4;
        job_add_site(job, &s, (struct capo_log_site_chosen){0}, "main");
        s.text_size = 3;
        job_add_site(job, &s, (struct capo_log_site_chosen){0}, "main");
        s.text_size = 4;
        job_add_site(job, &s, (struct capo_log_site_chosen){0}, "main");
        cr_assert_eq(job->n_sites, 2);
        cr_assert_str_eq(job->sites[0].text, "main");
        cr_assert_str_eq(job->sites[1].text, "mai");
        cr_assert(job->sites[0].count == 4 && job->sites[0].host_ns == 60 &&
                  job->sites[0].gpu_ns == 800 && job->sites[0].gpu_count == 2);
        cr_assert_eq(job->sites[1].count, 2);
        for (unsigned i = 0; i < 700; i++) {
                char text[16];

                s.text_size = (uint32_t)snprintf(text, sizeof text, "f%u", i % 350);
                job_add_site(job, &s, (struct capo_log_site_chosen){0}, text);
        }
        cr_assert_eq(job->n_sites, 352);
        capo_job_free(job);
}

Test(stats_rows, failures_of_one_kind_are_one)
{
        struct capo_job *job = capo_job_new();

        for (int again = 1; again <= 2; again++) {
                job_add_failure(job, 1, 2, CAPO_CALL_ALLREDUCE, 3, 10);
                job_add_failure(job, 2, 2, CAPO_CALL_ALLREDUCE, 3, 1);
                job_add_failure(job, 1, 3, CAPO_CALL_ALLREDUCE, 3, 1);
                job_add_failure(job, 1, 2, CAPO_CALL_REDUCE, 3, 1);
                job_add_failure(job, 1, 2, CAPO_CALL_ALLREDUCE, 4, 1);
                job_add_failure(job, 1, 2, CAPO_CALL_ALLREDUCE, 0, 7);
                job_add_failure(job, 9, 2, CAPO_CALL_ALLREDUCE, 3, 0);
                cr_assert_eq(job->n_failures, 5);
                for (uint32_t i = 0; i < 5; i++)
                        cr_expect_eq(job->failures[i].calls, (i ? 1u : 10u) * (unsigned)again, "%u",
                                     i);
        }
        capo_job_free(job);
}
