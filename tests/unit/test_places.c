/* SPDX-License-Identifier: Apache-2.0 */
/* Where calls were made: one line per place that reads alike, by time; and which rules decided. */
#include "analysis/report/job_judge.h"
#include "tests/unit/made_job.h"
#include "tests/log_numbers.h"

static struct capo_page page;

static void begin(void) { page = (struct capo_page){.job = made_job(2)}; }

static void end(void) { capo_page_finish(&page); }

TestSuite(places, .init = begin, .fini = end);

static void site(const char *text, uint64_t count, uint64_t host_ns, uint64_t gpu_ns,
                 uint64_t gpu_count)
{
        page.job->sites[page.job->n_sites++] = (struct capo_job_site){.text = strdup(text),
                                                                      .count = count,
                                                                      .host_ns = host_ns,
                                                                      .gpu_ns = gpu_ns,
                                                                      .gpu_count = gpu_count};
}

Test(places, names_of_frames)
{
        site("ncclAllReduce+0x12 libnccl.so\nall_reduce+0x3 job.c:7\ntrain.py:214 backward\n[libx.so+0x55]\nmain+1",
             1, 10, 0, 0);
        site("f+0x1 a\n__libc_start_main+1 libc.so.6\n_start+0x2\nlibc.so.6+0x7\nclone3+1", 1, 9, 0,
             0);
        capo_judge_places(&page);
        cr_assert_eq(page.n_places, 2);
        cr_assert_str_eq(page.places[0].line,
                         "ncclAllReduce <- all_reduce <- train.py:214 backward <- [libx.so+0x55]",
                         "four frames: %s", page.places[0].line);
        cr_assert_str_eq(page.places[1].line, "f", "the way into main() says nothing");
}

Test(places, all_frames_when_all_is_wanted)
{
        site("a\nb\nc\nd\ne\nf", 1, 10, 0, 0);
        page.all = true;
        capo_judge_places(&page);
        cr_assert_str_eq(page.places[0].line, "a <- b <- c <- d <- e <- f");
}

Test(places, host_time_where_there_is_no_other)
{
        site("f+1 x", 3, 100, 0, 0);
        site("g+1 x", 5, 100, 0, 0);
        site("f+2 x", 4, 200, 0, 0);
        capo_judge_places(&page);
        cr_assert_not(page.places_by_gpu);
        cr_assert_eq(page.n_places, 2);
        cr_assert_str_eq(page.places[0].line, "f");
        cr_assert(page.places[0].calls == 7 && page.places[0].time == 300 &&
                  page.places[0].share == 0.75);
        cr_assert(page.places[1].calls == 5 && page.places[1].share == 0.25);
}

Test(places, gpu_time_is_scaled_to_all_calls)
{
        site("f+1 x", 10, 1, 50, 5);
        site("g+1 x", 30, 1000, 10, 1);
        site("h+1 x", 99, 5000, 0, 0);
        capo_judge_places(&page);
        cr_assert(page.places_by_gpu && page.n_places == 3);
        cr_assert_str_eq(page.places[0].line, "g");
        cr_assert(page.places[0].time == 300 && page.places[0].share == 0.75);
        cr_assert(page.places[1].time == 100 && page.places[1].share == 0.25);
        cr_assert_lt(page.places[2].share, 0, "not timed at all");
}

/* The first call is slow, and timed for what it is: it is not the mean of the other 99. */
Test(places, calls_timed_for_what_they_are_count_once)
{
        site("f+1 x", 100, 0, 1000000 + 1000 + 5 * 2000, 7);
        page.job->sites[0].chosen = (struct capo_log_site_chosen){1001000, 2};
        site("g+1 x", 10, 0, 8000, 2); /* none drawn: the mean of all that were timed */
        page.job->sites[1].chosen = (struct capo_log_site_chosen){8000, 2};
        capo_judge_places(&page);
        cr_expect_float_eq(page.places[0].time, 1001000 + 98 * 2000, 1e-6);
        cr_expect_float_eq(page.places[1].time, 10 * 4000, 1e-6);
}

Test(places, rules_that_decided)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1024, 10, CAPO_CLOCK_EVENT, 1)->rule = 2;
        made_row(page.job, CAPO_CALL_ALLREDUCE, 2048, 5, CAPO_CLOCK_EVENT, 1)->rule = 2;
        made_row(page.job, CAPO_CALL_ALLREDUCE, 4096, 7, CAPO_CLOCK_EVENT, 1)->rule = 65535;
        made_row(page.job, CAPO_CALL_ALLREDUCE, 8192, 100, CAPO_CLOCK_EVENT, 1);
        made_row(page.job, CAPO_CALL_COMMINIT, 0, 1000, CAPO_CLOCK_HOST, 1);
        page.job->processes[0].rules = strdup(
                "file\t/x/p.json\nrow\t2\t41\tlayout=2+2\tall_reduce\t0\t4096\tTree\tLL128\t0\n"
                "candidate\t65535\tRing\tLL\t4\n");
        capo_judge_places(&page);
        cr_assert(page.n_rules == 2 && page.ruled_calls == 122);
        cr_assert(page.rules[0].rule == 2 && page.rules[0].calls == 15);
        cr_assert_str_eq(
                page.rules[0].text,
                "line 41  layout=2+2: all_reduce 0 B to 4 KiB  Tree LL128, channels NCCL's");
        cr_assert(page.rules[1].rule == 65535 && page.rules[1].calls == 7);
        cr_assert_str_eq(page.rules[1].text, "sweep candidate: Ring LL, channels 4");
}

Test(places, rules_without_their_text_are_numbers)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1024, 10, CAPO_CLOCK_EVENT, 1)->rule = 2;
        capo_judge_places(&page);
        cr_assert(page.n_rules == 1 && !*page.rules[0].text);
}

/* A place that only registered or made something is none; what hands a call on is no frame but when
 * all are wanted. */
Test(places, what_moves_nothing_and_what_hands_on)
{
        site("comm_new+1 x\nmain+1 x", 0, 0, 0, 0);
        site("c10d::ProcessGroupNCCL::allreduce+1 t.so\nc10d::ops::(anonymous)::allreduce_CUDA+1 t.so\nc10::Dispatcher::call+1 "
             "t.so\ntorch/distributed/c10d_logger.py:83 wrapper\ntrain.py:6 <module>",
             1, 10, 0, 0);
        capo_judge_places(&page);
        cr_assert_eq(page.n_places, 1);
        cr_assert_str_eq(page.places[0].line,
                         "c10d::ProcessGroupNCCL::allreduce <- train.py:6 <module>");
}

Test(places, what_a_frame_is_called)
{
        site("f+1\ng+2 x\n_start_all+3\n_startle+3 y\nclonk+1 z", 1, 10, 0, 0);
        page.all = true;
        capo_judge_places(&page);
        cr_expect_str_eq(page.places[0].line, "f+1 <- g <- _start_all+3 <- _startle <- clonk");
}

/* More than a line holds: cut, and nothing behind it. */
Test(places, many_frames)
{
        char text[32 * 100 + 1] = "";

        for (int i = 0; i < 32; i++)
                sprintf(text + strlen(text), "%02d%0*d\n", i, 80, 0);
        site(text, 1, 10, 0, 0);
        page.all = true;
        capo_judge_places(&page);
        cr_expect_eq(strlen(page.places[0].line), 2047);
}

/* The same place seen from two processes, one of which has no times of the GPU. */
Test(places, a_place_that_is_timed_in_one_process)
{
        site("f+1 x", 10, 1, 50, 5);
        site("f+2 x", 10, 1, 0, 0);
        site("g+1 x", 10, 1, 150, 10);
        site("g+2 x", 3, 1, 150, 3);
        site("h+2 x", 3, 9, 0, 0);
        capo_judge_places(&page);
        cr_assert_eq(page.n_places, 3);
        cr_expect_str_eq(page.places[0].line, "g");
        cr_expect(page.places[0].calls == 13 && page.places[0].time == 300 &&
                  page.places[0].share == 0.75);
        cr_expect_str_eq(page.places[1].line, "f");
        cr_expect(page.places[1].calls == 20 && page.places[1].time == 100 &&
                  page.places[1].share == 0.25);
        cr_expect_lt(page.places[2].share, 0);
}

Test(places, in_order_of_time_then_calls_then_name)
{
        site("b+1 x", 3, 100, 0, 0);
        site("a+1 x", 3, 100, 0, 0);
        site("c+1 x", 4, 100, 0, 0);
        site("d+1 x", 1, 0, 0, 0);
        capo_judge_places(&page);
        for (uint32_t i = 0; i < 4; i++)
                cr_expect_eq(*page.places[i].line, "cabd"[i]);
        cr_expect_eq(page.places[3].share, 0);
}

Test(places, calls_that_took_no_time)
{
        site("a+1 x", 3, 0, 0, 0);
        capo_judge_places(&page);
        cr_expect(page.n_places == 1 && page.places[0].share == 0 && !page.places_by_gpu);
        cr_expect(page.n_rules == 0 && page.ruled_calls == 0);
}

Test(places, the_first_rule_and_one_without_an_end)
{
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1024, 10, CAPO_CLOCK_EVENT, 1)->rule = 1;
        page.job->processes[0].rules = strdup(
                "file\t/x/p.json\nrow\t1\t41\tlayout=2+2\tall_reduce\t4096\t18446744073709551615\tRing\tLL\t3\n");
        capo_judge_places(&page);
        cr_assert_eq(page.n_rules, 1);
        cr_expect_str_eq(page.rules[0].text,
                         "line 41  layout=2+2: all_reduce 4 KiB to max  Ring LL, channels 3");
}

Test(places, what_a_call_asks_for)
{
        site("config: algo=ring\nf+1 x\ng+1 x", 1, 10, 0, 0);
        site("config: algo=tree", 1, 9, 0, 0);
        capo_judge_places(&page);
        cr_expect_str_eq(page.places[0].line, "f <- g (asks for algo=ring)");
        cr_expect_str_eq(page.places[1].line, " (asks for algo=tree)");
}
