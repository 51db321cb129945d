/* SPDX-License-Identifier: Apache-2.0 */
/* When a rank ended and in which call: what is known is said to the number, what is not is said,
 * too. */
#include "analysis/report/page_kinds.h"
#include "analysis/report/job_judge.h"
#include "tests/unit/made_job.h"
#include "core/log/info.h"
#include "tests/log_numbers.h"

static struct capo_page page;

static void begin(void)
{
        setenv("TZ", "UTC", 1);
        page = (struct capo_page){.job = made_job(8)};
        page.job->t_begin_ns = 43200000000000; /* 12:00:00 */
        for (uint32_t i = 0; i < 8; i++) {
                page.job->processes[i].header.t0_real_ns = page.job->t_begin_ns;
                page.job->comms[0].members[i].id = 3;
        }
}

static void end(void) { capo_page_finish(&page); }

TestSuite(endings, .init = begin, .fini = end);

/* Rank 2 was taken over after 4.2 s; its last call returned after @returned_ns. */
static struct capo_job_process *killed(uint64_t returned_ns)
{
        struct capo_job_process *p = &page.job->processes[2];

        p->end.clean = 2;
        p->end.calls = 511;
        p->last_ns = p->end.t_ns = 4200000000;
        if (returned_ns)
                p->last_call = (struct capo_job_call){.t_begin = returned_ns - 10,
                                                      .t_end = returned_ns,
                                                      .seq = 511,
                                                      .comm = 3,
                                                      .call = CAPO_CALL_ALLREDUCE,
                                                      .clock = CAPO_CLOCK_HOST};
        return p;
}

static const struct capo_problem *says(const char *text)
{
        capo_judge_endings(&page);
        cr_assert_eq(page.n_problems, 1);
        cr_assert_str_eq(page.problems[0].text, text);
        cr_assert(page.problems[0].kind == CAPO_PROBLEM_ENDED && page.problems[0].runs->first == 2);
        return page.problems;
}

Test(endings, inside_a_call)
{
        const struct capo_problem *p;

        made_info(killed(4000000000), CAPO_INFO_UNFINISHED,
                  "host 1 AllReduce 512 3 4096 4000000100");
        p = says(
                "rank 2: last sign of life 4.2 s after the start (12:00:04) in AllReduce number 512 of dp, which had not returned "
                "after 200 ms");
        cr_assert(p->call == CAPO_CALL_ALLREDUCE && p->seq == 512 && p->comm == 0 &&
                  p->in_call == 1);
        cr_assert_float_eq(p->at_s, 4.2, 1e-9);
}

Test(endings, the_first_rank_is_one_like_others)
{
        struct capo_job_process *p = &page.job->processes[0];

        p->end = (struct capo_log_end){.clean = 2, .t_ns = 4200000000};
        p->last_ns = 4200000000;
        capo_judge_endings(&page);
        cr_assert_eq(page.n_problems, 1);
        cr_assert(page.problems[0].n_runs == 1 && page.problems[0].runs->n == 1 &&
                  page.problems[0].runs->first == 0);
        cr_assert(strstr(page.problems[0].text, "rank 0: last sign of life"));
        cr_assert_null(page.problems[0].log);
}

Test(endings, several_threads_and_a_begin_behind_the_last_heartbeat)
{
        made_info(
                killed(4000000000), CAPO_INFO_UNFINISHED,
                "host 1 AllReduce 512 3 4096 4000000100\nnonsense\nhost 2 Send 5 9 4096 4210000000");
        says("rank 2: last sign of life 4.2 s after the start (12:00:04) in Send number 5, which had not returned; 1 other thread was in "
             "calls too");
        cr_assert_float_eq(page.problems[0].at_s, 4.21, 1e-9);
        cr_assert_eq(page.problems[0].comm, CAPO_NO_COMM);
}

Test(endings, inside_a_group)
{
        made_info(killed(4000000000), CAPO_INFO_UNFINISHED,
                  "group 1 Broadcast 512 3 4096 4199999999");
        says("rank 2: last sign of life 4.2 s after the start (12:00:04) in the group of Broadcast number 512 of dp, which had not "
             "returned");
}

Test(endings, after_a_call)
{
        const struct capo_problem *p;

        killed(4000000000);
        p = says(
                "rank 2: last sign of life 4.2 s after the start (12:00:04), 200 ms after its last call, AllReduce number 511 of dp, had "
                "returned; whether the GPU had ended it is not known");
        cr_assert(p->seq == 511 && p->in_call == 0);
}

Test(endings, after_a_call_that_the_gpu_had_ended)
{
        killed(4199999000)->last_call.clock = CAPO_CLOCK_EVENT;
        says("rank 2: last sign of life 4.2 s after the start (12:00:04), at once after its last call, AllReduce number 511 of dp, had "
             "returned, on the GPU too");
}

Test(endings, with_a_call_on_the_gpu)
{
        made_info(killed(4000000000), CAPO_INFO_UNFINISHED,
                  "gpu 1 AllReduce 508 3 4096 3000000100");
        says("rank 2: last sign of life 4.2 s after the start (12:00:04), 200 ms after its last call, AllReduce number 511 of dp, had "
             "returned; the GPU was not seen to end AllReduce number 508 of dp");
        cr_assert_eq(page.problems[0].in_call, 0);
}

Test(endings, with_a_call_that_nobody_had_time_to_look_for)
{
        made_info(killed(4199000000), CAPO_INFO_UNFINISHED,
                  "gpu 1 AllReduce 508 3 4096 4190000000");
        says("rank 2: last sign of life 4.2 s after the start (12:00:04), at once after its last call, AllReduce number 511 of dp, had "
             "returned; whether the GPU had ended it is not known");
}

Test(endings, after_a_call_that_runs_on_no_gpu)
{
        struct capo_job_call *c = &killed(4000000000)->last_call;

        c->call = CAPO_CALL_COMMDESTROY;
        c->seq = 0;
        says("rank 2: last sign of life 4.2 s after the start (12:00:04), 200 ms after its last call, CommDestroy of dp, had returned");
}

Test(endings, without_single_calls)
{
        killed(0);
        says("rank 2: last sign of life 4.2 s after the start (12:00:04); in or after which call it ended is not known: its log keeps no single "
             "calls");
        cr_assert(page.problems[0].in_call == -1 && page.problems[0].at_s > 4);
}

Test(endings, before_any_call)
{
        killed(0)->end.calls = 0;
        says("rank 2: last sign of life 4.2 s after the start (12:00:04); it had made no call that capo records");
}

Test(endings, nobody_took_it_over)
{
        killed(4000000000)->end.clean = 0;
        says("rank 2: when it ended, if it did, and in which call is not known; its log was last written 4.2 s after the start "
             "(12:00:04), its last call there is AllReduce number 511 of dp");
        cr_assert(page.problems[0].at_s < 0 && page.problems[0].in_call == -1 &&
                  page.problems[0].seq == 511);
}

Test(endings, dev_shm_was_full)
{
        made_info(killed(4000000000), CAPO_INFO_MEMORY, "full");
        says("rank 2: when it ended and in which call is not known: /dev/shm had no room for its recording memory; its log "
             "was last written 4.2 s after the start (12:00:04), its last call there is AllReduce number 511 of dp");
        cr_assert(page.problems[0].at_s < 0 && page.problems[0].in_call == -1);
}

static uint32_t all_killed(bool all)
{
        for (uint32_t i = 0; i < 8; i++) {
                page.job->processes[i].end.clean = 2;
                page.job->processes[i].last_ns = 9000000000 - (uint64_t)i * 1000000000;
        }
        page.all = all;
        capo_judge_endings(&page);
        return page.n_problems;
}

Test(endings, the_first_to_end_come_first)
{
        cr_assert_eq(all_killed(false), 5);
        cr_assert_eq(page.problems[0].runs->first, 7);
        cr_assert_eq(page.problems[3].runs->first, 4);
        cr_assert_str_eq(
                page.problems[4].text,
                "4 more gave their last sign of life later: capo report --all has when, and in which calls");
}

Test(endings, all_on_demand) { cr_assert_eq(all_killed(true), 8); }

Test(endings, who_ended_well_or_lives_is_not_there)
{
        capo_judge_endings(&page);
        cr_assert_eq(page.n_problems, 0);
}

/* The one that failed is beside those that its launcher killed. */
Test(endings, an_exit_with_an_error)
{
        struct capo_job_process *p = killed(4000000000);

        p->end.clean = 1;
        made_info(p, CAPO_INFO_EXIT, "0");
        capo_judge_endings(&page);
        cr_assert_eq(page.n_problems, 0);
        free(p->info[p->n_info - 1].value);
        p->info[p->n_info - 1].value = strdup("3");
        says("rank 2: exit status 3, 4.2 s after the start (12:00:04); its last call is AllReduce number 511 of dp");
}
