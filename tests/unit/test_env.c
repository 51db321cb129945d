/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "capo/env.h"
#include "capo/msg.h"

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
                {"CAPO_GPU_SAMPLE", "100", 0, "INT"},
                {"CAPO_GPU_SAMPLE", "-3", 0, "INT"},
                {"CAPO_GPU_SAMPLE", "", 0, "INT"},
                {"CAPO_GPU_SAMPLE", "8x", -EINVAL, "INT"},
                {"CAPO_GPU_SAMPLE", "x", -EINVAL, "INT"},
                {"CAPO_QUIET", "1", 0, "BOOL"},
                {"CAPO_QUIET", "FALSE", 0, "BOOL"},
                {"CAPO_QUIET", "2", -EINVAL, "BOOL"},
                {"CAPO_DIR", "anything at all", 0, "STR"},
                {"CAPO_DIR", "", 0, "STR"},
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
