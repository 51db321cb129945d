/* SPDX-License-Identifier: Apache-2.0 */
/* Which logs are of one job, whatever their folders. Times are seconds. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "analysis/log/live_jobs.h"
#include "tests/golden/gen_log.h"
#include "tests/log_numbers.h"

#define SECOND 1000000000ull

struct made {
        const char *name;  /* folder/log */
        int rank, n_ranks; /* as the launcher reported; -1 */
        const char *id;    /* the launcher's job */
        uint64_t uid[2];   /* of its communicators; 0 none */
        int comm_ranks;
        unsigned begin, end; /* end 0: killed */
};

static char top[64];

static void start(void)
{
        strcpy(top, "/tmp/capo-test-jobs-XXXXXX");
        cr_assert_not_null(mkdtemp(top));
}

static void stop(void)
{
        char command[96];

        snprintf(command, sizeof command, "rm -rf %s", top);
        cr_assert_eq(system(command), 0);
}

TestSuite(log_jobs, .init = start, .fini = stop);

static void make(const struct made *m, const char *path)
{
        struct capo_log_header header = {.magic = CAPO_LOG_MAGIC,
                                         .order = CAPO_LOG_ORDER,
                                         .version = 1,
                                         .min_reader = 1,
                                         .header_size = sizeof header,
                                         .t0_real_ns = 1795183331 * SECOND + m->begin * SECOND,
                                         .ticks_per_s = SECOND};
        char text[200], *end = text;
        struct gen_log g;

        gen_log_open_with(&g, path, &header);
        end += sprintf(end, "host\tnode\n");
        if (m->rank >= 0)
                end += sprintf(end, "rank\t%d\nworld_size\t%d\n", m->rank, m->n_ranks);
        if (m->id)
                sprintf(end, "job\t%s\n", m->id);
        gen_log_text(&g, CAPO_FRAME_INFO, text);
        for (unsigned i = 0; i < 2 && m->uid[i]; i++)
                gen_log_comm(&g,
                             (struct capo_log_comm){.id = (uint16_t)(i + 1),
                                                    .n_ranks = m->comm_ranks,
                                                    .uid = m->uid[i]},
                             "c");
        if (m->end) {
                struct capo_log_end e = {.t_ns = (m->end - m->begin) * SECOND, .clean = 1};

                gen_log_frame(&g, CAPO_FRAME_END, &e, sizeof e);
        }
        gen_log_close(&g);
}

static int number_jobs(char *const *path, size_t n, uint32_t *job, struct capo_log_job **jobs)
{
        _cleanup_(capo_log_paths_finish) struct capo_log_paths paths = {0};

        for (size_t i = 0; i < n; i++)
                capo_log_paths_add(&paths, path[i], NULL);
        return capo_log_jobs(&paths, job, jobs);
}

/* The number of each log's job, a digit each; "-": not readable. */
static const char *jobs_of(const struct made *made, unsigned n)
{
        _cleanup_free_ struct capo_log_job *jobs = NULL;
        static char said[32];
        char *path[16];
        uint32_t job[16];
        int n_jobs;

        for (unsigned i = 0; i < n; i++) {
                char *slash;

                cr_assert_gt(asprintf(&path[i], "%s/%s", top, made[i].name), 0);
                slash = strrchr(path[i], '/');
                *slash = 0;
                mkdir(path[i], 0700);
                *slash = '/';
                if (made[i].begin)
                        make(&made[i], path[i]);
                else
                        fclose(fopen(path[i], "w"));
        }
        n_jobs = number_jobs(path, n, job, &jobs);
        cr_assert_geq(n_jobs, 0);
        for (int g = 0; g < n_jobs; g++) {
                uint32_t logs = 0;

                for (unsigned i = 0; i < n; i++)
                        logs += job[i] == (uint32_t)g;
                cr_assert_eq(logs, jobs[g].n_logs);
                cr_assert(!g || jobs[g].begin_ns >= jobs[g - 1].begin_ns,
                          "the oldest is the first");
        }
        for (unsigned i = 0; i < n; i++) {
                said[i] = job[i] == CAPO_LOG_NO_JOB ? '-' : (char)('0' + job[i]);
                free(path[i]);
        }
        said[n] = 0;
        return said;
}

#define JOBS(...)                                               \
        ({                                                      \
                const struct made made_[] = {__VA_ARGS__};      \
                jobs_of(made_, sizeof made_ / sizeof made_[0]); \
        })

Test(log_jobs, a_communicator_joins_whatever_the_folder_and_the_time)
{
        cr_assert_str_eq(
                JOBS({"a/1", 0, 2, "x", {7}, 2, 10, 20}, {"b/1", 1, 2, "y", {7}, 2, 500, 600}),
                "00");
        cr_assert_str_eq(JOBS({"a/1", -1, -1, NULL, {7, 8}, 2, 10, 20},
                              {"b/1", -1, -1, NULL, {8, 9}, 2, 10, 20},
                              {"c/1", -1, -1, NULL, {9}, 2, 10, 20}),
                         "000", "by way of another log");
}

Test(log_jobs, two_jobs_in_one_folder)
{
        cr_assert_str_eq(
                JOBS({"a/1", 0, 2, "x", {7}, 2, 50, 60}, {"a/2", 1, 2, "x", {7}, 2, 50, 60},
                     {"a/3", 0, 2, "x", {8}, 2, 10, 20}, {"a/4", 1, 2, "x", {8}, 2, 10, 20}),
                "1100", "one after the other");
        cr_assert_str_eq(
                JOBS({"a/1", 0, 2, "x", {7}, 2, 10, 60}, {"a/2", 0, 2, "x", {8}, 2, 11, 60}), "01",
                "both at once: rank 0 is there twice");
        cr_assert_str_eq(
                JOBS({"a/1", -1, -1, NULL, {0}, 0, 10, 20}, {"a/2", -1, -1, NULL, {0}, 0, 21, 30}),
                "01", "without communicators, ranks and overlap");
}

Test(log_jobs, ranks_without_a_communicator_of_all)
{
        cr_assert_str_eq(
                JOBS({"a/1", 0, 4, NULL, {7}, 2, 10, 60}, {"a/2", 1, 4, NULL, {7}, 2, 10, 60},
                     {"a/3", 2, 4, NULL, {8}, 2, 11, 60}, {"b/1", 3, 4, NULL, {8}, 2, 11, 60}),
                "0000", "two pairs");
        cr_assert_str_eq(
                JOBS({"a/1", 0, 2, NULL, {0}, 0, 10, 60}, {"b/1", 1, 2, NULL, {0}, 0, 11, 60}),
                "00");
        cr_assert_str_eq(
                JOBS({"a/1", 0, 2, NULL, {0}, 0, 10, 0}, {"a/2", 1, 2, NULL, {0}, 0, 12, 60}), "00",
                "a rank that was killed has no end");
        cr_assert_str_eq(
                JOBS({"a/1", 0, 2, NULL, {0}, 0, 10, 20}, {"a/2", 1, 2, NULL, {0}, 0, 100, 110}),
                "01");
        cr_assert_str_eq(
                JOBS({"a/1", 0, 2, NULL, {0}, 0, 10, 60}, {"b/1", 1, 3, NULL, {0}, 0, 11, 60}),
                "01", "of 2 and of 3 ranks");
        cr_assert_str_eq(
                JOBS({"a/1", 0, 2, "x", {0}, 0, 10, 60}, {"a/2", 1, 2, "y", {0}, 0, 11, 60}), "01",
                "two ids of the launcher");
        cr_assert_str_eq(
                JOBS({"a/1", -1, -1, NULL, {0}, 0, 10, 60}, {"a/2", -1, -1, NULL, {0}, 0, 11, 60}),
                "00", "nothing is known, but one folder and one time");
        cr_assert_str_eq(
                JOBS({"a/1", -1, -1, NULL, {0}, 0, 10, 60}, {"b/1", -1, -1, NULL, {0}, 0, 11, 60}),
                "01");
        cr_assert_str_eq(
                JOBS({"a/1", 0, 1, NULL, {7}, 1, 10, 60}, {"b/1", 0, 1, NULL, {8}, 1, 11, 60}),
                "01", "two jobs of one rank");
        cr_assert_str_eq(
                JOBS({"a/1", 0, 1, NULL, {7}, 1, 10, 60}, {"b/1", 1, 1, NULL, {8}, 1, 11, 60}),
                "01", "ranks of jobs of one rank");
}

/* Clocks of hosts differ by up to a minute; on one host, where nothing tells ranks apart, logs of
 * one job overlap. */
Test(log_jobs, a_minute_between_and_no_more)
{
        cr_assert_str_eq(
                JOBS({"a/1", 0, 2, NULL, {0}, 0, 10, 20}, {"a/2", 1, 2, NULL, {0}, 0, 80, 90}),
                "00");
        cr_assert_str_eq(
                JOBS({"a/1", 0, 2, NULL, {0}, 0, 10, 20}, {"a/2", 1, 2, NULL, {0}, 0, 81, 90}),
                "01");
        cr_assert_str_eq(
                JOBS({"a/1", 0, 2, NULL, {0}, 0, 80, 90}, {"a/2", 1, 2, NULL, {0}, 0, 10, 20}),
                "00");
        cr_assert_str_eq(
                JOBS({"a/1", 0, 2, NULL, {0}, 0, 81, 90}, {"a/2", 1, 2, NULL, {0}, 0, 10, 20}),
                "10");
        cr_assert_str_eq(
                JOBS({"a/1", -1, -1, NULL, {0}, 0, 10, 20}, {"a/2", -1, -1, NULL, {0}, 0, 20, 30}),
                "00");
}

Test(log_jobs, a_helper_of_a_rank_is_of_its_job)
{
        cr_assert_str_eq(JOBS({"a/1", 0, 2, NULL, {7}, 2, 10, 60},
                              {"a/2", 1, 2, NULL, {7}, 2, 10, 60},
                              {"a/3", 0, 2, NULL, {9}, 1, 12, 40}),
                         "000");
}

Test(log_jobs, what_cannot_be_read_is_nobodys)
{
        cr_assert_str_eq(JOBS({"a/1", 0, 2, NULL, {7}, 2, 10, 60}, {.name = "a/2"}), "0-");
        cr_assert_str_eq(JOBS({.name = "a/1"}), "-");
}

/* Where one job is not clear from the beginnings, the logs are read to their ends: communicators
 * made late count. */
Test(log_jobs, a_communicator_behind_much_else)
{
        static char text[300000];
        _cleanup_free_ struct capo_log_job *jobs = NULL;
        char a[96], b[96], *path[] = {a, b};
        uint32_t job[2];
        struct gen_log g;

        memset(text, 'x', sizeof text - 1);
        for (unsigned i = 0; i < 2; i++) {
                snprintf(path[i], sizeof a, "%s/%u.capo", top, i);
                gen_log_open(&g, path[i], 1);
                gen_log_text(&g, CAPO_FRAME_INFO,
                             "rank\t0\n"); /* twice the same: not one job but for the rest */
                gen_log_comm(&g, (struct capo_log_comm){.id = 1, .n_ranks = 2, .uid = 3 + i}, "c");
                gen_log_text(&g, CAPO_FRAME_FABRIC, text);
                gen_log_comm(&g, (struct capo_log_comm){.id = 2, .n_ranks = 2, .uid = 5}, "late");
                gen_log_close(&g);
        }
        cr_assert_eq(number_jobs(path, 2, job, &jobs), 1);
}

Test(log_jobs, communicators_join_by_way_of_several_logs)
{
        cr_assert_str_eq(JOBS({"a/1", 0, 2, "x", {1}, 2, 10, 20},
                              {"b/1", 0, 2, "x", {2}, 2, 10, 20},
                              {"c/1", 0, 2, "x", {1, 2}, 2, 10, 20}),
                         "000");
        cr_assert_str_eq(
                JOBS({"a/1", 0, 2, "x", {1}, 2, 10, 20}, {"b/1", 0, 2, "x", {2}, 2, 10, 20},
                     {"c/1", 0, 2, "x", {1, 3}, 2, 10, 20}, {"d/1", 0, 2, "x", {2, 3}, 2, 10, 20}),
                "0000");
}

Test(log_jobs, a_job_ends_with_its_last_rank)
{
        cr_assert_str_eq(JOBS({"a/1", 0, 3, NULL, {0}, 0, 10, 20},
                              {"a/2", 1, 3, NULL, {0}, 0, 15, 90},
                              {"a/3", 2, 3, NULL, {0}, 0, 140, 150}),
                         "000");
        cr_assert_str_eq(JOBS({"a/1", 0, 2, NULL, {0}, 0, 10, 20},
                              {"a/2", -1, -1, NULL, {0}, 0, 50, 55},
                              {"a/3", 1, 2, NULL, {0}, 0, 60, 100}),
                         "000", "the second is within what the first and the third are together");
}

Test(log_jobs, ids_are_compared_as_far_as_they_are_kept)
{
        static const char id[] = "0123456789012345678901234567890123456789012345678901234567890";

        for (unsigned i = 0; i < 2; i++) {
                char a[80], b[80];

                snprintf(a, sizeof a, "%s%s", id, i ? "xyA" : "xA");
                snprintf(b, sizeof b, "%s%s", id, i ? "xyB" : "xB");
                cr_assert_str_eq(
                        JOBS({"a/1", 0, 2, a, {0}, 0, 10, 60}, {"a/2", 1, 2, b, {0}, 0, 11, 60}),
                        i ? "00" : "01");
        }
}

/* Logs by hand: a killed process has calls and no end, a communicator may have no number, a rank
 * the first line. */
Test(log_jobs, what_a_log_says_of_its_job)
{
        static const struct {
                const char *info[2];
                uint64_t uid;
                unsigned begin[2], block; /* s; the last call of the first */
                int jobs;
        } rows[] = {
                {{"rank\t0\nworld_size\t2\n", "rank\t1\nworld_size\t2\n"}, 0, {10, 150}, 100, 1},
                {{"rank\t0\nworld_size\t2\n", "rank\t1\nworld_size\t2\n"}, 0, {10, 150}, 50, 2},
                {{"rank\t0\nworld_size\t2\n", "rank\t0\nworld_size\t2\n"}, 0, {10, 10}, 1, 2},
                {{"rank\t0\n", "rank\t0\n"}, 9, {10, 500}, 1, 1},
                {{"rank\t11\nworld_size\t12\n", "rank\t11\nworld_size\t12\n"}, 0, {10, 10}, 1, 2},
        };
        char a[96], b[96], *path[] = {a, b};

        cr_assert_eq(chdir(top), 0);
        for (size_t r = 0; r < N_ELEMENTS(rows); r++) {
                _cleanup_free_ struct capo_log_job *jobs = NULL;
                uint32_t job[2], zero = 0;
                uint16_t shape = 0;

                for (unsigned i = 0; i < 2; i++) {
                        struct capo_log_header header = {
                                .magic = CAPO_LOG_MAGIC,
                                .order = CAPO_LOG_ORDER,
                                .version = 1,
                                .min_reader = 1,
                                .header_size = sizeof header,
                                .t0_real_ns = (1795183331 + rows[r].begin[i]) * SECOND,
                                .ticks_per_s = SECOND};
                        struct gen_log g;

                        snprintf(path[i], sizeof a, "%c.capo",
                                 "ab"[i]); /* in one folder, which has no name */
                        gen_log_open_with(&g, path[i], &header);
                        gen_log_text(&g, CAPO_FRAME_INFO, rows[r].info[i]);
                        gen_log_comm(
                                &g,
                                (struct capo_log_comm){.id = 1, .n_ranks = 2, .uid = rows[r].uid},
                                "c");
                        gen_log_shapes(&g, &(struct capo_log_shape){.call = CAPO_CALL_ALLREDUCE},
                                       1);
                        gen_log_block(&g, (i ? 1 : rows[r].block) * SECOND, 1, 1, &zero, &zero,
                                      &zero, &shape, NULL, NULL);
                        gen_log_close(&g);
                }
                cr_expect_eq(number_jobs(path, 2, job, &jobs), rows[r].jobs, "row %zu", r);
        }
}

Test(log_jobs, a_folder_without_a_name)
{
        _cleanup_free_ struct capo_log_job *jobs = NULL;
        char a[] = "a.capo", b[] = "b.capo", *path[] = {a, b};
        uint32_t job[2];

        cr_assert_eq(chdir(top), 0);
        for (unsigned i = 0; i < 2; i++)
                make(&(struct made){.rank = -1, .n_ranks = -1, .begin = 10, .end = 20}, path[i]);
        cr_expect_eq(number_jobs(path, 2, job, &jobs), 1, "one folder, one time");
}
