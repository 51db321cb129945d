/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/env.h"
#include "cli/base/cli.h"

struct options {
        bool markdown;
};

static int run_env(void *options, int n, char **words)
{
        const struct options *o = options;

        capo_env_print(stdout, o->markdown);
        return CAPO_EXIT_OK;
}

static const struct cli_option options[] = {
        {"markdown", CLI_FLAG(struct options, markdown), "the table of docs/env.md"}, {0}};

const struct cli_command env_command = {
        .usage = "[--markdown]",
        .about =
                "Lists every setting capo reads: the value in force (- when unset), the default, what it means. What "
                "capo run would set for its command is not in force here.",
        .options = options,
        .after = "  capo env\n"
                 "  capo env | grep PROFILE",
        .status = "0; 2 wrong command line.",
        .size = sizeof(struct options),
        .run = run_env,
};
