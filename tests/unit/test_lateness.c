/* SPDX-License-Identifier: Apache-2.0 */
/* Who is named as coming last, and in what words. */
#include "profiles/job/judge.h"
#include "tests/unit/made_job.h"

static struct capo_page page;

static void begin(void)
{
        page = (struct capo_page){.job = made_job(4)};
}

static void end(void)
{
        capo_page_finish(&page);
}

TestSuite(lateness, .init = begin, .fini = end);

static const struct capo_page_wait *wait(void)
{
        cr_assert_eq(capo_judge_waits(&page), 0);
        cr_assert_eq(page.n_waits, 1);
        return page.waits;
}

/* With four ranks chance is 25 %; more than 43.75 % is not chance. */
Test(lateness, chance_is_nobodys_fault)
{
        made_skew(page.job, 10000, (uint32_t[]){4375, 2000, 2000, 1625}, NULL);
        cr_assert_not(wait()->stands_out);
        cr_assert_str_eq(page.waits[0].text,
                         "dp: no rank stands out in 10,000 calls compared; last after first p50 50 us, "
                         "p95 60 us (by GPU durations)");
        cr_assert(page.waits[0].last == 0 && page.waits[0].last_share == 0.4375);
}

Test(lateness, more_than_chance_is)
{
        made_skew(page.job, 10000, (uint32_t[]){2000, 2000, 1624, 4376}, NULL);
        page.job->comms[0].members[3].device = 6;
        cr_assert(wait()->stands_out);
        cr_assert_str_eq(page.waits[0].text,
                         "dp: rank 3 (n0, GPU 6) starts last in 43.8 % of 10,000 calls compared, p50 50 "
                         "us after the first; the others within 1.0 us (by GPU durations)");
        cr_assert_eq(page.waits[0].last, 3);
}

Test(lateness, who_is_behind_nobody_does_not)
{
        struct capo_skew *k = made_skew(page.job, 100, (uint32_t[]){0, 0, 100, 0}, NULL);

        k->worst_p50_ns = 0;
        cr_assert_not(wait()->stands_out);
}

/* Seldom last, but then by much: named beside, not instead. */
Test(lateness, most_of_the_waiting_may_be_for_another)
{
        made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, (double[]){0, 1000, 9000, 0});
        cr_assert_eq(wait()->last, 1);
        cr_assert_eq(page.waits[0].costs, 2);
}

Test(lateness, mostly_it_is_for_the_same)
{
        made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, (double[]){0, 9000, 1000, 0});
        cr_assert_eq(wait()->costs, -1);
}

/* Of four ranks more than 62.5 % of it. */
Test(lateness, half_of_it_is_not_most)
{
        made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, (double[]){0, 3750, 6250, 0});
        cr_assert_eq(wait()->costs, -1);
}

Test(lateness, host_times_cost_nothing_known)
{
        struct capo_skew *k = made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, (double[]){0, 0, 6250, 0});

        k->wait_share = -1;
        k->from = CAPO_SKEW_HOST_START;
        cr_assert_eq(wait()->costs, -1);
        cr_assert(strstr(page.waits[0].text, "within 1.0 us (when the host made the call)"));
}

Test(lateness, nothing_compared_is_nothing_said)
{
        made_skew(page.job, 0, (uint32_t[]){0, 0, 0, 0}, NULL);
        cr_assert_eq(capo_judge_waits(&page), 0);
        cr_assert_eq(page.n_waits, 0);
}

Test(lateness, the_most_expensive_is_first)
{
        struct capo_job *job = page.job;
        static const double shares[] = {0.01, -1, 0.5};

        for (unsigned i = 0; i < 3; i++) {
                struct capo_job_comm *c = &job->comms[0];
                struct capo_skew *k = made_skew(job, 100, (uint32_t[]){0, 0, 100, 0}, NULL);

                k->wait_share = shares[i];
                job->comms[i + 1] = (struct capo_job_comm){.name = strdup("x"),
                                                           .n_ranks = 4,
                                                           .n_members = 4,
                                                           .members = calloc(4, sizeof *c->members),
                                                           .skew = k};
                c->skew = NULL;
        }
        job->n_comms = 4;
        cr_assert_eq(capo_judge_waits(&page), 0);
        cr_assert_eq(page.n_waits, 3);
        cr_assert(page.waits[0].comm == 3 && page.waits[1].comm == 1 && page.waits[2].comm == 2);
        for (unsigned i = 1; i < 4; i++)
                job->comms[i].layout = NULL;
}

Test(lateness, what_cannot_be_said_is_named)
{
        struct capo_job *job = page.job;

        job->comms[0].n_calls = 10;
        cr_assert_eq(capo_judge_waits(&page), 0);
        cr_assert_eq(page.n_unknown, 0);
        capo_page_finish(&page);
        page.job = job = made_job(4);
        job->comms[0].n_calls = 10;
        job->comms[0].no_skew = CAPO_SKEW_NO_COMMON;
        job->comms[1] = (struct capo_job_comm){
                .name = strdup("x"), .n_ranks = 2, .n_calls = 11, .no_skew = CAPO_SKEW_ONE_LOG, .members = NULL};
        job->comms[2] = (struct capo_job_comm){
                .name = strdup("alone"), .n_ranks = 1, .n_calls = 99, .no_skew = CAPO_SKEW_ONE_LOG};
        job->comms[3] = (struct capo_job_comm){.name = strdup("unused"), .n_ranks = 9, .no_skew = CAPO_SKEW_NO_CALLS};
        job->n_comms = 4;
        cr_assert_eq(capo_judge_waits(&page), 0);
        cr_assert(page.n_waits == 0 && page.n_unknown == 2);
        cr_assert(page.unknown[0].comm == 1 && page.unknown[1].comm == 0, "most calls first");
        cr_assert_str_eq(page.unknown[0].why, "one of its ranks left a log, the others none");
        cr_assert(strstr(page.unknown[1].why, "no single call is in the logs of all its ranks"));
}
