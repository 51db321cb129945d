/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "cli/base/cli.h"

int capo_verb_env(int argc, char **argv)
{
        if (argc == 2 && !strcmp(argv[1], "--help")) {
                puts("usage: capo env [--markdown]\n\n"
                     "Lists every setting capo reads: the value in force (- when unset), the default, what it means.\n"
                     "What capo run would set for its command is not in force here. --markdown prints the table of "
                     "docs/env.md.\n\n"
                     "  capo env\n"
                     "  capo env | grep PROFILE\n\n"
                     "Exit status: 0; 2 wrong command line.");
                return CAPO_EXIT_OK;
        }
        if (argc == 2 && !strcmp(argv[1], "--markdown")) {
                capo_env_print(stdout, true);
                return CAPO_EXIT_OK;
        }
        if (argc > 1) {
                capo_error("env: unknown option \"%s\"; capo env --help", argv[1]);
                return CAPO_EXIT_USAGE;
        }
        capo_env_print(stdout, false);
        return CAPO_EXIT_OK;
}
