/* SPDX-License-Identifier: Apache-2.0 */
/* Four ranks that all made the same three all-reduces and stand in the last: were they run alike?
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/base/calls.h"
#include "analysis/hang/hang_verdict.h"
#include "tests/log_numbers.h"

enum { RANKS = 4, CALLS = 3, S = 1000000000, RING_LL = 0x21, RING_SIMPLE = 0x23, TREE_LL = 0x11 };

static struct capo_hang_call calls[RANKS][CALLS];
static struct capo_hang_process processes[RANKS];
static struct capo_hang_member members[RANKS];
static struct capo_hang_comm comm;
static struct capo_hang_job job;
static struct capo_hang_verdict v;
static char profile[RANKS][8];

static void set_up(void)
{
        for (uint32_t i = 0; i < RANKS; i++) {
                for (uint32_t k = 0; k < CALLS; k++)
                        calls[i][k] = (struct capo_hang_call){
                                .begin_ns = (900 + k) * (uint64_t)S,
                                .end_ns = (900 + k) * (uint64_t)S + 1000,
                                .bytes = 4096,
                                .seq = k + 1,
                                .peer = -1,
                                .member = i,
                                .stream = 1,
                                .thread = 1,
                                .call = CAPO_CALL_ALLREDUCE,
                                .type = 7,
                                .algo_proto = RING_LL,
                                .channels = 2,
                                .gpu = k + 1 < CALLS ? CAPO_HANG_GPU_ENDED : CAPO_HANG_GPU_RUNNING};
                strcpy(profile[i], "aaaa");
                processes[i] = (struct capo_hang_process){.rank = (int32_t)i,
                                                          .end_ns = 1000ull * S,
                                                          .calls = calls[i],
                                                          .n_calls = CALLS,
                                                          .tuned = profile[i]};
                members[i] = (struct capo_hang_member){
                        .process = i, .rank = (int32_t)i, .issued = CALLS, .whole_p2p = true};
        }
        comm = (struct capo_hang_comm){
                .name = "world", .n_ranks = RANKS, .members = members, .n_members = RANKS};
        job = (struct capo_hang_job){.processes = processes,
                                     .n_processes = RANKS,
                                     .n_ranks = RANKS,
                                     .comms = &comm,
                                     .n_comms = 1,
                                     .now_ns = 1000ull * S,
                                     .after_ns = 10ull * S};
}

static void over(void) { capo_hang_verdict_finish(&v); }

TestSuite(tuned, .init = set_up, .fini = over);

/* Culprits are the processes of @who ("0 3"); they differ in @what. */
static void says(enum capo_hang_kind kind, const char *who, const char *what)
{
        char text[100] = "";

        capo_hang_verdict_finish(&v);
        capo_hang_judge(&job, &v);
        for (uint32_t i = 0; i < v.n_culprits; i++)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u", i ? " " : "",
                         v.culprits[i].process);
        cr_assert_eq(v.kind, kind, "%s: %s", capo_hang_kind_name(v.kind), text);
        cr_assert_str_eq(text, who);
        for (uint32_t i = 0; i < v.n_culprits && what; i++) {
                cr_assert_eq(v.culprits[i].why, CAPO_HANG_WHY_TUNED);
                cr_assert(!v.culprits[i].differs || !strcmp(v.culprits[i].differs, what), "%s",
                          v.culprits[i].differs);
        }
}

static void nobody_timed(void)
{
        for (uint32_t i = 0; i < RANKS; i++) {
                for (uint32_t k = 0; k < CALLS; k++)
                        calls[i][k].gpu = CAPO_HANG_GPU_UNKNOWN;
        }
}

Test(tuned, alike)
{
        says(CAPO_HANG_RUNNING, "0 1 2 3", NULL);
        strcpy(profile[2],
               "bbbb"); /* another profile with the same word for this call is not why */
        says(CAPO_HANG_RUNNING, "0 1 2 3", NULL);
        calls[2][CALLS - 1].channels = 0; /* not known */
        says(CAPO_HANG_RUNNING, "0 1 2 3", NULL);
}

Test(tuned, one_ran_it_otherwise)
{
        calls[2][CALLS - 1].algo_proto = TREE_LL;
        says(CAPO_HANG_TUNED, "2", "algorithm");
        cr_assert(v.seq == CALLS && v.sure == CAPO_HANG_CERTAIN && v.most != 2 &&
                  v.call->algo_proto == RING_LL);
        calls[2][CALLS - 1].algo_proto = RING_SIMPLE;
        says(CAPO_HANG_TUNED, "2", "protocol");
        calls[2][CALLS - 1].algo_proto = RING_LL;
        calls[2][CALLS - 1].channels = 4;
        says(CAPO_HANG_TUNED, "2", "channels");
        job.now_ns = (901 + CALLS) * (uint64_t)S; /* not for long enough */
        says(CAPO_HANG_HEALTHY, "", NULL);
}

Test(tuned, the_first_that_was_not_alike)
{
        for (uint32_t i = 0; i < RANKS; i++) /* handed over behind it, and looked at */
                calls[i][1].gpu = CAPO_HANG_GPU_UNKNOWN;
        calls[3][1].algo_proto = calls[3][2].algo_proto = TREE_LL;
        says(CAPO_HANG_TUNED, "3", "algorithm");
        cr_assert_eq(v.seq, 2);
        for (uint32_t i = 0; i < RANKS; i++) /* that one has ended everywhere */
                calls[i][1].gpu = CAPO_HANG_GPU_ENDED;
        says(CAPO_HANG_TUNED, "3", "algorithm");
        cr_assert_eq(v.seq, 3);
        calls[0][2].gpu = CAPO_HANG_GPU_ENDED; /* through with it, while the others stand */
        says(CAPO_HANG_TUNED, "3", "algorithm");
        cr_assert_eq(v.seq, 3);
}

Test(tuned, no_side_is_larger)
{
        calls[2][CALLS - 1].algo_proto = calls[3][CALLS - 1].algo_proto = TREE_LL;
        says(CAPO_HANG_TUNED, "0 1 2 3", "algorithm");
}

Test(tuned, profiles_where_nobody_knows_what_ran)
{
        for (uint32_t i = 0; i < RANKS; i++)
                calls[i][CALLS - 1].algo_proto = 0;
        says(CAPO_HANG_RUNNING, "0 1 2 3", NULL);
        strcpy(profile[1], "none");
        says(CAPO_HANG_TUNED, "1", "profile");
        cr_assert_eq(v.sure, CAPO_HANG_LIKELY);
        processes[1].tuned = NULL; /* not known: no reason */
        says(CAPO_HANG_RUNNING, "0 1 2 3", NULL);
}

Test(tuned, settings_where_nobody_knows_what_ran)
{
        for (uint32_t i = 0; i < RANKS; i++) {
                calls[i][CALLS - 1].algo_proto = 0;
                processes[i].settings = (char *)"";
        }
        says(CAPO_HANG_RUNNING, "0 1 2 3", NULL);
        processes[2].settings = (char *)"NCCL_ALGO=Tree";
        says(CAPO_HANG_TUNED, "2", "settings");
        cr_assert_eq(v.sure, CAPO_HANG_LIKELY);
        strcpy(profile[2], "none");
        says(CAPO_HANG_TUNED, "2", "profile");
        strcpy(profile[2], "aaaa");
        processes[2].settings = NULL; /* not known: no reason */
        says(CAPO_HANG_RUNNING, "0 1 2 3", NULL);
}

Test(tuned, where_no_gpu_is_timed)
{
        nobody_timed();
        says(CAPO_HANG_UNDECIDED, "", NULL);
        strcpy(profile[1], "none"); /* it may do nothing at all */
        says(CAPO_HANG_UNDECIDED, "", NULL);
        calls[1][CALLS - 1].algo_proto = RING_SIMPLE;
        says(CAPO_HANG_TUNED, "1", "protocol");
        cr_assert_eq(v.sure, CAPO_HANG_LIKELY);
}
