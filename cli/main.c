/* SPDX-License-Identifier: Apache-2.0 */
/* The capo command: finds the verb in the table and calls it. */
#include <stdio.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "core/base/util.h"

#ifndef CAPO_VERSION
#define CAPO_VERSION "unknown"
#endif

static const struct verb {
        const char *name;
        int (*run)(int argc, char **argv);
        const char *help;
} verbs[] = {
#define VERB(name, help) {#name, capo_verb_##name, help},
#include "cli/base/verbs.def"
#undef VERB
};

static void usage(FILE *out)
{
        fputs("usage: capo VERB [OPTIONS]\n\n"
              "Records what an unmodified NCCL job's collectives cost, and makes NCCL choose better ones.\n\n",
              out);
        for (size_t i = 0; i < N_ELEMENTS(verbs); i++)
                fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].help);
        fputs("\ncapo VERB --help explains one verb.\n", out);
}

int main(int argc, char **argv)
{
        if (argc < 2) {
                usage(stderr);
                return CAPO_EXIT_USAGE;
        }
        if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
                usage(stdout);
                return CAPO_EXIT_OK;
        }
        if (!strcmp(argv[1], "--version")) {
                puts("capo " CAPO_VERSION);
                return CAPO_EXIT_OK;
        }
        for (size_t i = 0; i < N_ELEMENTS(verbs); i++) {
                if (!strcmp(argv[1], verbs[i].name))
                        return verbs[i].run(argc - 1, argv + 1);
        }
        capo_error("unknown verb \"%s\"; capo --help lists them", argv[1]);
        return CAPO_EXIT_USAGE;
}
