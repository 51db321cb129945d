/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
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
