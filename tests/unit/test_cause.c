/* SPDX-License-Identifier: Apache-2.0 */
/* Why the rank that others wait for is late: host, GPU or network. */
#include "analysis/report/late_cause.h"
#include "analysis/report/job_judge.h"
#include "tests/unit/made_job.h"

#define HOT  "looks 12 busy 11 sm 345 least 345 max 1980 celsius 91 hw_slowdown 2 hw_thermal 11"
#define FINE "looks 12 busy 12 sm 1980 least 1980 max 1980 celsius 60"

static struct capo_job *job;
static struct capo_skew *skew;

/* Four ranks of which the last is late by the clocks of the GPUs. */
static void begin(void)
{
        job = made_job(4);
        skew = made_skew(job, 10000, (uint32_t[]){0, 0, 0, 10000}, NULL);
        for (int i = 0; i < 4; i++)
                job->comms[0].members[i].device = 0;
}

static void end(void) { capo_job_free(job); }

TestSuite(cause, .init = begin, .fini = end);

static void clocks(unsigned rank, const char *text)
{
        made_info(&job->processes[rank], "gpu.clocks.0", text);
}

static void others(const char *text)
{
        for (unsigned i = 0; i < 3; i++)
                clocks(i, text);
}

static struct capo_late_cause cause(void) { return capo_late_cause(job, 0, 3, NULL); }

static const char *said(void)
{
        static char text[512];
        struct capo_late_cause c = cause();

        return capo_cause_print(&c, text, sizeof text);
}

Test(cause, a_gpu_slower_than_the_others_that_something_holds_back)
{
        clocks(3, HOT);
        others(FINE);
        cr_assert_eq(cause().by, CAPO_CAUSE_GPU);
        cr_assert(cause().throttled);
        cr_assert_str_eq(
                said(),
                "its GPU is throttled: 345 MHz, the others 1980, 91 C: slowed by the hardware in 2 of 12 samples, "
                "too hot (hardware) in 11 of 12 samples");
}

/* A program waits for its GPU: a slow one makes the host late as well. */
Test(cause, a_throttled_gpu_goes_before_a_late_host)
{
        skew->host_late = true;
        clocks(3, HOT);
        others(FINE);
        cr_assert_eq(cause().by, CAPO_CAUSE_GPU);
}

Test(cause, all_as_slow_is_nobodys_cause)
{
        clocks(3, HOT);
        others(HOT);
        skew->host_late = true;
        cr_assert_eq(cause().by, CAPO_CAUSE_HOST);
        cr_assert_not(cause().throttled);
        cr_assert_str_eq(said(), "");
        cr_assert_eq(cause().clocks.samples, 12, "and what is known of it is told");
}

Test(cause, without_samples_of_others_its_own_highest_clock_is_the_measure)
{
        clocks(3, HOT);
        cr_assert(cause().throttled);
        cr_assert_str_eq(
                said(),
                "its GPU is throttled: 345 MHz of 1980, 91 C: slowed by the hardware in 2 of 12 samples, "
                "too hot (hardware) in 11 of 12 samples");
        clocks(0, "looks 3 busy 0 sm 0 least 0 max 1980 celsius 0 idle 3");
        cr_assert(cause().throttled, "who was idle is no measure");
}

/* A rank that computes meets its power limit, those that wait for it do not. */
Test(cause, a_power_limit_counts_where_much_is_lost)
{
        others(FINE);
        clocks(3, "looks 9 busy 9 sm 1500 least 1400 max 1980 celsius 70 power_cap 9");
        cr_assert_not(cause().throttled);
        job->processes[3].n_info = 0;
        clocks(3, "looks 9 busy 9 sm 1380 least 1300 max 1980 celsius 70 power_cap 9");
        cr_assert(cause().throttled);
        cr_assert_str_eq(
                said(),
                "its GPU is throttled: 1380 MHz, the others 1980, 70 C: its power limit in 9 of 9 samples");
}

Test(cause, a_reason_seen_once_in_a_while_is_none)
{
        others(FINE);
        clocks(3, "looks 100 busy 100 sm 1500 least 345 max 1980 celsius 70 hw_thermal 24");
        cr_assert_not(cause().throttled);
        job->processes[3].n_info = 0;
        clocks(3, "looks 100 busy 100 sm 1500 least 345 max 1980 celsius 70 hw_thermal 25");
        cr_assert(cause().throttled);
        job->processes[3].n_info = 0;
        clocks(3, "looks 100 busy 100 sm 1790 least 345 max 1980 celsius 70 hw_thermal 100");
        cr_assert_not(cause().throttled, "a tenth is how GPUs of one kind differ");
}

Test(cause, an_idle_gpu_is_not_throttled)
{
        others(FINE);
        clocks(3, "looks 5 busy 0 sm 0 least 0 max 1980 celsius 0 idle 5");
        cr_assert_not(cause().throttled);
}

Test(cause, host_or_gpu_by_the_calls_alone)
{
        cr_assert_eq(cause().by, CAPO_CAUSE_GPU, "late on the GPU, and the host is not");
        cr_assert_not(cause().throttled);
        skew->host_late = true;
        cr_assert_eq(cause().by, CAPO_CAUSE_HOST);
        cr_assert_str_eq(said(), "");
}

static void sends(unsigned rank, const char *tx)
{
        char text[512];

        snprintf(text, sizeof text,
                 "snapshot\t3\ndomain\tid=1\tdomain=0\tname=nic\ttx_ns=%s\ncomplete\t3\n", tx);
        job->processes[rank].fabric = strdup(text);
}

Test(cause, a_network_three_times_as_slow_as_the_others)
{
        skew->host_late = true;
        sends(0, "16,160000,20000;9:16");
        sends(1, "15,1,1;9:15");
        sends(2, "100,1200000,20000;9:100");
        sends(3, "20,620000,40000;9:20");
        cr_assert_eq(cause().by, CAPO_CAUSE_NETWORK);
        cr_assert_str_eq(
                said(),
                "its network is slow: what it posts takes 31 us to complete, the others' 10 us");
        free(job->processes[3].fabric);
        sends(3, "20,600000,40000;9:20");
        cr_assert_eq(cause().by, CAPO_CAUSE_HOST);
        free(job->processes[3].fabric);
        sends(3, "15,6200000,400000;9:15");
        cr_assert_eq(cause().by, CAPO_CAUSE_HOST, "of a few sends nothing is said");
}

static bool now(const struct capo_job *j, uint32_t process, int32_t device,
                struct capo_gpu_clocks *out)
{
        return capo_gpu_clocks_read(
                process == 3 ? "looks 1 busy 1 sm 700 least 700 max 1980 celsius 95 power_brake 1"
                             : FINE,
                out);
}

static bool fine_now(const struct capo_job *j, uint32_t process, int32_t device,
                     struct capo_gpu_clocks *out)
{
        return capo_gpu_clocks_read(FINE, out);
}

Test(cause, this_moment_goes_before_the_log_where_it_tells_more)
{
        struct capo_late_cause c = capo_late_cause(job, 0, 3, now);
        char text[512];

        cr_assert_str_eq(
                capo_cause_print(&c, text, sizeof text),
                "its GPU is throttled now: 700 MHz, the others 1980, 95 C: power brake of the system");
        c = capo_late_cause(job, 0, 3, fine_now);
        cr_assert(!c.throttled && c.now && c.by == CAPO_CAUSE_GPU);
        clocks(3, HOT);
        others(FINE);
        c = capo_late_cause(job, 0, 3, fine_now);
        cr_assert(c.throttled && !c.now);
}

Test(cause, a_rank_of_no_known_gpu)
{
        clocks(3, HOT);
        job->comms[0].members[3].device = -1;
        cr_assert_eq(cause().clocks.samples, 0);
}

Test(cause, it_is_in_the_sentence)
{
        struct capo_page page = {.job = job};

        clocks(3, HOT);
        others(FINE);
        capo_judge_waits(&page);
        cr_assert(strstr(
                page.waits[0].text,
                "(by GPU durations); its GPU is throttled: 345 MHz, the others 1980, 91 C: "));
        cr_assert_eq(page.waits[0].cause.by, CAPO_CAUSE_GPU);
        cr_assert_str_eq(capo_cause_name(page.waits[0].cause.by), "gpu");
        page.job = NULL;
        capo_page_finish(&page);
}
