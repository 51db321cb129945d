/* SPDX-License-Identifier: Apache-2.0 */
/* capo export: writes any measurements that capo can read as one flat CSV. */

#include "cli/base/cli_inputs.h"
#include "cli/base/cli_output.h"

struct options {
        struct cli_inputs inputs;
        const char *out;
};

static int add_export_input(void *options, char *word)
{
        return cli_inputs_add(&((struct options *)options)->inputs, word);
}

static int run_export(void *options, int n, char **words)
{
        const struct options *o = options;
        struct capo_samples set = {0};
        struct cli_output out;
        int r = cli_inputs_read(&o->inputs, &set);

        if (r == 0) {
                cli_inputs_notes(&set);
                r = cli_output_open(&out, o->out);
                if (r == 0)
                        r = cli_output_close(&out, cli_inputs_csv(out.file, &set));
        }
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static const struct cli_option options[] = {
        {"output", CLI_FILE(struct options, out, "FILE"), "write there; default standard output",
         .letter = 'o'},
        {CLI_TABLE(struct options, inputs.label, cli_label_options), CLI_LABELS_HELP},
        {0}};

const struct cli_command export_command = {
        .usage = "[LABELS] INPUT... [-o FILE]",
        .about =
                "Writes measurements as flat CSV, one line per sample, for the engine your site already has: DuckDB, "
                "Spark, pandas (docs/scale.md shows them). Inputs are what capo fit reads: folders of capo logs, "
                "nccl-tests output or its JSON, sweep CSV, NCCL Inspector JSON; also a store, as store:FILE. Columns: "
                "docs/store.md.",
        .options = options,
        .after = "examples:\n"
                 "  capo export capo-logs/ -o samples.csv\n"
                 "  capo export --nccl 2.21.5 --layout 8 old-run.txt | head",
        .status = "0; 1 an input cannot be read or FILE not written, 2 wrong command line.",
        .missing = "no input",
        .least = 1,
        .most = UINT_MAX,
        .size = sizeof(struct options),
        .take = add_export_input,
        .run = run_export,
};
