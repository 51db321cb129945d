/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/site_conf.h"

Test(env, defaults_then_values)
{
        struct capo_env env;

        capo_msg_set_level(CAPO_ERROR);
        unsetenv("CAPO_GPU_SAMPLE");
        unsetenv("CAPO_QUIET");
        cr_assert_eq(capo_env_read(&env), 0);
        cr_assert_eq(env.gpu_sample, 8);
        cr_assert_not(env.quiet);
        setenv("CAPO_GPU_SAMPLE", "100", 1);
        setenv("CAPO_QUIET", "yes", 1);
        setenv("CAPO_DIR", "/some/where", 1);
        cr_assert_eq(capo_env_read(&env), 0);
        cr_assert_eq(env.gpu_sample, 100);
        cr_assert(env.quiet);
        cr_assert_str_eq(env.dir, "/some/where");
}

Test(env, a_bad_value_gets_the_default)
{
        struct capo_env env;

        capo_msg_set_level(CAPO_ERROR);
        setenv("CAPO_GPU_SAMPLE", "often", 1);
        setenv("CAPO_QUIET", "maybe", 1);
        cr_assert_eq(capo_env_read(&env), 2);
        cr_assert_eq(env.gpu_sample, 8);
        cr_assert_not(env.quiet);
}

Test(env, what_is_understood)
{
        static const struct {
                const char *name, *text;
                int r;
                const char *of;
        } rows[] = {
                {"CAPO_GPU_SAMPLE", "100", 0, "a whole number"},
                {"CAPO_GPU_SAMPLE", "-3", 0, "a whole number"},
                {"CAPO_GPU_SAMPLE", "", 0, "a whole number"},
                {"CAPO_GPU_SAMPLE", "8x", -EINVAL, "a whole number"},
                {"CAPO_GPU_SAMPLE", "x", -EINVAL, "a whole number"},
                {"CAPO_QUIET", "1", 0, "0 or 1"},
                {"CAPO_QUIET", "FALSE", 0, "0 or 1"},
                {"CAPO_QUIET", "2", -EINVAL, "0 or 1"},
                {"CAPO_DIR", "anything at all", 0, "text"},
                {"CAPO_DIR", "", 0, "text"},
                {"CAPO_NO_SUCH_SETTING", "1", -ENOENT, ""},
                {"", "1", -ENOENT, ""},
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                const char *of = "";

                cr_expect_eq(capo_env_understood(rows[i].name, rows[i].text, &of), rows[i].r,
                             "row %zu", i);
                cr_expect_str_eq(of, rows[i].of, "row %zu", i);
        }
}

Test(env, words_of_yes_and_no)
{
        static const char *const words[] = {"0", "1", "no", "yes", "OFF", "On", "false", "True"};
        struct capo_env env;

        for (int i = 0; i < 8; i++) {
                setenv("CAPO_QUIET", words[i], 1);
                cr_assert_eq(capo_env_read(&env), 0);
                cr_expect_eq(env.quiet, i % 2, "%s", words[i]);
        }
        setenv("CAPO_QUIET", "", 1);
        cr_assert_eq(capo_env_read(&env), 0);
        cr_expect_not(env.quiet, "an empty variable is none");
}

Test(env, site_defaults_where_the_environment_says_nothing)
{
        char path[] = "/tmp/capo-conf-XXXXXX", other[64];
        FILE *file = fdopen(mkstemp(path), "w");
        struct capo_env env;

        cr_assert(file);
        fputs("# of the site\n\n  CAPO_DIR=/logs/a b \r\nCAPO_HANG=60\nCAPO_FLIGHT=often\n"
              "CAPO_RUN_PID=1\nCAPO_CONF=none\nCAPO_QUIET=1",
              file);
        fclose(file);
        setenv("CAPO_CONF", path, 1);
        setenv("CAPO_HANG", "7", 1);
        unsetenv("CAPO_DIR");
        unsetenv("CAPO_FLIGHT");
        unsetenv("CAPO_QUIET");
        unsetenv("CAPO_RUN_PID");
        capo_msg_set_level(CAPO_ERROR);
        cr_assert_eq(capo_env_read(&env), 1, "CAPO_FLIGHT is no number");
        cr_expect_str_eq(env.dir, "/logs/a b");
        cr_expect_eq(env.hang, 7, "the environment wins");
        cr_expect_eq(env.flight, 16384);
        cr_expect(env.quiet, "the last line needs no end");
        cr_expect_str_eq(env.run_pid, "", "not a setting for users");
        setenv("CAPO_DIR", "", 1);
        cr_assert_eq(capo_env_read(&env), 1);
        cr_expect_str_eq(env.dir, "", "an empty variable wins too");
        unsetenv("CAPO_DIR");

        cr_assert_eq(chmod(path, 0666), 0);
        cr_assert_eq(capo_env_read(&env), 0);
        cr_expect_str_eq(env.dir, "", "others may write to the file");
        cr_assert_eq(chmod(path, 0644), 0);
        cr_assert_eq(truncate(path, CAPO_SITE_ROOM), 0);
        capo_env_read(&env);
        cr_expect_str_eq(env.dir, "", "larger than its memory");
        unlink(path);
        snprintf(other, sizeof other, "%s", "none");
        setenv("CAPO_CONF", other, 1);
        cr_assert_eq(capo_env_read(&env), 0);
}

/* capo run has printed what is wrong in its node's file; another node's file may be another. */
Test(env, the_file_that_capo_run_read_is_known)
{
        static const char text[] = "CAPO_HANG=60\0CAPO_TRACE=all\0";
        char pid[32];

        unsetenv("CAPO_RUN_PID");
        cr_expect_not(capo_site_is_known(text, "x:3: wrong"), "no capo run");
        snprintf(pid, sizeof pid, "7@%08x", capo_site_hash(text, "x:3: wrong"));
        setenv("CAPO_RUN_PID", pid, 1);
        cr_expect(capo_site_is_known(text, "x:3: wrong"));
        cr_expect_not(capo_site_is_known(text, "x:4: wrong"));
        cr_expect_not(capo_site_is_known("CAPO_HANG=60\0", "x:3: wrong"));
        cr_expect_not(capo_site_is_known("", ""));
        setenv("CAPO_RUN_PID", "7", 1);
        cr_expect(capo_site_is_known(text, "x:3: wrong"), "of a capo run without a hash");
}

/* What a line's end, a cut or a long line leaves never goes beyond what was given. */
Test(env, site_defaults_of_any_bytes)
{
        static const char whole[] = "CAPO_DIR=/x\nCAPO_HANG=1\n#\n=\nCAPO_DIR\n\tCAPO_QUIET=1\r\n";

        for (size_t n = 0; n < sizeof whole; n++) {
                char *text = malloc(n + 2), fault[CAPO_SITE_FAULT] = "";

                memcpy(text, whole, n);
                cr_assert_leq(capo_site_parse(text, n, "file", fault), 3);
                if (n == sizeof whole - 1)
                        cr_assert(strstr(fault, "file:4: "), "the first bad line: %s", fault);
                for (const char *at = text; *at; at += strlen(at) + 1)
                        cr_assert_lt(at - text, (ptrdiff_t)n + 1);
                free(text);
        }
}
