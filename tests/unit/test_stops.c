/* SPDX-License-Identifier: Apache-2.0 */
/* Times in which a process did not run, and who waited for it. */
#include <criterion/criterion.h>

#include "analysis/job/stops.h"

enum { RANKS = 3 };
#define S UINT64_C(1000000000)

static struct capo_job_info stopped = {.key = (char *)"stopped",
                                       .value = (char *)"2000000000 3000000000\nnonsense\n"
                                                        "20000000000 10000000000\n"
                                                        "2000000000 3000000000\n"
                                                        "20500000000 9500000000"};
static struct capo_job_process process[RANKS];
static struct capo_job_member member[RANKS];
static struct capo_job_comm comm = {.members = member, .n_members = RANKS, .n_ranks = RANKS};
static struct capo_job job = {
        .processes = process, .n_processes = RANKS, .comms = &comm, .n_comms = 1};

/* Rank 1 is stopped; all are silent from second 19 to 31. */
static void start(void)
{
        for (uint32_t i = 0; i < RANKS; i++) {
                process[i] = (struct capo_job_process){.rank = (int)i};
                process[i].header.t0_real_ns = 1000 * S;
                capo_silences_add(&process[i].still, 19 * S, 12 * S);
                member[i] = (struct capo_job_member){.rank = (int)i, .process = i};
        }
        process[1].info = &stopped;
        process[1].n_info = 1;
}

TestSuite(stops, .init = start);

static double waited_for_second_stop(void)
{
        struct capo_stop stop[4];

        cr_assert_eq(capo_stops_of(&process[1], stop, 4), 2); /* each is there twice */
        return capo_stop_waiting(&job, &comm, 1, &stop[1]) / (double)S;
}

Test(stops, lines_of_a_log)
{
        struct capo_stop stop[4];

        cr_assert_eq(capo_stops_of(&process[0], stop, 4), 0);
        cr_assert_eq(capo_stops_of(&process[1], stop, 1), 1);
        cr_assert_float_eq(stop[0].from, 1002e9, 1);
        cr_assert_float_eq(stop[0].to, 1005e9, 1);
        cr_assert(capo_stops_covers(&process[1], 1001e9, 1004e9));
        cr_assert_not(capo_stops_covers(&process[1], 1000e9, 1004e9));
        cr_assert_not(capo_stops_covers(&process[0], 1002e9, 1005e9));
}

Test(stops, all_others_waited) { cr_assert_float_eq(waited_for_second_stop(), 2 * 10, 0.01); }

Test(stops, one_of_them_did_not_run_either)
{
        process[2].info = &stopped;
        process[2].n_info = 1;
        cr_assert_eq(waited_for_second_stop(), 0);
}

Test(stops, a_silence_that_lasted_much_longer_was_for_something_else)
{
        process[2].still.n = 0;
        capo_silences_add(&process[2].still, 10 * S, 60 * S);
        cr_assert_eq(waited_for_second_stop(), 0);
}
