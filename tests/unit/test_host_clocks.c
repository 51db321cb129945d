/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts whose clocks are hours apart are recognized by when they made their communicators. */
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "analysis/report/job_judge.h"
#include "analysis/job/stats.h"
#include "analysis/job/stats_private.h"

static void members(struct capo_job_comm *c, const struct capo_job_member *list)
{
        c->members = calloc(2, sizeof *list);
        memcpy(c->members, list, 2 * sizeof *list);
        c->n_members = 2;
}

#define SECOND 1000000000ll

/* Three hosts; the first and the second made one communicator together, 100 s after the first
 * began, the second and the third another one. @second, @third: what their clocks show then, less
 * what they should. */
static struct capo_job *three_hosts(int64_t second, int64_t third, uint32_t flags)
{
        static const char *const hosts[] = {"a", "b", "c"};
        struct capo_job *job = capo_job_new();

        job->processes = calloc(4, sizeof *job->processes);
        job->n_processes = 3;
        job->comms = calloc(3, sizeof *job->comms);
        job->scratch->meets = calloc(3, sizeof *job->scratch->meets);
        job->n_comms = 2;
        for (uint32_t i = 0; i < 2; i++)
                job->comms[i] = (struct capo_job_comm){
                        .uid = i + 1, .n_ranks = 2, .parent = CAPO_NO_COMM, .color = -1};
        for (uint32_t i = 0; i < 3; i++) {
                job->processes[i] = (struct capo_job_process){.path = strdup("p"),
                                                              .host = strdup(hosts[i]),
                                                              .rank = (int32_t)i,
                                                              .end.clean = 1,
                                                              .has_end = true};
                job->processes[i].header.t0_real_ns = (uint64_t)(100000 * SECOND + (i == 1 ? second
                                                                                    : i == 2 ? third
                                                                                             : 0));
                job->processes[i].last_ns = 500 * SECOND;
        }
        members(&job->comms[0], (struct capo_job_member[]){
                                        {.rank = 0,
                                         .process = 1,
                                         .t_created_ns = (uint64_t)(100200 * SECOND + second),
                                         .flags = flags},
                                        {.rank = 1,
                                         .process = 2,
                                         .t_created_ns = (uint64_t)(100200 * SECOND + third),
                                         .t_destroyed_ns = (uint64_t)(100300 * SECOND + third)}});
        members(&job->comms[1], (struct capo_job_member[]){
                                        {.rank = 0, .process = 0, .t_created_ns = 100100 * SECOND},
                                        {.rank = 1,
                                         .process = 1,
                                         .t_created_ns = (uint64_t)(100100 * SECOND + second)}});
        capo_job_finish(job);
        return job;
}

Test(host_clocks, hours_apart)
{
        struct capo_job *job = three_hosts(7200 * SECOND, -1800 * SECOND, 0);
        struct capo_page page = {.job = job};

        for (uint32_t i = 0; i < 3; i++)
                cr_expect_eq(job->processes[i].header.t0_real_ns, 100000 * SECOND, "%u", i);
        cr_expect_eq(job->processes[1].ahead_ns, 7200 * SECOND);
        cr_expect_eq(job->processes[2].ahead_ns, -1800 * SECOND);
        cr_expect_eq(capo_job_duration_ns(job), 500 * SECOND);
        for (uint32_t i = 0; i < 2; i++) {
                for (uint32_t k = 0; k < 2; k++) {
                        const struct capo_job_member *m = &job->comms[i].members[k];

                        cr_expect_eq(m->t_created_ns,
                                     (m->t_destroyed_ns || m->process == 1) &&
                                                     m->t_created_ns > 100150 * SECOND
                                             ? 100200 * SECOND
                                             : 100100 * SECOND);
                        cr_expect(!m->t_destroyed_ns || m->t_destroyed_ns == 100300 * SECOND);
                }
        }
        capo_judge_problems(&page);
        cr_assert_eq(page.n_problems, 2);
        cr_expect_str_eq(
                page.problems[0].text,
                "the clock of b is 2 h 00 min ahead of that of a, by when they had made their "
                "communicators: its times here are by the latter");
        cr_expect_str_eq(
                page.problems[1].text,
                "the clock of c is 30 min 00 s behind that of a, by when they had made their "
                "communicators: its times here are by the latter");
        capo_page_finish(&page); /* with the job */
}

/* A minute may be what the making took on one of them. */
Test(host_clocks, need_not_be_apart)
{
        struct capo_job *job = three_hosts(60 * SECOND, 0, 0);

        cr_expect(!job->processes[1].ahead_ns && !job->processes[2].ahead_ns);
        cr_expect_eq(capo_job_duration_ns(job), 560 * SECOND);
        capo_job_free(job);
        job = three_hosts(0, 7200 * SECOND,
                          CAPO_COMM_NONBLOCKING); /* then the call returned before it was made */
        cr_expect(!job->processes[1].ahead_ns && !job->processes[2].ahead_ns);
        capo_job_free(job);
}
