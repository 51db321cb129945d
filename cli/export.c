/* SPDX-License-Identifier: Apache-2.0 */
/* capo export: any measurements capo can read, as one flat CSV. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/inputs.h"

static void help(void)
{
        puts("usage: capo export [LABELS] INPUT... [-o FILE]\n\n"
             "Writes measurements as flat CSV, one line per sample, for the engine your site already has: DuckDB, "
             "Spark,\n"
             "pandas (docs/scale.md shows them). Inputs are what capo fit reads: folders of capo logs, nccl-tests "
             "output or\n"
             "its JSON, sweep CSV, NCCL Inspector JSON; also a store, as store:FILE. Columns: docs/store.md.\n\n"
             "  -o FILE         write there; default standard output");
        fputs(capo_inputs_help(), stdout);
        puts("\nexamples:\n"
             "  capo export capo-logs/ -o samples.csv\n"
             "  capo export --nccl 2.21.5 --layout 8 old-run.txt | head\n\n"
             "Exit status: 0; 1 an input cannot be read or FILE not written, 2 wrong command line.");
}

int capo_verb_export(int argc, char **argv)
{
        struct capo_samples set = {0};
        struct capo_label label = {0};
        const char *path = NULL;
        FILE *out = stdout;
        int inputs = 0, status = CAPO_EXIT_OK, r;

        for (int i = 1; i < argc && status == CAPO_EXIT_OK; i++) {
                if (!strcmp(argv[i], "--help")) {
                        help();
                        goto end;
                }
                if (!strcmp(argv[i], "-o")) {
                        if (++i == argc) {
                                capo_error("export: -o needs a file");
                                status = CAPO_EXIT_USAGE;
                        } else {
                                path = argv[i];
                        }
                        continue;
                }
                r = capo_inputs_option(&label, argc, argv, &i);
                if (r < 0) {
                        status = CAPO_EXIT_USAGE;
                } else if (r == 0 && argv[i][0] == '-') {
                        capo_error("export: unknown option \"%s\"; capo export --help", argv[i]);
                        status = CAPO_EXIT_USAGE;
                } else if (r == 0) {
                        inputs++;
                        if (capo_inputs_read(argv[i], &label, &set) < 0)
                                status = CAPO_EXIT_FAIL;
                }
        }
        if (status == CAPO_EXIT_OK && inputs == 0) {
                capo_error("export: no input; capo export --help");
                status = CAPO_EXIT_USAGE;
        }
        if (status != CAPO_EXIT_OK)
                goto end;
        capo_inputs_notes(&set);
        if (path && !(out = fopen(path, "we"))) {
                capo_error("%s: %s", path, strerror(errno));
                status = CAPO_EXIT_FAIL;
                goto end;
        }
        capo_inputs_csv(out, &set);
        if (fflush(out) || ferror(out)) {
                capo_error("%s: %s", path ? path : "standard output", strerror(errno));
                status = CAPO_EXIT_FAIL;
        }
        if (out != stdout)
                fclose(out);
end:
        capo_samples_free(&set);
        return status;
}
