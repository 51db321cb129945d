/* SPDX-License-Identifier: Apache-2.0 */
/* What is concluded once all logs are in: nodes and clocks, names and order of communicators, sums.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "core/base/clock.h"
#include "core/base/util.h"
#include "analysis/report/job_judge.h"
#include "analysis/job/stats.h"
#include "analysis/job/stats_private.h"
#include "tests/golden/gen_log.h"
#include "tests/unit/made_job.h"
#include "core/log/info.h"
#include "tests/job_add.h"
#include "tests/log_numbers.h"

/* As it is behind the last log: nothing concluded yet. */
static struct capo_job *read_job(uint32_t n_processes, uint32_t n_comms)
{
        struct capo_job *job = capo_job_new();

        job->processes = calloc(n_processes + 1, sizeof *job->processes);
        job->n_processes = n_processes;
        for (uint32_t i = 0; i < n_processes; i++)
                job->processes[i] = (struct capo_job_process){
                        .path = strdup("p"), .host = strdup("h"), .rank = -1};
        job->comms = calloc(n_comms + 1, sizeof *job->comms);
        job->scratch->meets = calloc(n_comms + 1, sizeof *job->scratch->meets);
        job->n_comms = n_comms;
        for (uint32_t i = 0; i < n_comms; i++)
                job->comms[i] = (struct capo_job_comm){
                        .uid = i, .n_ranks = -1, .parent = CAPO_NO_COMM, .color = -1};
        return job;
}

static void members(struct capo_job_comm *c, uint32_t n, const struct capo_job_member *list)
{
        c->members = calloc(n, sizeof *list);
        memcpy(c->members, list, n * sizeof *list);
        c->n_members = n;
}

Test(stats_finish, nodes_and_clocks)
{
        static const struct {
                const char *host[3], *hostid[3], *boot[3];
                const char *nodes, *clocks, *names;
        } rows[] = {
                {{"a", "a", "a"}, {NULL}, {"1", "1", "1"}, "000", "000", "a*3 "},
                {{"a", "a", "a"},
                 {NULL},
                 {"1", "2", "1"},
                 "010",
                 "010",
                 "a*2 a*1 "}, /* two machines of one name */
                {{"a", "b", "a"},
                 {NULL},
                 {"1", "1", "1"},
                 "010",
                 "000",
                 "a*2 b*1 "}, /* containers of one kernel */
                {{"a", "b", "b"}, {"x", "x", NULL}, {"1", "2", "2"}, "001", "011", "x*2 b*1 "},
                {{"a", "b", "b"}, {"x", "y", "x"}, {"1", "1", "1"}, "010", "000", "x*2 y*1 "},
                {{"a", "b", "a"}, {"", "", ""}, {"1", "2", "1"}, "010", "010", "a*2 b*1 "},
                {{"a", "b", "a"}, {NULL}, {NULL}, "010", "010", "a*2 b*1 "},
                {{"a", "a", "b"}, {NULL}, {"1", NULL, "1"}, "001", "000", "a*2 b*1 "},
                {{"a", "a", "b"}, {NULL}, {NULL, "1", "1"}, "001", "000", "a*2 b*1 "},
                {{"a", "b", "c"}, {NULL}, {"1", "2", "3"}, "012", "012", "a*1 b*1 c*1 "},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_job *job = read_job(3, 0);
                char nodes[4] = "", clocks[4] = "", names[64] = "", one[16];
                uint32_t most = 0;

                for (int k = 0; k < 3; k++) {
                        free(job->processes[k].host);
                        job->processes[k].host = strdup(rows[i].host[k]);
                        if (rows[i].hostid[k])
                                made_info(&job->processes[k], CAPO_INFO_NCCL_HOSTID,
                                          rows[i].hostid[k]);
                        if (rows[i].boot[k])
                                made_info(&job->processes[k], CAPO_INFO_BOOT_ID, rows[i].boot[k]);
                }
                capo_job_finish(job);
                for (int k = 0; k < 3; k++) {
                        nodes[k] = (char)('0' + job->processes[k].node);
                        clocks[k] = (char)('0' + job->processes[k].clock);
                        most = job->processes[k].clock > most ? job->processes[k].clock : most;
                }
                for (uint32_t k = 0; k < job->n_nodes; k++) {
                        snprintf(one, sizeof one, "%s*%u ", job->nodes[k].name,
                                 job->nodes[k].n_processes);
                        strcat(names, one);
                }
                cr_expect_str_eq(nodes, rows[i].nodes, "row %zu", i);
                cr_expect_str_eq(clocks, rows[i].clocks, "row %zu", i);
                cr_expect_str_eq(names, rows[i].names, "row %zu", i);
                cr_expect_eq(job->n_clocks, most + 1, "row %zu", i);
                capo_job_free(job);
        }
}

Test(stats_finish, order_of_communicators)
{
        struct capo_job *job = read_job(3, 6);
        struct capo_job_comm *c = job->comms;
        struct capo_job_row row = {.comm = 0, .call = CAPO_CALL_ALLREDUCE, .calls = 1};
        /* most ranks first, then the first member's process, then age, then uid */
        static const uint64_t expected[] = {5, 4, 0, 3, 2, 1};

        c[0].n_ranks = c[1].n_ranks = c[2].n_ranks = c[3].n_ranks = 4;
        c[4].n_ranks = 4;
        c[5].n_ranks = 8;
        members(&c[0], 2,
                (struct capo_job_member[]){{.rank = 1, .process = 2, .t_created_ns = 9},
                                           {.rank = 0, .process = 1, .t_created_ns = 4}});
        members(&c[1], 1, (struct capo_job_member[]){{.process = 2, .t_created_ns = 1}});
        for (int i = 2; i < 4; i++)
                members(&c[i], 2,
                        (struct capo_job_member[]){{.process = 1, .t_created_ns = 7},
                                                   {.rank = 1, .process = 2, .t_created_ns = 8}});
        members(&c[4], 1, (struct capo_job_member[]){{.process = 0, .t_created_ns = 8}});
        c[3].uid = 2;
        c[2].uid = 3;
        c[1].parent = 5;
        c[5].parent = CAPO_NO_COMM;
        job_add_to_row(job, &row, 1);
        row.comm = 5;
        row.bytes = 1;
        job_add_to_row(job, &row, 1);
        row.comm = CAPO_NO_COMM;
        job_add_to_row(job, &row, 1);
        capo_job_finish(job);
        for (uint32_t i = 0; i < 6; i++) {
                uint64_t uid = expected[i] == 3 ? 2 : expected[i] == 2 ? 3 : expected[i];

                cr_expect_eq(job->comms[i].uid, uid, "place %u: %lu", i, job->comms[i].uid);
                cr_expect_eq(job->comms[i].parent, job->comms[i].uid == 1 ? 0 : CAPO_NO_COMM);
        }
        /* rows follow their communicators; the one of none is behind all */
        cr_expect(job->rows[0].comm == 0 && job->rows[0].bytes == 1);
        cr_expect(job->rows[1].comm == 2 && job->rows[1].bytes == 0);
        cr_expect_eq(job->rows[2].comm, CAPO_NO_COMM);
        capo_job_free(job);
}

Test(stats_finish, order_of_members)
{
        static const struct capo_job_member list[] = {{.rank = 2, .process = 0, .id = 1},
                                                      {.rank = 0, .process = 2, .id = 2},
                                                      {.rank = 0, .process = 2, .id = 1},
                                                      {.rank = 0, .process = 1, .id = 9},
                                                      {.rank = -1, .process = 2, .id = 3}};
        static const int expected[] = {4, 3, 2, 1, 0};
        struct capo_job *job = read_job(3, 1);

        members(job->comms, 5, list);
        capo_job_finish(job);
        for (int i = 0; i < 5; i++) {
                const struct capo_job_member *m = &job->comms[0].members[i];

                cr_expect(m->process == list[expected[i]].process &&
                                  m->id == list[expected[i]].id &&
                                  m->rank == list[expected[i]].rank,
                          "%d", i);
        }
        capo_job_free(job);
}

Test(stats_finish, names)
{
        struct made {
                const char *name;
                int n_ranks, color;
                uint32_t parent; /* 1 + its place */
        };
        static const struct {
                struct made comms[4];
                const char *names;
        } rows[] = {
                {{{NULL, 8, -1, 0}, {NULL, 4, 1, 1}, {NULL, 3, -1, 1}, {NULL, 2, 0, 2}},
                 "world world/1 world/split world/1/0 "},
                {{{NULL, 8, -1, 0}, {NULL, 4, -1, 0}, {NULL, 1, -1, 0}, {NULL, 1, -1, 0}},
                 "world comm1 self self#2 "},
                {{{NULL, 8, -1, 0}, {NULL, 8, -1, 0}, {NULL, 8, -1, 0}, {NULL, 1, 5, 0}},
                 "world world#2 world#3 self "},
                {{{"dp", 8, -1, 0}, {"dp", 8, -1, 0}, {"tp", 8, 3, 1}, {NULL, 4, 3, 3}},
                 "dp dp#2 tp tp/3 "},
                {{{"dp", 8, -1, 0}, {"dpx", 8, -1, 0}, {"dp", 8, -1, 0}, {"d", 8, -1, 0}},
                 "dp dpx dp#2 d "},
                {{{"dp#2", 8, -1, 0}, {"dp", 8, -1, 0}, {"dp", 8, -1, 0}, {"x", 8, -1, 0}},
                 "dp#2 dp#3 dp#4 x "},
                {{{"dp#1", 8, -1, 0}, {"dp", 8, -1, 0}, {"self", 8, -1, 0}, {NULL, 1, -1, 0}},
                 "dp#1 dp#2 self self#2 "},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_job *job = read_job(1, 4);
                char names[256] = "";

                for (int k = 0; k < 4; k++) {
                        const struct made *m = &rows[i].comms[k];

                        job->comms[k].name = m->name ? strdup(m->name) : NULL;
                        job->comms[k].n_ranks = m->n_ranks;
                        job->comms[k].color = m->color;
                        job->comms[k].parent = m->parent - 1;
                }
                capo_job_finish(job);
                for (int k = 0; k < 4; k++) {
                        strcat(names, job->comms[k].name);
                        strcat(names, " ");
                }
                cr_expect_str_eq(names, rows[i].names, "row %zu", i);
                capo_job_free(job);
        }
}

/* A launcher's word for a rank goes before the place in a communicator, also where that word is 0.
 */
Test(stats_finish, who_knows_its_rank_keeps_it)
{
        struct capo_job *job = read_job(3, 1);

        members(job->comms, 3,
                (struct capo_job_member[]){
                        {.rank = 2, .process = 0}, {.rank = 1, .process = 1}, {.process = 2}});
        job->comms[0].n_ranks = 3;
        job->processes[0].rank = 0;
        job->processes[2].rank = 2;
        capo_job_finish(job);
        for (int i = 0; i < 3; i++)
                cr_expect_eq(job->processes[i].rank, i);
        capo_job_free(job);
}

Test(stats_finish, how_many_ranks)
{
        static const struct {
                const char *world;
                int of_comm, n_processes, expected;
        } rows[] = {{NULL, -1, 3, 3}, {NULL, 0, 3, 3}, {NULL, 2, 3, 2}, {"8", 2, 3, 8},
                    {"2", 4, 3, 4},   {"4", 4, 3, 4},  {"x", -1, 3, 3}, {"-2", 1, 3, 1}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_job *job = read_job((uint32_t)rows[i].n_processes, 1);

                job->comms[0].n_ranks = rows[i].of_comm;
                if (rows[i].world)
                        made_info(&job->processes[1], CAPO_INFO_WORLD_SIZE, rows[i].world);
                capo_job_finish(job);
                cr_expect_eq(job->n_ranks, rows[i].expected, "row %zu: %d", i, job->n_ranks);
                capo_job_free(job);
        }
}

/* The launcher's rank stands; else that in a communicator of all ranks; one of some ranks says
 * nothing. */
Test(stats_finish, ranks_of_processes)
{
        struct capo_job *job = read_job(3, 2);

        made_info(&job->processes[0], CAPO_INFO_RANK, "2");
        job->comms[0].n_ranks = 3;
        members(&job->comms[0], 2,
                (struct capo_job_member[]){{.rank = 0, .process = 0}, {.rank = 1, .process = 1}});
        job->comms[1].n_ranks = 2;
        members(&job->comms[1], 1, (struct capo_job_member[]){{.rank = 1, .process = 2}});
        capo_job_finish(job);
        cr_expect_eq(job->processes[0].rank, 2);
        cr_expect_eq(job->processes[1].rank, 1);
        cr_expect_eq(job->processes[2].rank, -1);
        capo_job_free(job);
}

/* A process of one GPU has its launcher's rank in every communicator; of several GPUs, that of each
 * in the communicator of all. */
Test(stats_finish, ranks_of_members)
{
        static const struct capo_job_member world[] = {
                {.rank = 0, .process = 0, .device = 0},
                {.rank = 1, .process = 0, .device = 1},
                {.rank = 2, .process = 1, .device = 0},
                {.rank = 3, .process = 1, .device = 1},
        };
        static const struct capo_job_member part[] = {{.rank = 0, .process = 0, .device = 1},
                                                      {.rank = 1, .process = 1, .device = 0},
                                                      {.rank = 2, .process = 1, .device = 5}};
        struct capo_job *job = read_job(2, 2);

        job->comms[0].n_ranks = 4;
        job->comms[1].n_ranks = 3;
        members(&job->comms[0], 4, world);
        members(&job->comms[1], 3, part);
        capo_job_finish(job);
        for (int i = 0; i < 4; i++)
                cr_expect_eq(job->comms[0].members[i].job_rank, i);
        cr_expect_eq(job->comms[1].members[0].job_rank, 1);
        cr_expect_eq(job->comms[1].members[1].job_rank, 2);
        cr_expect_eq(job->comms[1].members[2].job_rank, -1, "no such GPU is in the world");
        capo_job_free(job);
        job = read_job(2, 2);
        job->comms[0].n_ranks = job->comms[1].n_ranks = 2;
        made_info(&job->processes[0], CAPO_INFO_RANK, "1");
        made_info(&job->processes[1], CAPO_INFO_RANK, "3");
        made_info(&job->processes[1], CAPO_INFO_WORLD_SIZE, "4");
        members(&job->comms[0], 2,
                (struct capo_job_member[]){{.rank = 0, .process = 0}, {.rank = 1, .process = 1}});
        capo_job_finish(job);
        for (uint32_t i = 0; i < job->n_comms; i++) {
                for (uint32_t k = 0; k < job->comms[i].n_members; k++)
                        cr_expect_eq(job->comms[i].members[k].job_rank, k ? 3 : 1);
        }
        capo_job_free(job);
}

Test(stats_finish, layouts)
{
        static const uint32_t process[] = {0, 0, 1, 1, 1};
        struct capo_job *job = read_job(3, 2);
        struct capo_job_member list[5] = {{0}};

        for (int i = 0; i < 3; i++)
                made_info(&job->processes[i], CAPO_INFO_NCCL_HOSTID,
                          (const char *const[]){"a", "b", "c"}[i]);
        for (int i = 0; i < 5; i++)
                list[i] = (struct capo_job_member){.rank = i, .process = process[i]};
        job->comms[0].n_ranks = 5;
        members(&job->comms[0], 5, list);
        capo_job_finish(job);
        cr_expect_eq(job->comms[0].n_nodes, 2, "a node without a member is none of it");
        cr_expect_str_eq(job->comms[0].layout, "2+3");
        cr_expect_eq(job->comms[1].n_nodes, 0);
        cr_expect_str_eq(job->comms[1].layout, "");
        capo_job_free(job);
}

Test(stats_finish, sums)
{
        struct capo_job *job = read_job(3, 0);

        for (uint64_t i = 0; i < 3; i++) {
                struct capo_job_process *p = &job->processes[i];

                p->header.t0_real_ns = (const uint64_t[]){5000, 3000, 4000}[i];
                p->last_ns = (const uint64_t[]){10, 20, 2000}[i];
                p->n_records = i + 1;
                p->end = (struct capo_log_end){.calls = 10 * i + 1,
                                               .dropped = 100 * i + 2,
                                               .gpu_dropped = 1000 * i + 3,
                                               .shape_overflow = 10000 * i + 4,
                                               .bytes_lost = 100000 * i + 5,
                                               .cost_ns = i == 1 ? 0 : 20 + 10 * (double)i};
        }
        capo_job_finish(job);
        cr_expect_eq(job->t_begin_ns, 3000);
        cr_expect_eq(job->t_end_ns, 6000);
        cr_expect_eq(job->n_records, 6);
        cr_expect_eq(job->calls, 33);
        cr_expect_eq(job->dropped, 306);
        cr_expect_eq(job->gpu_dropped, 3009);
        cr_expect_eq(job->shape_overflow, 30012);
        cr_expect_eq(job->bytes_lost, 300015);
        cr_expect_eq(job->cost_ns, 30, "of those that measured it: %g", job->cost_ns);
        capo_job_free(job);
        job = read_job(0, 0);
        capo_job_finish(job);
        cr_expect(job->t_begin_ns == 0 && job->t_end_ns == 0 && job->cost_ns == 0 &&
                  job->n_ranks == 0);
        capo_job_free(job);
}

/* A collective counts as often as the rank that made most made it; a send as often as it was made.
 */
Test(stats_finish, what_rows_count)
{
        static const struct {
                unsigned call;
                uint64_t count, on_comm;
        } rows[] = {{CAPO_CALL_ALLREDUCE, 7, 7}, {CAPO_CALL_SCATTER, 7, 7},
                    {CAPO_CALL_SEND, 12, 0},     {CAPO_CALL_PUTSIGNAL, 12, 0},
                    {CAPO_CALL_GROUP, 7, 0},     {CAPO_CALL_COMMINIT, 7, 0}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_job *job = read_job(2, 1);
                struct capo_job_row row = {.call = (uint8_t)rows[i].call, .calls = 5};

                job_add_to_row(job, &row, 1);
                row.calls = 7;
                job_add_to_row(job, &row, 2);
                row.comm = CAPO_NO_COMM;
                job_add_to_row(job, &row, 2);
                capo_job_finish(job);
                cr_expect_eq(job->rows[0].count, rows[i].count, "row %zu: %lu", i,
                             job->rows[0].count);
                cr_expect_eq(job->rows[0].calls, 12);
                cr_expect_eq(job->rows[1].count, 7);
                cr_expect_eq(job->comms[0].n_calls, rows[i].on_comm, "row %zu", i);
                capo_job_free(job);
        }
}

Test(stats_finish, order_of_rows_and_sites)
{
        struct capo_job *job = read_job(1, 2);
        struct capo_job_row row[8] = {{0}};
        static const struct capo_log_site sites[] = {{.text_size = 1, .host_ns = 5},
                                                     {.text_size = 1, .host_ns = 9},
                                                     {.text_size = 1, .host_ns = 5},
                                                     {.text_size = 1, .host_ns = 7}};
        char order[5] = "";

        /* each is behind the one before by one field, and would be before it by all that follow */
        for (int i = 0; i < 8; i++)
                row[i] = (struct capo_job_row){.comm = i > 6,
                                               .call = (uint8_t)(i > 6   ? 1
                                                                 : i > 5 ? 4
                                                                         : 3),
                                               .bytes = i > 5   ? 1
                                                        : i > 4 ? 5
                                                                : 4,
                                               .algo_proto = i > 4   ? 1
                                                             : i > 3 ? 7
                                                                     : 6,
                                               .channels = i > 3   ? 1
                                                           : i > 2 ? 9
                                                                   : 8,
                                               .rule = i > 2   ? 1
                                                       : i > 1 ? 4
                                                               : 3,
                                               .flags = i > 1 ? 0 : (uint8_t)i,
                                               .calls = (uint64_t)i + 1};
        for (int i = 8; i--;)
                job_add_to_row(job, &row[i], 0);
        for (int i = 0; i < 4; i++)
                job_add_site(job, &sites[i], (struct capo_log_site_chosen){0}, &"dbca"[i]);
        capo_job_finish(job);
        for (uint64_t i = 0; i < 8; i++)
                cr_expect_eq(job->rows[i].calls, i + 1, "place %lu: %lu", i, job->rows[i].calls);
        for (int i = 0; i < 4; i++)
                order[i] = *job->sites[i].text;
        cr_expect_str_eq(order, "bacd", "most host time first, then by text");
        capo_job_free(job);
}

/* As many communicators as a process may make, all children of the first, in a log of one rank.
 * Return: ns of the processor. */
static uint64_t read_comms(uint32_t n)
{
        char path[] = "/tmp/capo-test-comms-XXXXXX", last[32], why[256];
        struct capo_job *job = capo_job_new();
        struct capo_page page = {.job = job};
        uint64_t began;
        struct gen_log g;

        close(mkstemp(path));
        gen_log_open(&g, path, 1);
        gen_log_text(&g, CAPO_FRAME_INFO, "host\tn0");
        for (uint32_t i = 1; i <= n; i++) {
                gen_log_comm(&g,
                             (struct capo_log_comm){.uid = 0x9e3779b9ull * i,
                                                    .id = (uint16_t)i,
                                                    .n_ranks = 2,
                                                    .parent = i > 1,
                                                    .color = -1,
                                                    .t_created = i},
                             "");
                gen_log_cell(&g,
                             (struct capo_log_cell){.id = (uint16_t)i,
                                                    .comm = (uint16_t)i,
                                                    .call = CAPO_CALL_ALLREDUCE,
                                                    .bytes = 8,
                                                    .count = 1,
                                                    .result = 1},
                             NULL, NULL);
        }
        gen_log_close(&g);
        began = capo_clock_of(CLOCK_PROCESS_CPUTIME_ID);
        cr_assert_eq(add_log(job, path, why, sizeof why), 0, "%s", why);
        unlink(path);
        capo_job_finish(job);
        capo_judge_rows(&page);
        began = capo_clock_of(CLOCK_PROCESS_CPUTIME_ID) - began;
        cr_assert(job->n_comms == n && job->n_failures == n);
        cr_assert_str_eq(job->comms[0].name, "world");
        cr_assert_str_eq(job->comms[1].name, "world/split");
        snprintf(last, sizeof last, "world/split#%u", n - 1);
        cr_assert_str_eq(job->comms[n - 1].name, last);
        capo_page_finish(&page); /* with the job */
        return began;
}

/* Sixteen times as many take about so much longer; it was a hundred times and more. */
Test(stats_finish, many_communicators, .timeout = 300)
{
        uint64_t few = read_comms(3000), many = read_comms(48000);

        cr_expect_lt(many, 60 * few, "%llu ns, of 3,000 %llu", (unsigned long long)many,
                     (unsigned long long)few);
}
