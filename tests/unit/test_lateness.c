/* SPDX-License-Identifier: Apache-2.0 */
/* Who is named as coming last, and in what words. */
#include <math.h>

#include "analysis/report/job_judge.h"
#include "analysis/report/waits_causes.h"
#include "tests/unit/made_job.h"
#include "core/log/info.h"

static struct capo_page page;

static void begin(void) { page = (struct capo_page){.job = made_job(4)}; }

static void end(void) { capo_page_finish(&page); }

TestSuite(lateness, .init = begin, .fini = end);

static const struct capo_page_wait *wait(void)
{
        capo_judge_waits(&page);
        cr_assert_eq(page.n_waits, 1);
        return page.waits;
}

/* With four ranks chance is 25 %; more than 43.75 % is not chance. */
Test(lateness, chance_is_nobodys_fault)
{
        made_skew(page.job, 10000, (uint32_t[]){4375, 2000, 2000, 1625}, NULL);
        cr_assert_not(wait()->stands_out);
        cr_assert_str_eq(
                page.waits[0].text,
                "dp: no rank stands out in 10,000 calls compared; last after first p50 50 us, "
                "p95 60 us (by GPU durations)");
        cr_assert(page.waits[0].last == 0 && page.waits[0].last_share == 0.4375);
}

Test(lateness, more_than_chance_is)
{
        made_skew(page.job, 10000, (uint32_t[]){2000, 2000, 1624, 4376}, NULL);
        page.job->comms[0].members[3].device = 6;
        cr_assert(wait()->stands_out);
        cr_assert_str_eq(
                page.waits[0].text,
                "dp: rank 3 (n0, GPU 6) made the others wait 43.8 ms in all, 1.1 % of the job: last in 4,376 of "
                "10,000 calls compared, p50 50 us, max 70 us after the first (by GPU durations)");
        cr_assert_eq(page.waits[0].last, 3);
}

/* The column of capo top names the rank that its line names. */
Test(lateness, a_late_rank_is_named_without_a_cause)
{
        char text[300];

        made_skew(page.job, 10000, (uint32_t[]){0, 0, 0, 10000}, (double[]){0, 0, 0, 5e8});
        cr_assert(capo_wait_is_sure(page.job, wait()));
        cr_assert_null(capo_late_causes(&page, "dp"));
        cr_assert_str_eq(capo_late_why(&page, "dp", text, sizeof text), "rank 3");
        cr_assert_null(capo_late_why(&page, "tp", text, sizeof text));
        page.job->comms[0].skew->worst_over = true;
        cr_assert_null(capo_late_why(&page, "dp", text, sizeof text));
}

Test(lateness, most_of_it_in_few_calls)
{
        struct capo_skew *k =
                made_skew(page.job, 10000, (uint32_t[]){2000, 2000, 1624, 4376}, NULL);

        k->few = 1;
        k->few_from_seq = k->few_to_seq = 31;
        cr_assert(strstr(wait()->text, "calls compared, most of it in call #31, p50"));
}

Test(lateness, few_long_calls_where_the_sum_is_not_known)
{
        struct capo_skew *k = made_skew(page.job, 100, (uint32_t[]){30, 30, 0, 40}, NULL);

        k->ranks[3].caused_pm_ns = 1e12;
        k->few = 3;
        k->few_ns = 2e9;
        k->few_from_seq = 10;
        k->few_to_seq = 90;
        cr_assert_not(wait()->stands_out);
        cr_assert(strstr(page.waits[0].text, "dp: not known (100 of "), "%s", page.waits[0].text);
        cr_assert(strstr(page.waits[0].text,
                         "; most of the waiting in these, 2.0 s, is for rank 3 (n0"),
                  "%s", page.waits[0].text);
        cr_assert(strstr(page.waits[0].text, ") in 3 calls from #10 to #90"), "%s",
                  page.waits[0].text);
}

/* Ranks @from and later are equally late. */
static void are_late(struct capo_skew *k, uint32_t from)
{
        page.job->comms[0].n_calls = k->n_calls;
        for (uint32_t i = from; i < 4; i++)
                k->ranks[i].late_ns = k->ranks[i].late_p50_ns = 50000;
}

/* A rank that waited for messages as long as it was late, and as late as another, is not named. */
Test(lateness, a_delay_that_a_message_may_have_handed_on)
{
        struct capo_skew *k = made_skew(page.job, 10000, (uint32_t[]){0, 0, 0, 10000}, NULL);

        are_late(k, 2);
        made_row(page.job, CAPO_CALL_RECV, 4096, 10000, CAPO_CLOCK_EVENT, 60000);
        cr_assert_not(wait()->stands_out);
        cr_assert(strstr(page.waits[0].text,
                         "came last in 10,000 of 10,000 calls compared, p50 50 us"));
        cr_assert(strstr(page.waits[0].text, "it may have waited in a send or receive"));
        cr_assert_not(capo_wait_is_sure(page.job, page.waits));
}

Test(lateness, a_delay_of_one_rank_alone_is_its_own)
{
        struct capo_skew *k = made_skew(page.job, 10000, (uint32_t[]){0, 0, 0, 10000}, NULL);

        are_late(k, 3);
        made_row(page.job, CAPO_CALL_RECV, 4096, 10000, CAPO_CLOCK_EVENT, 60000);
        cr_assert(wait()->stands_out);
}

Test(lateness, short_messages_hand_nothing_on)
{
        struct capo_skew *k = made_skew(page.job, 10000, (uint32_t[]){0, 0, 0, 10000}, NULL);

        are_late(k, 2);
        made_row(page.job, CAPO_CALL_RECV, 4096, 10000, CAPO_CLOCK_EVENT, 5000);
        cr_assert(wait()->stands_out);
}

Test(lateness, few_messages_hand_little_on)
{
        struct capo_skew *k = made_skew(page.job, 10000, (uint32_t[]){0, 0, 0, 10000}, NULL);

        are_late(k, 2);
        made_row(page.job, CAPO_CALL_RECV, 4096, 10, CAPO_CLOCK_EVENT, 60000);
        cr_assert(wait()->stands_out);
}

/* One rank comes early, and the others together: none of them is late. */
Test(lateness, most_ranks_come_together)
{
        struct capo_skew *k = made_skew(page.job, 10000, (uint32_t[]){0, 1000, 2000, 7000}, NULL);

        are_late(k, 1);
        cr_assert_not(wait()->stands_out);
        cr_assert_str_eq(page.waits[0].text,
                         "dp: no rank stands out in 10,000 calls compared: rank 1, rank 2, rank 3 "
                         "came together, p50 50 us after the first");
        cr_assert_not(capo_wait_is_sure(page.job, page.waits));
}

/* ... unless the process of one of them was stopped. */
Test(lateness, a_stop_is_of_one_rank)
{
        struct capo_skew *k = made_skew(page.job, 10000, (uint32_t[]){0, 1000, 2000, 7000}, NULL);

        are_late(k, 1);
        k->ranks[3].stopped_ns = 1e9;
        cr_assert(wait()->stands_out);
}

/* An interval from 0 on names a rank only if it was last more often than by chance. */
Test(lateness, an_interval_from_zero)
{
        struct capo_skew *k = made_skew(page.job, 40, (uint32_t[]){10, 10, 9, 11},
                                        (double[]){1e7, 1e7, 1e7, 9e8});

        k->worst_sure = true;
        k->ranks[3].caused_pm_ns = 9e8;
        cr_assert_not(wait()->stands_out);
        cr_assert(strstr(page.waits[0].text, "dp: not known"));
        cr_assert_not(strstr(page.waits[0].text, "rank 3"));
}

Test(lateness, an_interval_from_zero_of_a_rank_that_is_often_last)
{
        struct capo_skew *k =
                made_skew(page.job, 40, (uint32_t[]){5, 5, 5, 25}, (double[]){1e7, 1e7, 1e7, 9e8});

        k->worst_sure = true;
        k->ranks[3].caused_pm_ns = 9e8;
        cr_assert_not(wait()->stands_out);
        cr_assert(strstr(page.waits[0].text, "came last in 25 of 40"));
        cr_assert(strstr(page.waits[0].text, "how long the others waited in all is not known"));
}

/* Last nearly always, but what others cost at times is more. */
Test(lateness, last_in_most_calls_and_not_most_of_the_waiting)
{
        made_skew(page.job, 10000, (uint32_t[]){250, 250, 250, 9250},
                  (double[]){8e7, 8e7, 8e7, 9e7});
        cr_assert_not(wait()->stands_out);
        cr_assert(strstr(page.waits[0].text, "most of the waiting may be for others"));
        cr_assert_null(strstr(page.waits[0].text, "no rank stands out"));
}

Test(lateness, less_than_clocks_tell_is_nobodys_fault)
{
        made_skew(page.job, 10000, (uint32_t[]){0, 0, 0, 10000}, NULL);
        page.job->comms[0].skew->worst_p50_ns = 999;
        cr_assert_not(wait()->stands_out);
}

/* The communicator was made at once on all of them, so its clocks are no further apart. */
Test(lateness, by_the_clocks_of_several_hosts)
{
        struct capo_job_comm *c = &page.job->comms[0];

        made_skew(page.job, 10000, (uint32_t[]){0, 0, 0, 10000}, NULL);
        c->skew->from = CAPO_SKEW_HOST_START;
        c->skew->wait_share = -1;
        c->skew->aligned = false;
        for (uint32_t k = 0; k < 4; k++)
                c->members[k].t_created_ns = 1000000000 + (k == 3 ? 20000 : 0);
        cr_assert(wait()->stands_out, "late by 50 us, the clocks are off by 20 at most");
}

Test(lateness, by_clocks_that_may_be_as_far_apart)
{
        struct capo_job_comm *c = &page.job->comms[0];

        made_skew(page.job, 10000, (uint32_t[]){0, 0, 0, 10000}, NULL);
        c->skew->from = CAPO_SKEW_HOST_START;
        c->skew->wait_share = -1;
        c->skew->aligned = false;
        for (uint32_t k = 0; k < 4; k++)
                c->members[k].t_created_ns = 1000000000 + (k == 3 ? 40000 : 0);
        cr_assert_not(wait()->stands_out);
        cr_assert_str_eq(page.waits[0].text,
                         "dp: not known: only the hosts' times of its calls are, and the clocks of "
                         "the hosts may be as far apart");
}

Test(lateness, the_sum_over_ranks_has_an_interval)
{
        made_skew(page.job, 10000, (uint32_t[]){0, 0, 0, 10000}, NULL);
        page.job->comms[0].skew->wait_share = 0.2;
        page.job->comms[0].skew->wait_pm = 0.1;
        wait();
        cr_expect(page.wait_share == 0.2 && fabs(page.wait_range.high - 0.3) < 1e-9);
}

Test(lateness, waiting_in_more_than_half_of_the_possible_is_not_known)
{
        made_skew(page.job, 10000, (uint32_t[]){0, 0, 0, 10000}, NULL);
        page.job->comms[0].skew->wait_share = 0.2;
        page.job->comms[0].skew->wait_pm = 0.3;
        wait();
        cr_expect(page.wait_share < 0 && page.wait_range.high > 0);
}

/* In a communicator of some ranks its own number stands in brackets; it is the only one there is
 * where the job's is not known. */
Test(lateness, ranks_are_the_jobs)
{
        struct capo_job_member *m = page.job->comms[0].members;

        made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, NULL);
        m[1].job_rank = 7;
        wait();
        cr_assert_eq(strncmp(page.waits[0].text, "dp: rank 7 (n0, 1 in dp) made", 29), 0, "%s",
                     page.waits[0].text);
        capo_page_finish(&page);
        begin();
        made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, NULL);
        page.job->comms[0].members[1].job_rank = -1;
        wait();
        cr_assert_eq(strncmp(page.waits[0].text, "dp: rank 1 of dp (n0) made", 26), 0, "%s",
                     page.waits[0].text);
}

Test(lateness, who_is_behind_nobody_does_not)
{
        made_skew(page.job, 100, (uint32_t[]){0, 0, 100, 0}, (double[]){0, 0, 0, 0});
        cr_assert_not(wait()->stands_out);
}

/* Seldom last, but then by much: that is the one. */
Test(lateness, the_sum_counts_and_not_how_often)
{
        made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, (double[]){0, 1e6, 9e6, 0});
        cr_assert(wait()->stands_out && page.waits[0].last == 2);
        cr_assert_eq(page.waits[0].last_share, 0.1);
        cr_assert_float_eq(page.waits[0].caused_share, 9e6 / 4e9, 1e-12);
}

Test(lateness, to_the_nanosecond)
{
        made_skew(page.job, 100, (uint32_t[]){25, 25, 25, 25}, (double[]){7.01, 3, 3, 2.99});
        cr_assert(wait()->stands_out, "43.75 %% of 16 ns are 7");
        capo_page_finish(&page);
        begin();
        made_skew(page.job, 100, (uint32_t[]){25, 25, 25, 25}, (double[]){7, 3, 3, 3});
        cr_assert_not(wait()->stands_out);
}

/* Of four ranks the chance is a quarter: an interval that reaches down to it says nothing. */
Test(lateness, an_interval_that_has_chance_in_it_is_nobodys_fault)
{
        struct capo_skew *k =
                made_skew(page.job, 100, (uint32_t[]){0, 50, 50, 0}, (double[]){0, 2e6, 8e6, 0});

        k->ranks[2].caused_pm_ns = 5.5e6;
        cr_assert_not(wait()->stands_out);
        capo_page_finish(&page);
        begin();
        k = made_skew(page.job, 100, (uint32_t[]){0, 50, 50, 0}, (double[]){0, 2e6, 8e6, 0});
        k->ranks[2].caused_pm_ns = 5.4e6;
        cr_assert(wait()->stands_out);
        cr_assert(strstr(page.waits[0].text, "wait 8.0 ms +- 5.4 ms in all"), "%s",
                  page.waits[0].text);
}

Test(lateness, host_times_cost_nothing_known)
{
        struct capo_skew *k =
                made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, (double[]){0, 0, 6250, 0});

        k->wait_share = -1;
        k->from = CAPO_SKEW_HOST_START;
        k->aligned = true;
        cr_assert_eq(wait()->caused_share, -1);
        cr_assert(strstr(page.waits[0].text, "starts behind the others by 6.2 us in all: last"),
                  "%s", page.waits[0].text);
        cr_assert(strstr(page.waits[0].text, "after the first (when the host made the call)"));
}

Test(lateness, nothing_compared_is_nothing_said)
{
        made_skew(page.job, 0, (uint32_t[]){0, 0, 0, 0}, NULL);
        capo_judge_waits(&page);
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
        capo_judge_waits(&page);
        cr_assert_eq(page.n_waits, 3);
        cr_assert(page.waits[0].comm == 3 && page.waits[1].comm == 1 && page.waits[2].comm == 2);
        for (unsigned i = 1; i < 4; i++)
                job->comms[i].layout = NULL;
}

Test(lateness, what_cannot_be_said_is_named)
{
        struct capo_job *job = page.job;

        job->comms[0].n_calls = 10;
        capo_judge_waits(&page);
        cr_assert_eq(page.n_unknown, 0);
        capo_page_finish(&page);
        page.job = job = made_job(4);
        job->comms[0].n_calls = 10;
        job->comms[0].no_skew = CAPO_SKEW_NO_COMMON;
        job->comms[1] = (struct capo_job_comm){.name = strdup("x"),
                                               .n_ranks = 2,
                                               .n_calls = 11,
                                               .no_skew = CAPO_SKEW_ONE_LOG,
                                               .members = NULL};
        job->comms[2] = (struct capo_job_comm){
                .name = strdup("alone"), .n_ranks = 1, .n_calls = 99, .no_skew = CAPO_SKEW_ONE_LOG};
        job->comms[3] = (struct capo_job_comm){
                .name = strdup("unused"), .n_ranks = 9, .no_skew = CAPO_SKEW_NO_CALLS};
        job->n_comms = 4;
        capo_judge_waits(&page);
        cr_assert(page.n_waits == 0 && page.n_unknown == 2);
        cr_assert(page.unknown[0].comm == 1 && page.unknown[1].comm == 0, "most calls first");
        cr_assert_str_eq(page.unknown[0].why, "one of its ranks left a log, the others none");
        cr_assert(strstr(page.unknown[1].why, "no single call is in the logs of all its ranks"));
        free(page.waits);
        free(page.unknown);
        page.n_unknown = 0;
        made_info(&job->processes[0], CAPO_INFO_TRACE, "all");
        capo_judge_waits(&page);
        cr_assert(!strstr(page.unknown[1].why, "--trace all"), "%s", page.unknown[1].why);
}
