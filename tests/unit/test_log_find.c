/* SPDX-License-Identifier: Apache-2.0 */
/* Which logs a name on a command line means. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "capo/msg.h"
#include "core/base/util.h"
#include "analysis/log/log_find.h"
#include "tests/golden/gen_log.h"
#include "tests/log_numbers.h"

static char top[] = "/tmp/capo-test-find-XXXXXX", why[512];

/* A folder, or an empty file of the age given in seconds. */
static void make(const char *name, int age)
{
        char path[256];

        snprintf(path, sizeof path, "%s/%s", top, name);
        if (age < 0) {
                cr_assert_eq(mkdir(path, 0700), 0);
        } else {
                struct timespec t[2] = {{.tv_sec = 1000000 - age}, {.tv_sec = 1000000 - age}};

                close(open(path, O_CREAT | O_WRONLY, 0600));
                cr_assert_eq(utimensat(AT_FDCWD, path, t, 0), 0);
        }
}

static void start(void)
{
        close(STDIN_FILENO); /* as daemons do: 0 is a descriptor like any other */
        capo_msg_set_level(CAPO_ERROR);
        cr_assert(mkdtemp(top));
}

static void stop(void)
{
        char command[64];

        snprintf(command, sizeof command, "rm -rf %s", top);
        cr_assert_eq(system(command), 0);
}

TestSuite(log_find, .init = start, .fini = stop);

/* What @names (spaces between, below @top) stand for, in one line, without @top. */
static const char *found(const char *names)
{
        _cleanup_(capo_log_paths_finish) struct capo_log_paths paths = {0};
        static char line[1024];
        char copy[256], *save = NULL, *args[8];
        size_t n = 0;

        snprintf(copy, sizeof copy, "%s", names);
        for (char *name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save))
                cr_assert_gt(asprintf(&args[n++], "%s%s%s", top, *name == '.' ? "" : "/",
                                      *name == '.' ? "" : name),
                             0);
        line[0] = 0;
        if (capo_log_find(args, n, &paths, why, sizeof why) < 0)
                return NULL;
        for (size_t i = 0; i < paths.n; i++)
                strcat(strcat(line, i ? " " : ""), paths.path[i] + strlen(top) + 1);
        strcat(line, " in");
        for (size_t i = 0; i < paths.n_folders; i++)
                strcat(strcat(line, " "),
                       paths.folder[i] + strlen(top) + (paths.folder[i][strlen(top)] == '/'));
        while (n)
                free(args[--n]);
        return line;
}

Test(log_find, files_as_they_are_and_folders_by_name)
{
        make("job", -1);
        make("job/b.2.capo", 0);
        make("job/a.1.capo", 9);
        make("job/.hidden.capo", 0);
        make("job/.capo", 0);
        make("job/notes.txt", 0);
        make("other.log", 0);
        cr_assert_str_eq(found("job"), "job/a.1.capo job/b.2.capo in job");
        cr_assert_str_eq(found("job/"), "job/a.1.capo job/b.2.capo in job/");
        cr_assert_str_eq(found("other.log job/b.2.capo"), "other.log job/b.2.capo in",
                         "a file need not be called so");
        cr_assert_str_eq(found("other.log job"), "other.log job/a.1.capo job/b.2.capo in job");
}

Test(log_find, a_folder_of_jobs_is_its_newest)
{
        make("logs", -1);
        make("logs/1", -1);
        make("logs/1/a.1.capo", 100);
        make("logs/2", -1);
        make("logs/2/a.1.capo", 50);
        make("logs/2/b.1.capo", 200);
        make("logs/3", -1);
        make("logs/3/notes", 0);
        cr_assert_str_eq(found("logs"), "logs/2/a.1.capo logs/2/b.1.capo in logs/2");
}

Test(log_find, a_log_as_old_as_time)
{
        make("logs", -1);
        make("logs/1", -1);
        make("logs/1/a.1.capo", 1000000); /* of 1970-01-01 00:00:00 */
        cr_assert_str_eq(found("logs"), "logs/1/a.1.capo in logs/1");
}

Test(log_find, a_folder_without_logs_is_only_named)
{
        make("empty", -1);
        make("empty/sub", -1);
        cr_assert_str_eq(found("empty"), " in empty");
}

Test(log_find, what_is_not_there_is_said)
{
        make("a.capo", 0);
        cr_assert_null(found("a.capo missing"));
        cr_assert(strstr(why, "/missing: no such folder or log"), "%s", why);
}

/* Enough that lists grow several times. */
Test(log_find, many)
{
        _cleanup_(capo_log_paths_finish) struct capo_log_paths paths = {0};
        char name[32], *args[] = {top};

        for (unsigned i = 0; i < 100; i++) {
                snprintf(name, sizeof name, "n%02u.capo", i);
                make(name, 0);
        }
        cr_assert_eq(capo_log_find(args, 1, &paths, why, sizeof why), 0);
        cr_assert_eq(paths.n, 100);
        for (unsigned i = 0; i < 100; i++) {
                snprintf(name, sizeof name, "n%02u.capo", i);
                cr_assert_str_eq(strrchr(paths.path[i], '/') + 1, name);
        }
        capo_log_paths_finish(&paths);
        cr_assert(!paths.path && !paths.n);
}

/* A log of @rank of job @id, that ran from @begin to @end s, last written then. */
static void make_log(const char *name, const char *id, int rank, unsigned begin, unsigned end)
{
        const uint64_t second = 1000000000, epoch = 1795183331 * second;
        struct capo_log_header header = {.magic = CAPO_LOG_MAGIC,
                                         .order = CAPO_LOG_ORDER,
                                         .version = 1,
                                         .min_reader = 1,
                                         .header_size = sizeof header,
                                         .t0_real_ns = epoch + begin * second,
                                         .ticks_per_s = second};
        struct capo_log_end e = {.t_ns = (end - begin) * second, .clean = 1};
        struct timespec t[2] = {{.tv_sec = (time_t)(epoch / second + end)},
                                {.tv_sec = (time_t)(epoch / second + end)}};
        char path[256], text[64];
        struct gen_log g;

        snprintf(path, sizeof path, "%s/%s", top, name);
        snprintf(text, sizeof text, "host\tnode\nrank\t%d\nworld_size\t2\njob\t%s\n", rank, id);
        gen_log_open_with(&g, path, &header);
        gen_log_text(&g, CAPO_FRAME_INFO, text);
        gen_log_frame(&g, CAPO_FRAME_END, &e, sizeof e);
        gen_log_close(&g);
        cr_assert_eq(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* What was said since the last time. */
static const char *said(void)
{
        static char text[2048];
        static int out = -1;
        ssize_t n;

        if (out < 0) {
                int ends[2];

                cr_assert_eq(pipe(ends), 0);
                cr_assert(dup2(ends[1], STDERR_FILENO) >= 0);
                out = ends[0];
        }
        cr_assert_eq(write(STDERR_FILENO, "|", 1), 1);
        n = read(out, text, sizeof text - 1);
        cr_assert_gt(n, 0);
        text[n] = 0;
        return text;
}

Test(log_find, jobs_of_one_folder_have_numbers)
{
        struct capo_log_paths *jobs;
        char folder[128];
        size_t n;

        make("logs", -1);
        make_log("logs/a.capo", "1", 0, 100, 150);
        make_log("logs/c.capo", "2", 0, 200, 250);
        make_log("logs/b.capo", "3", 0, 300, 350);
        make("logs/junk.capo", 0);
        cr_assert_str_eq(found("logs@1"), "logs/a.capo logs/junk.capo in logs");
        cr_assert_str_eq(found("logs@2"), "logs/c.capo logs/junk.capo in logs");
        cr_assert_str_eq(found("logs@3"), "logs/b.capo logs/junk.capo in logs");
        cr_assert_null(found("logs@4"));
        cr_assert_null(found("logs@0"));
        said();
        capo_msg_set_level(CAPO_INFO);
        cr_assert_str_eq(found("logs"), "logs/b.capo logs/junk.capo in logs");
        cr_assert(strstr(said(), "holds 3 jobs; this is job 3, the newest (1 log, from "));
        cr_assert_str_eq(found("logs@3"), "logs/b.capo logs/junk.capo in logs");
        cr_assert_str_eq(said(), "|", "who gives a number knows");
        snprintf(folder, sizeof folder, "%s/logs", top);
        cr_assert_eq(capo_log_find_jobs(folder, &jobs, &n), 0);
        cr_assert_eq(n, 3);
        for (size_t i = 0; i < n; i++) {
                cr_expect_eq(jobs[i].n, 2);
                cr_expect_eq(jobs[i].path[0][strlen(folder) + 1], "acb"[i]);
                capo_log_paths_finish(&jobs[i]);
        }
        free(jobs);
}

Test(log_find, a_file_that_is_no_log_hides_no_job_below)
{
        make("logs", -1);
        make("logs/y.capo", 0);
        make("logs/1", -1);
        make_log("logs/1/a.capo", "1", 0, 100, 150);
        cr_assert_str_eq(found("logs"), "logs/1/a.capo in logs/1");
        make_log("logs/c.capo", "2", 0, 200, 250);
        cr_assert_str_eq(found("logs"), "logs/c.capo logs/y.capo in logs");
}

/* In folders of a folder, also where one job's ranks are in two of them; what is older is not
 * looked into. */
Test(log_find, a_job_in_several_folders)
{
        make("logs", -1);
        make("logs/n0", -1);
        make("logs/n1", -1);
        make("logs/old", -1);
        make_log("logs/old/a.capo", "1", 0, 100, 150);
        make_log("logs/n0/a.capo", "2", 0, 200, 250);
        make_log("logs/n1/a.capo", "2", 1, 200, 260);
        make("logs/n1/junk.capo", 0);
        said();
        capo_msg_set_level(CAPO_INFO);
        cr_assert_str_eq(found("logs"),
                         "logs/n1/a.capo logs/n1/junk.capo logs/n0/a.capo in logs/n1 logs/n0");
        cr_assert(strstr(said(),
                         "holds older jobs too (1 folder); this is the newest (2 logs, from "));
        cr_assert_str_eq(found("logs@1"), "logs/old/a.capo in logs/old");
        cr_assert_str_eq(found("logs@2"),
                         "logs/n1/a.capo logs/n1/junk.capo logs/n0/a.capo in logs/n1 logs/n0");
        cr_assert_null(found("logs@3"));
}

/* Under two names, as a copy, or as one from before it grew: once, the longest. What goes on in
 * another way stays. */
Test(log_find, a_log_that_is_there_twice)
{
        char command[256];

        make_log("a.capo", "1", 0, 100, 150);
        make_log("b.capo", "2", 0, 200, 250);
        snprintf(
                command, sizeof command,
                "cd %s && cp b.capo c.capo && ln b.capo d.capo && (cat b.capo; echo) >e.capo && cp e.capo f.capo && "
                "(cat b.capo; echo other) >g.capo && head -c 80 b.capo >h.capo",
                top);
        cr_assert_eq(system(command), 0);
        cr_assert_str_eq(found("a.capo b.capo c.capo d.capo e.capo f.capo"), "a.capo e.capo in");
        cr_assert_str_eq(found("e.capo d.capo c.capo a.capo a.capo"), "e.capo a.capo in");
        cr_assert_str_eq(found("b.capo c.capo"), "b.capo in");
        cr_assert_str_eq(found("b.capo a.capo c.capo e.capo"), "a.capo e.capo in",
                         "also far from each other");
        cr_assert_str_eq(found("e.capo g.capo h.capo a.capo"), "e.capo g.capo a.capo in");
        cr_assert_str_eq(found("h.capo b.capo"), "b.capo in");
}

Test(log_find, the_newest_by_a_nanosecond)
{
        struct timespec t[2] = {{.tv_sec = 1000000, .tv_nsec = 5},
                                {.tv_sec = 1000000, .tv_nsec = 5}};
        char path[256];

        make("logs", -1);
        make("logs/a", -1);
        make("logs/a/a.1.capo", 0);
        make("logs/b", -1);
        make("logs/b/a.1.capo", 0);
        snprintf(path, sizeof path, "%s/logs/a/a.1.capo", top);
        cr_assert_eq(utimensat(AT_FDCWD, path, t, 0), 0);
        cr_assert_str_eq(found("logs"), "logs/a/a.1.capo in logs/a");
}

/* A job that ended in the very moment in which the newest began may have logs of it. */
Test(log_find, a_folder_last_written_when_the_newest_job_began)
{
        make("logs", -1);
        make("logs/new", -1);
        make("logs/old", -1);
        make_log("logs/old/a.capo", "1", 0, 100, 200);
        make_log("logs/new/a.capo", "2", 0, 200, 250);
        said();
        capo_msg_set_level(CAPO_INFO);
        cr_assert_str_eq(found("logs"), "logs/new/a.capo in logs/new");
        cr_assert(strstr(said(), "holds 2 jobs; this is job 2, the newest (1 log, from 2026-11-2"));
}

Test(log_find, of_one_job_nothing_is_said)
{
        make("logs", -1);
        make_log("logs/a.capo", "1", 0, 100, 150);
        said();
        capo_msg_set_level(CAPO_INFO);
        cr_assert_str_eq(found("logs"), "logs/a.capo in logs");
        cr_assert_str_eq(said(), "|");
        cr_assert_null(found("logs@2"));
        cr_assert(strstr(why, "logs@2: there is no job 2 in that folder"), "%s", why);
        cr_assert_null(found("logs@9"));
        cr_assert(strstr(why, "there is no job 9"), "%s", why);
        cr_assert_null(found("logs@1x"));
        cr_assert(strstr(why, "no such folder or log"), "%s", why);
        make_log("other.capo", "2", 0, 100, 150);
        cr_assert_str_eq(found("logs@1 other.capo"), "logs/a.capo other.capo in logs");
}

Test(log_find, only_a_folder_has_jobs)
{
        struct capo_log_paths *jobs = (struct capo_log_paths *)why;
        size_t n = 7;
        char path[128];

        make_log("a.capo", "1", 0, 100, 150);
        snprintf(path, sizeof path, "%s/a.capo", top);
        cr_expect_eq(capo_log_find_jobs(path, &jobs, &n), 0);
        cr_expect(n == 0 && !jobs);
        cr_expect_eq(capo_log_find_jobs("/nonexistent", &jobs, &n), 0);
        cr_expect(n == 0 && !jobs);
}
