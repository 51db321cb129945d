/* SPDX-License-Identifier: Apache-2.0 */
/* Times in which no rank made a call. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/report/job_judge.h"
#include "analysis/report/stalls.h"
#include "core/base/util.h"

#define S UINT64_C(1000000000)

static char path[] = "nowhere/rank.capo";
static struct capo_job_process process[3];
static struct capo_job job = {.processes = process, .n_processes = 3};
static struct capo_page page = {.job = &job};

static void start(void)
{
        for (uint32_t i = 0; i < 3; i++)
                process[i] =
                        (struct capo_job_process){.path = path, .rank = (int)i, .last_ns = 100 * S};
}

static void forget_problems(void)
{
        for (uint32_t i = 0; i < page.n_problems; i++) {
                free(page.problems[i].text);
                free(page.problems[i].runs);
        }
        free(steal(&page.problems));
        page.n_problems = 0;
}

TestSuite(stalls, .init = start, .fini = forget_problems);

static void silent(uint32_t i, uint64_t from_s, uint64_t s)
{
        capo_silences_add(&process[i].still, from_s * S, s * S);
        capo_silences_add(&process[i].silent, from_s * S, s * S);
}

Test(stalls, all_ranks_silent_at_once)
{
        silent(0, 10, 40);
        silent(1, 11, 39);
        capo_judge_stalls(&page);
        cr_assert_eq(page.n_problems, 0); /* rank 2 went on */
        silent(2, 10, 30);
        capo_judge_stalls(&page);
        cr_assert_eq(page.n_problems, 1);
        cr_assert(strstr(page.problems[0].text, "no rank made a call for 29.0 s"), "%s",
                  page.problems[0].text);
}

/* What capo watch wrote beside the logs meanwhile. */
Test(stalls, what_capo_watch_found)
{
        static const char head[] = "{\"since\": 10.5, \"still_s\": 30.5, \"waiting\": 2, "
                                   "\"call\": {\"call\": \"CommInit\"}, \"verdict\": ";
        static const char *const rest[] = {"\"undecided\", \"culprits\": []}",
                                           "\"missing\", \"culprits\": [{\"rank\": 2, "
                                           "\"why\": \"host\"}]}"};
        static const char *const want[] = {
                "capo watch found 2 ranks waiting in CommInit (hang.txt)",
                "capo watch found rank 2 (verdict missing, reason host), 2 ranks waiting in "
                "CommInit (hang.txt)"};
        char dir[] = "/tmp/capo-test-stalls-XXXXXX", log[64], json[64];
        FILE *f;

        cr_assert(mkdtemp(dir));
        snprintf(log, sizeof log, "%s/a.capo", dir);
        snprintf(json, sizeof json, "%s/hang.json", dir);
        cr_assert((f = fopen(log, "w")) && fclose(f) == 0);
        job.t_end_ns = 100 * S;
        for (uint32_t i = 0; i < 3; i++) {
                process[i].path = log;
                silent(i, 10, 40);
        }
        for (int i = 0; i < 2; i++) {
                f = fopen(json, "w");
                cr_assert(f);
                fprintf(f, "%s%s", head, rest[i]);
                cr_assert_eq(fclose(f), 0);
                capo_judge_stalls(&page);
                cr_expect(page.n_problems == 1 && strstr(page.problems[0].text, want[i]), "%s",
                          page.n_problems ? page.problems[0].text : "none");
                forget_problems();
        }
        unlink(json);
        unlink(log);
        rmdir(dir);
}

/* The hosts had queued many short calls: the GPUs went on. One long call is a wait. */
Test(stalls, gpus_that_work_on_queued_calls_are_not_silent)
{
        struct capo_page_row row = {.clock = CAPO_CLOCK_EVENT};

        row.row.time[CAPO_CLOCK_EVENT].max_ns = 1 * S;
        job.t_end_ns = 60 * S;
        page.judged.row = &row;
        page.judged.n = 1;
        page.gpu_share = 0.98;
        page.gpu_range = (struct capo_interval){0.97, 0.99};
        for (uint32_t i = 0; i < 3; i++)
                silent(i, 10, 40);
        capo_judge_stalls(&page);
        cr_expect_eq(page.n_problems, 0);
        cr_expect_eq(capo_unseen_waiting(&page), 0);
        row.row.time[CAPO_CLOCK_EVENT].max_ns = 39 * S;
        capo_judge_stalls(&page);
        cr_expect_eq(page.n_problems, 1);
        cr_expect_gt(capo_unseen_waiting(&page), 20.0 * S);
        forget_problems();
        row.row.time[CAPO_CLOCK_EVENT].max_ns = 1 * S;
        page.gpu_timed = page.gpu_calls = 9;
        page.gpu_share = 0.3;
        page.gpu_range = (struct capo_interval){0.3, 0.3};
        capo_judge_stalls(&page);
        cr_expect_eq(page.n_problems, 1);
        cr_expect(strstr(page.problems[0].text, "no call took longer than 1.0"), "%s",
                  page.problems[0].text);
        cr_expect_eq(capo_unseen_waiting(&page), 0);
        page.judged = (struct capo_page_rows){0};
        page.gpu_timed = page.gpu_calls = 0;
        page.gpu_share = 0;
        page.gpu_range = (struct capo_interval){0};
        job.t_end_ns = 0;
}

/* Its recorder saw that a process did not run. */
Test(stalls, a_process_that_was_stopped)
{
        struct capo_job_info stop = {.key = (char *)"stopped",
                                     .value = (char *)"2000000000 1500000000\n"
                                                      "10500000000 39000000000"};

        for (uint32_t i = 0; i < 3; i++)
                silent(i, 10, 40);
        process[1].info = &stop;
        process[1].n_info = 1;
        capo_judge_stalls(&page);
        cr_assert_eq(page.n_problems, 1);
        cr_assert(strstr(page.problems[0].text, "the process of rank 1 did not run"), "%s",
                  page.problems[0].text);
        cr_assert_eq(page.problems[0].runs->first, 1);
        process[1].info = NULL;
        process[1].n_info = 0;
}

/* A job that was ended while it hung. */
Test(stalls, silence_up_to_the_end)
{
        struct capo_job_info in = {.key = (char *)"exit", .value = (char *)"1"};

        for (uint32_t i = 0; i < 3; i++) {
                process[i].last_call.t_begin = (40 + i) * S;
                process[i].has_end = true;
                process[i].end.clean = 1;
        }
        capo_judge_stalls(&page);
        cr_assert_eq(page.n_problems, 0); /* all ended well */
        process[1].info = &in;
        process[1].n_info = 1;
        capo_judge_stalls(&page);
        cr_assert_eq(page.n_problems, 1);
        cr_assert(strstr(page.problems[0].text, "no rank made a call for 58.0 s"), "%s",
                  page.problems[0].text);
        forget_problems();
        job.n_ranks = 4;
        capo_judge_stalls(&page);
        cr_assert(strstr(page.problems[0].text, "no rank that left a log made a call for 58.0 s"));
        job.n_ranks = 0;
        process[1].info = NULL;
        process[1].n_info = 0;
}

Test(stalls, a_job_that_is_silent_in_every_step)
{
        for (uint32_t i = 0; i < 3; i++) {
                for (uint64_t k = 0; k < 9; k++)
                        silent(i, 11 * k, 11);
        }
        capo_judge_stalls(&page);
        cr_assert_eq(page.n_problems, 0);
}

Test(stalls, what_ranks_can_have_waited_unseen)
{
        struct capo_skew skew = {.long_ns = 80.0 * S};
        struct capo_job_member member = {.rank = 0};
        struct capo_job_comm comm = {.skew = &skew, .members = &member, .n_members = 1};

        for (uint32_t i = 0; i < 3; i++)
                silent(i, 10, 40);
        cr_assert_float_eq(capo_unseen_waiting(&page) / S, 40 * 2 / 3.0, 0.01);
        job.comms = &comm;
        job.n_comms = 1;
        cr_assert_float_eq(capo_unseen_waiting(&page) / S, 0, 0.01); /* all of it is known */
        job.comms = NULL;
        job.n_comms = 0;
}

/* Rank 1 was stopped for 10 s, and the others' logs begin later: whether they waited is not known. */
Test(stalls, a_stop_before_the_calls_that_the_logs_kept)
{
        struct capo_job_info stopped = {.key = (char *)"stopped",
                                        .value = (char *)"20000000000 10000000000"};
        struct capo_job_member member[3] = {
                {.t_created_ns = 10 * S}, {.process = 1}, {.process = 2}};
        struct capo_job_comm comm = {.members = member, .n_members = 3};

        process[1].info = &stopped;
        process[1].n_info = 1;
        job.comms = &comm;
        job.n_comms = 1;
        process[0].first_ns = process[2].first_ns = 50 * S;
        cr_expect_float_eq(capo_unseen_waiting(&page) / S, 10 * 2 / 3.0, 0.01);
        process[2].first_ns = 24 * S; /* the last log to begin decides */
        process[0].first_ns = 22 * S;
        cr_expect_float_eq(capo_unseen_waiting(&page) / S, 4 * 2 / 3.0, 0.01);
        process[0].first_ns = process[2].first_ns = 5 * S;
        cr_expect_eq(capo_unseen_waiting(&page), 0);
        job.n_comms = 0;
}
