/* SPDX-License-Identifier: Apache-2.0 */
/* A list of logs opens each once; one that has more logs than this process may have files is read
 * all the same. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "analysis/log/log_paths.h"
#include "analysis/log/log_window.h"
#include "core/base/util.h"
#include "tests/golden/gen_log.h"
#include "tests/log_numbers.h"

enum { LOGS = 60 };
static char dir[] = "/tmp/capo-test-paths-XXXXXX";
static struct capo_log_paths paths;

static void write_log(const char *path, unsigned i)
{
        struct gen_log g;
        char text[32];

        snprintf(text, sizeof text, "rank\t%u\n", i);
        gen_log_open(&g, path, 100 + i);
        gen_log_text(&g, CAPO_FRAME_INFO, text);
        gen_log_close(&g);
}

static void make_logs(void)
{
        cr_assert(mkdtemp(dir));
        for (unsigned i = 0; i < LOGS; i++) {
                char path[64];

                snprintf(path, sizeof path, "%s/%u.capo", dir, i);
                write_log(path, i);
                capo_log_paths_add(&paths, path, NULL);
        }
}

static void remove_logs(void)
{
        char command[64];

        capo_log_paths_finish(&paths);
        snprintf(command, sizeof command, "rm -rf %s", dir);
        cr_assert_eq(system(command), 0);
}

TestSuite(log_paths, .init = make_logs, .fini = remove_logs);

/* Every log is opened, read to its end and parked. */
static void read_each(void)
{
        for (unsigned i = 0; i < LOGS; i++) {
                struct capo_log_frame f;
                struct capo_log *log;
                char why[256], text[32];

                cr_assert_eq(capo_log_paths_open(&paths, i, &log, why, sizeof why), 0, "%s", why);
                cr_assert_eq(capo_log_header(log)->pid, 100 + i);
                snprintf(text, sizeof text, "rank\t%u\n", i);
                cr_assert_eq(capo_log_next(log, &f), 1);
                cr_assert(f.type == CAPO_FRAME_INFO && f.size == strlen(text) &&
                          !memcmp(f.payload, text, f.size));
                cr_assert_eq(capo_log_next(log, &f), 0);
                capo_log_park(log);
        }
}

Test(log_paths, each_is_opened_once)
{
        struct capo_log *log;
        char why[256];

        read_each();
        read_each();
        cr_expect_eq(capo_log_window_opened(), LOGS);
        cr_assert_eq(capo_log_paths_take(&paths, 7, &log, why, sizeof why), 0, "%s", why);
        cr_expect(!paths.log[7]);
        cr_expect_eq(capo_log_window_opened(), LOGS);
        capo_log_close(log);
}

/* From here on this process, and this test alone, may have so many files. */
static void allow_files(rlim_t n)
{
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){n, n}), 0);
}

Test(log_paths, more_than_there_may_be_open_files)
{
        allow_files(LOGS / 2);
        read_each();
        cr_expect_eq(capo_log_window_opened(), LOGS);
        read_each();
        cr_expect(capo_log_window_opened() > LOGS && capo_log_window_opened() <= 2 * LOGS);
}

Test(log_paths, another_log_of_that_name_is_not_taken_for_it)
{
        struct capo_log_frame f;
        struct capo_log *log;
        char why[256], other[64];
        unsigned i = LOGS - 1; /* closed: others are open */

        allow_files(LOGS / 2);
        read_each();
        snprintf(other, sizeof other, "%s/other.capo", dir);
        write_log(other, i);
        cr_assert_eq(rename(other, paths.path[i]), 0);
        cr_assert_eq(capo_log_paths_open(&paths, i, &log, why, sizeof why), 0);
        cr_expect_eq(capo_log_next(log, &f), -ESTALE);
}
