/* SPDX-License-Identifier: Apache-2.0 */
/* What is advised, at the borders of what asks for it. */
#include <stdarg.h>

#include "analysis/report/page_kinds.h"
#include "analysis/report/job_judge.h"
#include "tests/unit/made_job.h"
#include "core/log/info.h"
#include "tests/log_numbers.h"

static struct capo_page page;

static void begin(void)
{
        page = (struct capo_page){.job = made_job(4), .what = "logs/"};
        page.job->n_records = 1;
        page.job->calls = 1000;
}

static void end(void) { capo_page_finish(&page); }

TestSuite(next, .init = begin, .fini = end);

/* The only advice of a kind, NULL when there is none. */
static const struct capo_next *advice(enum capo_next_kind kind)
{
        const struct capo_next *found = NULL;

        for (uint32_t i = 0; i < page.n_next; i++) {
                if (page.next[i].kind == kind) {
                        cr_assert_null(found, "said twice");
                        found = &page.next[i];
                }
        }
        return found;
}

static const struct capo_next *judged(enum capo_next_kind kind)
{
        capo_judge_rows(&page);
        capo_judge_waits(&page);
        capo_judge_next(&page);
        return advice(kind);
}

Test(next, nothing_is_wrong)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 10, CAPO_CLOCK_EVENT, 1000);
        judged(CAPO_NEXT_sweep);
        cr_assert_eq(page.n_next, 0, "%s", page.next[0].text);
}

Test(next, the_most_expensive_call_is_worth_a_sweep)
{
        const struct capo_next *n;

        made_row(page.job, CAPO_CALL_ALLREDUCE, 100000, 100, CAPO_CLOCK_EVENT, 600000);
        made_row(page.job, CAPO_CALL_REDUCESCATTER, 5 << 20, 100, CAPO_CLOCK_EVENT, 900000);
        n = judged(CAPO_NEXT_sweep);
        cr_assert_not_null(n);
        cr_assert_str_eq(
                n->text,
                "ReduceScatter 5 MiB takes 60.0 % of the GPU time as NCCL chooses: capo sweep --coll "
                "reduce_scatter --protos ll128,simple --sizes 4M..8M -- COMMAND measures its other "
                "choices");
        cr_assert(n->call == CAPO_CALL_REDUCESCATTER && n->bytes_least == 5 << 20 &&
                  n->bytes_max == 5 << 20 && n->comm == 0);
        cr_assert_float_eq(n->share, 0.6, 1e-9);
}

Test(next, a_power_of_two_is_swept_by_itself)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 512, 100, CAPO_CLOCK_EVENT, 900000);
        cr_assert_not_null(judged(CAPO_NEXT_sweep));
        cr_assert(strstr(advice(CAPO_NEXT_sweep)->text, "--coll all_reduce --sizes 512..512 "));
}

/* Share 0.2 of the GPU time, 0.05 of the job. */
Test(next, what_is_cheap_is_not_swept)
{
        for (unsigned i = 0; i < 6; i++)
                made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << (20 + i), 100, CAPO_CLOCK_EVENT,
                         900000);
        cr_assert_null(judged(CAPO_NEXT_sweep));
}

Test(next, what_is_a_small_part_of_the_job_is_not_swept)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_EVENT, 490000);
        cr_assert_null(judged(CAPO_NEXT_sweep));
}

Test(next, a_large_enough_part_of_the_job_is)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_EVENT, 510000);
        cr_assert_not_null(judged(CAPO_NEXT_sweep));
}

Test(next, calls_without_a_choice_are_not_swept)
{
        made_row(page.job, CAPO_CALL_SEND, 1 << 20, 100, CAPO_CLOCK_EVENT, 900000);
        made_row(page.job, CAPO_CALL_ALLTOALL, 1 << 20, 100, CAPO_CLOCK_EVENT, 900000);
        cr_assert_null(judged(CAPO_NEXT_sweep));
}

Test(next, a_job_that_is_tuned_is_not_swept)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_EVENT, 900000);
        page.job->processes[0].rules = strdup("name\tp\n");
        cr_assert_null(judged(CAPO_NEXT_sweep));
}

Test(next, a_sweep_is_not_swept)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_EVENT, 900000);
        page.job->processes[0].rules = strdup("sweep\tall_reduce\n");
        cr_assert_null(judged(CAPO_NEXT_sweep));
}

/* Another choice shortens no wait: for a late rank, a CPU, or a job that is stuck. */
Test(next, calls_that_wait_for_a_late_rank_are_not_swept)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_EVENT, 900000);
        made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, (double[]){0, 160e6, 40e6, 0});
        page.job->comms[0].skew->wait_share = 0.08;
        cr_assert_null(judged(CAPO_NEXT_sweep));
}

Test(next, calls_that_wait_less_are_swept)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_EVENT, 900000);
        made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, (double[]){0, 60e6, 40e6, 0});
        page.job->comms[0].skew->wait_share = 0.03;
        cr_assert_not_null(judged(CAPO_NEXT_sweep));
}

/* The same waiting, but of many small calls of which each has its part. */
Test(next, calls_with_a_small_part_of_the_waiting_are_swept)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_EVENT, 900000);
        made_row(page.job, CAPO_CALL_ALLREDUCE, 512, 900, CAPO_CLOCK_EVENT, 30000);
        made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, (double[]){0, 160e6, 40e6, 0});
        page.job->comms[0].skew->wait_share = 0.08;
        cr_assert_not_null(judged(CAPO_NEXT_sweep));
}

/* It is late before this one kind of call only: its own calls show it, a quarter of all. */
Test(next, calls_of_which_the_late_rank_s_own_are_short_are_not_swept)
{
        struct capo_job_row *row =
                made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 75, CAPO_CLOCK_EVENT, 900000);

        made_row(page.job, CAPO_CALL_ALLREDUCE, 512, 900, CAPO_CLOCK_EVENT, 30000);
        row->calls = 400;
        row->count = 100;
        capo_hist_add(&row->time[CAPO_CLOCK_EVENT], 300000, 100);
        cr_assert_null(judged(CAPO_NEXT_sweep));
}

Test(next, calls_that_no_network_makes_so_slow_are_not_swept)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 16384, 5, CAPO_CLOCK_EVENT, 48000000);
        cr_assert_null(judged(CAPO_NEXT_sweep));
}

Test(next, a_stuck_job_is_not_swept)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_EVENT, 900000);
        PROBLEM(&page, HANGS, "rank 1");
        cr_assert_null(judged(CAPO_NEXT_sweep));
}

Test(next, a_rank_that_holds_up_the_others)
{
        const struct capo_next *n;

        made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, (double[]){0, 160e6, 40e6, 0});
        n = judged(CAPO_NEXT_late_rank);
        cr_assert_not_null(n);
        cr_assert_str_eq(
                n->text,
                "rank 1 holds up dp for 4.0 % of the job: look at what it does before the call (input, "
                "host work, its GPU)");
        cr_assert(n->rank == 1 && n->job_rank == 1 && n->comm == 0);
        cr_assert_float_eq(n->share, 0.04, 1e-9, "only the waiting that is for it");
}

/* In the words of WAITING: not "up to" that call. */
Test(next, a_rank_that_held_up_the_others_in_one_call)
{
        struct capo_skew *k;

        made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, (double[]){0, 1600e6, 40e6, 0});
        k = page.job->comms[0].skew;
        k->worst_over = true;
        k->few = 1;
        k->few_from_seq = k->few_to_seq = 27;
        cr_assert_not_null(judged(CAPO_NEXT_late_rank));
        cr_expect(strstr(advice(CAPO_NEXT_late_rank)->text, "of the job, most of it in call #27: "),
                  "%s", advice(CAPO_NEXT_late_rank)->text);
}

Test(next, who_is_last_most_often_is_not_blamed_for_what_another_caused)
{
        made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, (double[]){0, 38e6, 162e6, 0});
        cr_assert_eq(judged(CAPO_NEXT_late_rank)->rank, 2);
}

Test(next, less_than_a_hundredth_is_not_worth_a_word)
{
        made_skew(page.job, 100, (uint32_t[]){0, 90, 10, 0}, (double[]){0, 39.9e6, 1e6, 0});
        cr_assert_null(judged(CAPO_NEXT_late_rank));
}

Test(next, who_does_not_stand_out_is_not_blamed)
{
        made_skew(page.job, 100, (uint32_t[]){20, 30, 25, 25}, (double[]){50e6, 60e6, 50e6, 50e6});
        cr_assert_null(judged(CAPO_NEXT_late_rank));
}

Test(next, no_gpu_times)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_HOST, 0);
        cr_assert_not_null(judged(CAPO_NEXT_no_gpu_times));
}

/* Nothing times RCCL's calls: no setting helps. */
Test(next, gpu_times_that_no_setting_brings)
{
        made_info(page.job->processes, CAPO_INFO_NCCL_PATH, "/opt/rocm/lib/librccl.so.1.0");
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_HOST, 0);
        cr_assert_null(judged(CAPO_NEXT_no_gpu_times));
}

Test(next, a_job_without_collectives_needs_no_gpu_times)
{
        cr_assert_null(judged(CAPO_NEXT_no_gpu_times));
        cr_assert_null(advice(CAPO_NEXT_no_calls_kept));
}

Test(next, events_ran_short)
{
        page.job->gpu_dropped = 10;
        cr_assert_null(judged(CAPO_NEXT_events_short), "one in a hundred may");
        page.job->gpu_dropped = 11;
        capo_judge_next(&page);
        cr_assert_not_null(advice(CAPO_NEXT_events_short));
        cr_assert(strstr(advice(CAPO_NEXT_events_short)->text, "11 calls were to be timed"));
}

Test(next, no_single_calls_in_the_logs)
{
        page.job->n_records = 0;
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_EVENT, 100);
        cr_assert_not_null(judged(CAPO_NEXT_no_calls_kept));
}

/* It cannot be asked for again: what is left of the logs has none. */
Test(next, logs_that_kept_all_calls_and_were_cut)
{
        page.job->n_records = 0;
        made_info(&page.job->processes[0], CAPO_INFO_TRACE, "all");
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_EVENT, 100);
        cr_assert_null(judged(CAPO_NEXT_no_calls_kept));
}

Test(next, one_rank_waits_for_nobody)
{
        page.job->n_records = 0;
        page.job->n_ranks = 1;
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 100, CAPO_CLOCK_EVENT, 100);
        cr_assert_null(judged(CAPO_NEXT_no_calls_kept));
}

Test(next, names_for_programs)
{
        cr_assert_str_eq(capo_next_names[CAPO_NEXT_late_rank], "late_rank");
        cr_assert_str_eq(capo_next_names[CAPO_NEXT_no_calls_kept], "no_calls_kept");
}
