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
#include "core/log/find.h"

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
                cr_assert_gt(asprintf(&args[n++], "%s%s%s", top, *name == '.' ? "" : "/", *name == '.' ? "" : name), 0);
        line[0] = 0;
        if (capo_log_find(args, n, &paths, why, sizeof why) < 0)
                return NULL;
        for (size_t i = 0; i < paths.n; i++)
                strcat(strcat(line, i ? " " : ""), paths.path[i] + strlen(top) + 1);
        strcat(line, " in");
        for (size_t i = 0; i < paths.n_folders; i++)
                strcat(strcat(line, " "), paths.folder[i] + strlen(top) + (paths.folder[i][strlen(top)] == '/'));
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
        cr_assert_str_eq(found("other.log job/b.2.capo"), "other.log job/b.2.capo in", "a file need not be called so");
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
        make("logs/c.1.capo", 300);
        cr_assert_str_eq(found("logs"), "logs/c.1.capo in logs", "logs of its own go before");
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
        cr_assert(strstr(why, "/missing: No such file or directory"), "%s", why);
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
